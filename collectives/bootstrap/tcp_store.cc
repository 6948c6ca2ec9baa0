#include "collectives/bootstrap/tcp_store.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <absl/strings/str_format.h>

#include "collectives/bootstrap/socket.h"
#include "collectives/bootstrap/store_wire.h"
#include "transport/base/bytes.h"

namespace spindrift::collectives {
namespace {

// set and add are answered at once by a server that lives.
constexpr Duration kAnswerTimeout = std::chrono::seconds(10);
constexpr Duration kRetryPause = std::chrono::milliseconds(20);

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

Error timed_out(const std::string& address) {
  return {ErrorCode::kTimedOut, absl::StrFormat("the store at %s did not answer", address)};
}

}  // namespace

struct TcpStore::Reply {
  StoreStatus status = StoreStatus::kOk;
  std::int64_t number = 0;
  std::string value;
};

Result<std::unique_ptr<TcpStore>> TcpStore::try_connect(std::string_view address, Time deadline) {
  auto store = std::unique_ptr<TcpStore>(new TcpStore(std::string(address), -1));
  if (Status status = store->reconnect(deadline); !status.ok()) return status.error();
  return store;
}

Result<std::unique_ptr<TcpStore>> TcpStore::connect(std::string_view address, Duration timeout) {
  const Time deadline = monotonic_now() + timeout;
  while (true) {
    auto store = try_connect(address, deadline);
    if (store.ok() || store.error().code() == ErrorCode::kInvalidArgument) return store;
    if (monotonic_now() >= deadline) {
      return Error(ErrorCode::kTimedOut,
                   absl::StrFormat("nobody serves the rendezvous at %s (tried for %.1f s; %s); "
                                   "start rank 0 there, or check the address and the firewall",
                                   address, seconds(timeout), store.error().message()));
    }
    // The server may not be up yet; poll without descriptors is a pause.
    (void)::poll(nullptr, 0, static_cast<int>(kRetryPause / std::chrono::milliseconds(1)));
  }
}

TcpStore::~TcpStore() {
  if (fd_ >= 0) ::close(fd_);
}

Status TcpStore::reconnect(Time deadline) {
  const Result<NetAddress> address = parse_net_address(address_, 0);
  if (!address.ok()) return Error(ErrorCode::kInvalidArgument, address.error().message());
  if (address.value().port == 0) {
    return Error(ErrorCode::kInvalidArgument,
                 absl::StrFormat("\"%s\" has no port; write host:port", address_));
  }
  Result<int> fd = connect_tcp(address.value(), deadline);
  if (!fd.ok()) return fd.error();
  fd_ = fd.value();
  return ok_status();
}

std::string TcpStore::local_host() const {
  NetAddress address = local_address_of(fd_);
  address.port = 0;
  const std::string text = address.to_string();
  return text.substr(0, text.rfind(':'));
}

Error TcpStore::lost(std::string_view what) {
  // A late answer must never be taken for that of a later request.
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  return {ErrorCode::kIo, absl::StrFormat("the store at %s is lost: %s; did the process that "
                                          "serves it end?",
                                          address_, what)};
}

Status TcpStore::send_all(std::string_view bytes, Time deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno != EAGAIN && errno != EINTR) {
      return lost(system_error(errno));
    } else if (!wait_ready(fd_, POLLOUT, deadline)) {
      (void)lost("");
      return timed_out(address_);
    }
  }
  return ok_status();
}

Status TcpStore::receive_all(char* to, std::size_t count, Time deadline) {
  while (count > 0) {
    const ssize_t got = ::recv(fd_, to, count, 0);
    if (got > 0) {
      to += got;
      count -= static_cast<std::size_t>(got);
    } else if (got == 0) {
      return lost("it closed the connection");
    } else if (errno != EAGAIN && errno != EINTR) {
      return lost(system_error(errno));
    } else if (!wait_ready(fd_, POLLIN, deadline)) {
      (void)lost("");
      return timed_out(address_);
    }
  }
  return ok_status();
}

Result<TcpStore::Reply> TcpStore::ask(std::uint8_t operation, std::string_view key,
                                      std::string_view value, std::int64_t number,
                                      Duration timeout) {
  if (key.empty() || key.size() > kMaxKeyBytes || value.size() > kMaxValueBytes) {
    return Error(ErrorCode::kInvalidArgument,
                 absl::StrFormat("store: a key of %d and a value of %d bytes; keys have 1 to %d, "
                                 "values up to %d",
                                 key.size(), value.size(), kMaxKeyBytes, kMaxValueBytes));
  }
  const Time deadline = monotonic_now() + timeout;
  if (fd_ < 0) {
    if (Status status = reconnect(deadline); !status.ok()) return status.error();
  }
  std::string request(kStoreRequestBytes, '\0');
  ByteWriter writer(std::as_writable_bytes(std::span(request)));
  writer.u32(kStoreMagic);
  writer.u8(operation);
  writer.u8(0);
  writer.u16(static_cast<std::uint16_t>(key.size()));
  writer.u32(static_cast<std::uint32_t>(value.size()));
  writer.u64(static_cast<std::uint64_t>(number));
  request.append(key).append(value);
  if (Status status = send_all(request, deadline); !status.ok()) return status.error();

  std::array<char, kStoreReplyBytes> header{};
  if (Status status = receive_all(header.data(), header.size(), deadline); !status.ok()) {
    return status.error();
  }
  ByteReader reader(std::as_bytes(std::span(header)));
  Reply reply{.status = static_cast<StoreStatus>(reader.u8()), .value = {}};
  (void)reader.take(3);
  const std::uint32_t length = reader.u32();
  reply.number = static_cast<std::int64_t>(reader.u64());
  if (length > kMaxValueBytes) return lost("it answers with something else than a store");
  reply.value.resize(length);
  if (Status status = receive_all(reply.value.data(), length, deadline); !status.ok()) {
    return status.error();
  }
  if (reply.status == StoreStatus::kFull) {
    return Error(ErrorCode::kNoMemory, absl::StrFormat("the store at %s is full", address_));
  }
  return reply;
}

Status TcpStore::set(std::string_view key, std::string_view value) {
  const Result<Reply> reply =
      ask(static_cast<std::uint8_t>(StoreOperation::kSet), key, value, 0, kAnswerTimeout);
  return reply.ok() ? ok_status() : Status(reply.error());
}

Result<std::string> TcpStore::get(std::string_view key, Duration timeout) {
  Result<Reply> reply = ask(static_cast<std::uint8_t>(StoreOperation::kGet), key, {}, 0, timeout);
  if (reply.ok()) return std::move(reply).value().value;
  if (reply.error().code() != ErrorCode::kTimedOut) return reply.error();
  return Error(ErrorCode::kTimedOut, absl::StrFormat("nobody set \"%s\" in the store at %s within "
                                                     "%.1f s",
                                                     key, address_, seconds(timeout)));
}

Result<std::int64_t> TcpStore::add(std::string_view key, std::int64_t amount) {
  const Result<Reply> reply =
      ask(static_cast<std::uint8_t>(StoreOperation::kAdd), key, {}, amount, kAnswerTimeout);
  if (!reply.ok()) return reply.error();
  if (reply.value().status != StoreStatus::kOk) {
    return Error(ErrorCode::kInvalidArgument,
                 absl::StrFormat("\"%s\" was set to something else than a number", key));
  }
  return reply.value().number;
}

}  // namespace spindrift::collectives
