#include <array>
#include <cerrno>
#include <map>
#include <span>
#include <vector>

#include <absl/strings/numbers.h>
#include <sys/eventfd.h>

#include "collectives/bootstrap/socket.h"
#include "collectives/bootstrap/store_wire.h"
#include "collectives/bootstrap/tcp_store.h"
#include "transport/base/bytes.h"

namespace spindrift::collectives {
namespace {

constexpr std::size_t kMaxClients = 512;
constexpr std::size_t kMaxEntries = 65536;
constexpr std::size_t kMaxStoredBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxRequestBytes =
    kStoreRequestBytes + Store::kMaxKeyBytes + Store::kMaxValueBytes;

struct Client {
  int fd = -1;
  std::string received;
  std::string unsent;
  std::string waits_for;    // key of a get without an answer yet
  bool has_spoken = false;  // sent a valid request
  bool is_over = false;
};

struct Request {
  StoreOperation operation = StoreOperation::kGet;
  std::string_view key;
  std::string_view value;
  std::int64_t number = 0;
  std::size_t bytes = 0;
};

enum class Parse { kOk, kIncomplete, kGarbage };

Parse parse_request(std::string_view bytes, Request& out) {
  if (bytes.size() < kStoreRequestBytes) return Parse::kIncomplete;
  ByteReader reader(std::as_bytes(std::span(bytes.data(), bytes.size())));
  const std::uint32_t magic = reader.u32();
  const std::uint8_t operation = reader.u8();
  (void)reader.u8();
  const std::size_t key_bytes = reader.u16();
  const std::size_t value_bytes = reader.u32();
  out.number = static_cast<std::int64_t>(reader.u64());
  if (magic != kStoreMagic || operation < 1 || operation > 3 || key_bytes == 0 ||
      key_bytes > Store::kMaxKeyBytes || value_bytes > Store::kMaxValueBytes) {
    return Parse::kGarbage;
  }
  out.operation = static_cast<StoreOperation>(operation);
  out.bytes = kStoreRequestBytes + key_bytes + value_bytes;
  if (bytes.size() < out.bytes) return Parse::kIncomplete;
  out.key = bytes.substr(kStoreRequestBytes, key_bytes);
  out.value = bytes.substr(kStoreRequestBytes + key_bytes, value_bytes);
  return Parse::kOk;
}

void append_reply(Client& client, StoreStatus status, std::int64_t number, std::string_view value) {
  std::array<char, kStoreReplyBytes> header{};
  ByteWriter writer(std::as_writable_bytes(std::span(header)));
  writer.u8(static_cast<std::uint8_t>(status));
  writer.u8(0);
  writer.u16(0);
  writer.u32(static_cast<std::uint32_t>(value.size()));
  writer.u64(static_cast<std::uint64_t>(number));
  client.unsent.append(header.data(), header.size()).append(value);
}

}  // namespace

// The server's thread: clients, what they sent, and the map.
class TcpStoreServer::Loop final {
 public:
  Loop(int listener, int stop) : listener_(listener), stop_(stop) {}
  ~Loop() {
    for (const Client& client : clients_)
      ::close(client.fd);
    ::close(listener_);
    ::close(stop_);
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void run() {
    while (true) {
      entries_.clear();
      entries_.push_back({.fd = stop_, .events = POLLIN, .revents = 0});
      entries_.push_back({.fd = listener_, .events = POLLIN, .revents = 0});
      for (const Client& client : clients_) {
        const short wanted = client.unsent.empty() ? POLLIN : POLLOUT;
        entries_.push_back({.fd = client.fd, .events = wanted, .revents = 0});
      }
      if (::poll(entries_.data(), entries_.size(), -1) < 0) continue;
      if (entries_[0].revents != 0) return;
      for (std::size_t i = 0; i + 2 < entries_.size(); ++i) {
        if (entries_[i + 2].revents != 0) serve(clients_[i]);
      }
      std::erase_if(clients_, [](const Client& client) {
        if (client.is_over) ::close(client.fd);
        return client.is_over;
      });
      if (entries_[1].revents != 0) accept_all();
    }
  }

  void stop() const {
    const std::uint64_t one = 1;
    (void)!::write(stop_, &one, sizeof(one));
  }

 private:
  void accept_all() {
    while (true) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) return;
      if (clients_.size() >= kMaxClients && !evict_stranger()) {
        ::close(fd);
        continue;
      }
      Client client;
      client.fd = fd;
      clients_.push_back(std::move(client));
    }
  }

