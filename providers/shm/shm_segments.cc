// Segments of memory that processes of one host show one another: each makes its own, and sends a
// read-only view of it to the socket of every other.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "spindrift/host_segments.h"

#include "providers/monotonic_clock.h"
#include "providers/shm/shm_names.h"
#include "transport/base/unique_fd.h"

namespace spindrift {
namespace {

constexpr std::uint32_t kMagic = 0x53445347;
constexpr std::uint32_t kVersion = 1;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
// Who waits for a full socket looks again so often.
constexpr int kTurnMs = 1;

// As it lies on the socket, with the descriptor beside it: both processes run on one machine.
struct Offer {
  std::uint32_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint64_t nonce = 0;
  std::uint32_t rank = 0;
  std::uint32_t has_segment = 0;  // 0: the sender has given up, do not wait
};

Error refused(const std::string& what) {
  return Error(ErrorCode::kIo, what + ": " + std::system_category().message(errno));
}

sockaddr_un to_socket_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof(address.sun_path) - 1));
  return address;
}

class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
  }

  static Result<Mapping> of(int fd, std::size_t bytes, int protection) {
    void* const at = ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) return refused("mapping shared memory");
    // A child neither needs it nor may touch it.
    static_cast<void>(::madvise(at, bytes, MADV_DONTFORK));
    Mapping out;
    out.bytes_ = {static_cast<std::byte*>(at), bytes};
    return out;
  }
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

class MemfdSegments final : public HostSegments {
 public:
  MemfdSegments(Mapping own, std::vector<Mapping> others)
      : own_(std::move(own)), others_(std::move(others)) {}
  std::span<std::byte> own() override { return own_.bytes(); }
  std::span<const std::byte> of(std::uint32_t rank) const override {
    return rank < others_.size() ? others_[rank].bytes() : std::span<std::byte>();
  }

 private:
  Mapping own_;
  std::vector<Mapping> others_;
};

struct OwnSegment {
  UniqueFd fd;
  Mapping mapping;
};

Result<OwnSegment> make_segment(std::size_t bytes) {
  OwnSegment made;
  made.fd = UniqueFd(::memfd_create("spindrift", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!made.fd.is_open()) return refused("memfd_create");
  if (::ftruncate(made.fd.get(), static_cast<off_t>(bytes)) != 0) {
    return refused(std::to_string(bytes) + " bytes of shared memory");
  }
  Result<Mapping> mapping = Mapping::of(made.fd.get(), bytes, PROT_READ | PROT_WRITE);
  if (!mapping.ok()) return mapping.error();
  made.mapping = std::move(mapping).value();
  // The mapping that there is stays writable, and none that follows can be.
  if (::fcntl(made.fd.get(), F_ADD_SEALS, kSeals | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0) {
    return refused("sealing shared memory");
  }
  return made;
}

Result<Mapping> map_segment(int fd, std::size_t bytes) {
  struct stat found {};
  if (::fstat(fd, &found) != 0) return refused("the segment of another rank");
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    return Error(ErrorCode::kInvalidArgument,
                 "the segment of another rank is not sealed against becoming shorter");
  }
  if (found.st_size < 0 || static_cast<std::size_t>(found.st_size) != bytes) {
    return Error(ErrorCode::kInvalidArgument, "the segment of another rank has " +
                                                  std::to_string(found.st_size) +
                                                  " bytes instead of " + std::to_string(bytes));
  }
  return Mapping::of(fd, bytes, PROT_READ);
}

struct Received {
  bool is_offer = false;
  Offer offer{};
  UniqueFd fd{};
};

// False: nothing has come.
bool receive_offer(int socket, Received& out) {
  iovec data{.iov_base = &out.offer, .iov_len = sizeof(out.offer)};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t bytes = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (bytes < 0) return false;
  const cmsghdr* const part = CMSG_FIRSTHDR(&message);
  if (part != nullptr && part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(part), sizeof(fd));
    out.fd = UniqueFd(fd);
  }
  out.is_offer =
      bytes == sizeof(Offer) && out.offer.magic == kMagic && out.offer.version == kVersion;
  return true;
}

// False: the socket is full. Other errors are the peer's absence.
Result<bool> send_offer(int socket, const std::string& path, const Offer& offer, int fd) {
  sockaddr_un address = to_socket_address(path);
  iovec data{.iov_base = const_cast<Offer*>(&offer), .iov_len = sizeof(offer)};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen = sizeof(address);
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (offer.has_segment != 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(part), &fd, sizeof(fd));
  }
  if (::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return true;
  if (errno == EAGAIN || errno == ENOBUFS || errno == EINTR) return false;
  return refused(path);
}

class MemfdExchange final : public HostSegmentExchange {
 public:
  MemfdExchange(UniqueFd socket, std::string path)
      : socket_(std::move(socket)), path_(std::move(path)), process_(::getpid()) {}
  ~MemfdExchange() override {
    if (process_ == ::getpid()) ::unlink(path_.c_str());
  }

  const std::string& address() const override { return path_; }

  Result<std::unique_ptr<HostSegments>> exchange(const Request& request) override {
    Result<OwnSegment> own = make_segment(request.bytes);
    std::vector<Mapping> others(request.addresses.size());
    const int fd = own.ok() ? own.value().fd.get() : -1;
    const Status status = own.ok() ? trade(request, fd, others) : Status(own.error());
    if (status.ok()) {
      return std::unique_ptr<HostSegments>(
          std::make_unique<MemfdSegments>(std::move(own.value().mapping), std::move(others)));
    }
    const Offer nothing{.nonce = request.nonce, .rank = request.rank};
    for (std::uint32_t rank = 0; rank < request.addresses.size(); ++rank) {
      if (rank == request.rank || request.addresses[rank].empty()) continue;
      static_cast<void>(send_offer(socket_.get(), request.addresses[rank], nothing, -1));
    }
    return status.error();
  }

 private:
  Status trade(const Request& request, int fd, std::vector<Mapping>& others) {
    const Offer offer{.nonce = request.nonce, .rank = request.rank, .has_segment = 1};
    std::vector<std::uint32_t> to_send;
    for (std::uint32_t rank = 0; rank < others.size(); ++rank)
      if (rank != request.rank && !request.addresses[rank].empty()) to_send.push_back(rank);
    std::size_t to_come = to_send.size();
    const Time deadline = monotonic_now() + request.timeout;
    while (to_come > 0 || !to_send.empty()) {
      for (std::size_t i = to_send.size(); i > 0; --i) {
        const auto sent = send_offer(socket_.get(), request.addresses[to_send[i - 1]], offer, fd);
        if (!sent.ok()) return sent.error();
        if (sent.value()) to_send.erase(to_send.begin() + static_cast<std::ptrdiff_t>(i - 1));
      }
      Received received;
      if (!receive_offer(socket_.get(), received)) {
        if (monotonic_now() >= deadline) {
          return Error(ErrorCode::kTimedOut, "not all ranks of this host have sent their segments");
        }
        pollfd ready{.fd = socket_.get(), .events = POLLIN, .revents = 0};
        static_cast<void>(::poll(&ready, 1, kTurnMs));
        continue;
      }
      // Leftovers of other groups, and what is no offer at all, are dropped.
      const std::uint32_t rank = received.offer.rank;
      if (!received.is_offer || received.offer.nonce != request.nonce || rank == request.rank ||
          rank >= others.size() || request.addresses[rank].empty() ||
          !others[rank].bytes().empty()) {
        continue;
      }
      if (received.offer.has_segment == 0) {
        return Error(ErrorCode::kUnavailable, "rank " + std::to_string(rank) + " could not");
      }
      Result<Mapping> mapping = map_segment(received.fd.get(), request.bytes);
      if (!mapping.ok()) return mapping.error();
      others[rank] = std::move(mapping).value();
      --to_come;
    }
    return ok_status();
  }

  UniqueFd socket_;
  std::string path_;
  pid_t process_;
};

}  // namespace

Result<std::unique_ptr<HostSegmentExchange>> open_host_segments() {
  UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return refused("a UNIX socket");
  remove_left_behind();
  std::string path(kShmFolder);
  path.append("/").append(kShmPrefix).append(make_shm_name()).append(kShmSegments);
  const sockaddr_un address = to_socket_address(path);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return refused(path);
  }
  return std::unique_ptr<HostSegmentExchange>(
      std::make_unique<MemfdExchange>(std::move(socket), std::move(path)));
}

}  // namespace spindrift