  // The longest silent of those that never sent a request gives way.
  bool evict_stranger() {
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      if (clients_[i].has_spoken) continue;
      ::close(clients_[i].fd);
      clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(i));
      return true;
    }
    return false;
  }

  void serve(Client& client) {
    flush(client);
    std::array<char, 16384> buffer{};
    while (!client.is_over && client.unsent.empty()) {
      const ssize_t got = ::recv(client.fd, buffer.data(), buffer.size(), 0);
      if (got > 0) {
        client.received.append(buffer.data(), static_cast<std::size_t>(got));
        take_requests(client);
        continue;
      }
      client.is_over = got == 0 || (errno != EAGAIN && errno != EINTR);
      return;
    }
  }

  void take_requests(Client& client) {
    std::size_t used = 0;
    while (!client.is_over) {
      Request request;
      const Parse parse = parse_request(std::string_view(client.received).substr(used), request);
      if (parse == Parse::kIncomplete) break;
      // Nobody of ours asks again before the answer.
      if (parse == Parse::kGarbage || !client.waits_for.empty()) {
        client.is_over = true;
        return;
      }
      client.has_spoken = true;
      answer(client, request);
      flush(client);
      used += request.bytes;
    }
    client.received.erase(0, used);
    client.is_over = client.is_over || client.received.size() > kMaxRequestBytes ||
                     client.unsent.size() > 2 * kMaxRequestBytes;
  }

  void answer(Client& client, const Request& request) {
    switch (request.operation) {
      case StoreOperation::kSet:
        append_reply(client, put(request.key, std::string(request.value)), 0, {});
        return;
      case StoreOperation::kGet: {
        const auto found = map_.find(request.key);
        if (found == map_.end()) {
          client.waits_for = request.key;
        } else {
          append_reply(client, StoreStatus::kOk, 0, found->second);
        }
        return;
      }
      case StoreOperation::kAdd: {
        const auto found = map_.find(request.key);
        std::int64_t sum = 0;
        if (found != map_.end() && !absl::SimpleAtoi(found->second, &sum)) {
          append_reply(client, StoreStatus::kNotANumber, 0, {});
          return;
        }
        // Unsigned: a stranger's overflow wraps.
        sum = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum) +
                                        static_cast<std::uint64_t>(request.number));
        append_reply(client, put(request.key, std::to_string(sum)), sum, {});
        return;
      }
    }
  }

  StoreStatus put(std::string_view key, std::string value) {
    const auto found = map_.find(key);
    const std::size_t before = found == map_.end() ? 0 : key.size() + found->second.size();
    const std::size_t after = stored_bytes_ - before + key.size() + value.size();
    if (after > kMaxStoredBytes || (found == map_.end() && map_.size() >= kMaxEntries)) {
      return StoreStatus::kFull;
    }
    stored_bytes_ = after;
    for (Client& client : clients_) {
      if (client.waits_for != key) continue;
      client.waits_for.clear();
      append_reply(client, StoreStatus::kOk, 0, value);
      flush(client);
    }
    map_.insert_or_assign(std::string(key), std::move(value));
    return StoreStatus::kOk;
  }

  static void flush(Client& client) {
    while (!client.unsent.empty()) {
      const ssize_t sent =
          ::send(client.fd, client.unsent.data(), client.unsent.size(), MSG_NOSIGNAL);
      if (sent <= 0) {
        client.is_over = client.is_over || (errno != EAGAIN && errno != EINTR);
        return;
      }
      client.unsent.erase(0, static_cast<std::size_t>(sent));
    }
  }

  const int listener_;
  const int stop_;
  std::vector<pollfd> entries_;
  std::vector<Client> clients_;
  std::map<std::string, std::string, std::less<>> map_;
  std::size_t stored_bytes_ = 0;
};

TcpStoreServer::TcpStoreServer(std::unique_ptr<Loop> loop, std::string address)
    : loop_(std::move(loop)), address_(std::move(address)), thread_([this] { loop_->run(); }) {}

TcpStoreServer::~TcpStoreServer() {
  loop_->stop();
  thread_.join();
}

Result<std::unique_ptr<TcpStoreServer>> TcpStoreServer::start(std::string_view address) {
  const Result<NetAddress> parsed = parse_net_address(address, 0);
  if (!parsed.ok()) return parsed.error();
  const Result<int> listener = listen_tcp(parsed.value());
  if (!listener.ok()) return listener.error();
  const int stop = ::eventfd(0, EFD_CLOEXEC);
  if (stop < 0) {
    ::close(listener.value());
    return Error(ErrorCode::kIo, "no eventfd: " + system_error(errno));
  }
  NetAddress bound = parsed.value();
  bound.port = local_address_of(listener.value()).port;
  return std::unique_ptr<TcpStoreServer>(
      new TcpStoreServer(std::make_unique<Loop>(listener.value(), stop), bound.to_string()));
}

}  // namespace spindrift::collectives
