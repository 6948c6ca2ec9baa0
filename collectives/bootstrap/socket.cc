#include "collectives/bootstrap/socket.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <system_error>

#include <absl/strings/str_format.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

namespace spindrift::collectives {
namespace {

constexpr int kBacklog = 256;

Result<int> open_socket(const NetAddress& address) {
  const int family = address.family == 6 ? AF_INET6 : AF_INET;
  const int fd = ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return Error(ErrorCode::kIo, "no TCP socket: " + system_error(errno));
  }
  // Requests are small and answered one by one.
  const int on = 1;
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return fd;
}

Error refused(int fd, const char* what, const NetAddress& address, int error) {
  ::close(fd);
  return {ErrorCode::kIo,
          absl::StrFormat("cannot %s %s: %s", what, address.to_string(), system_error(error))};
}

}  // namespace

std::string system_error(int error) {
  return std::generic_category().message(error);
}

SocketAddress to_socket_address(const NetAddress& address) {
  SocketAddress out;
  if (address.family == 6) {
    sockaddr_in6 in6{};
    in6.sin6_family = AF_INET6;
    in6.sin6_port = htons(address.port);
    in6.sin6_scope_id = address.scope;
    std::memcpy(&in6.sin6_addr, address.ip.data(), 16);
    std::memcpy(&out.storage, &in6, sizeof(in6));
    out.length = sizeof(in6);
  } else {
    sockaddr_in in4{};
    in4.sin_family = AF_INET;
    in4.sin_port = htons(address.port);
    std::memcpy(&in4.sin_addr, address.ip.data(), 4);
    std::memcpy(&out.storage, &in4, sizeof(in4));
    out.length = sizeof(in4);
  }
  return out;
}

NetAddress from_socket_address(const sockaddr_storage& storage) {
  NetAddress out;
  if (storage.ss_family == AF_INET6) {
    sockaddr_in6 in6{};
    std::memcpy(&in6, &storage, sizeof(in6));
    out.family = 6;
    out.port = ntohs(in6.sin6_port);
    out.scope = in6.sin6_scope_id;
    std::memcpy(out.ip.data(), &in6.sin6_addr, 16);
  } else if (storage.ss_family == AF_INET) {
    sockaddr_in in4{};
    std::memcpy(&in4, &storage, sizeof(in4));
    out.family = 4;
    out.port = ntohs(in4.sin_port);
    std::memcpy(out.ip.data(), &in4.sin_addr, 4);
  }
  return out;
}

Result<int> listen_tcp(const NetAddress& address) {
  Result<int> socket = open_socket(address);
  if (!socket.ok()) return socket;
  const int fd = socket.value();
  const int on = 1;
  (void)::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const SocketAddress to = to_socket_address(address);
  if (::bind(fd, to.get(), to.length) != 0 || ::listen(fd, kBacklog) != 0) {
    return refused(fd, "listen on", address, errno);
  }
  return fd;
}

Result<int> connect_tcp(const NetAddress& address, Time deadline) {
  Result<int> socket = open_socket(address);
  if (!socket.ok()) return socket;
  const int fd = socket.value();
  const SocketAddress to = to_socket_address(address);
  if (::connect(fd, to.get(), to.length) == 0) return fd;
  if (errno != EINPROGRESS) return refused(fd, "connect to", address, errno);
  if (!wait_ready(fd, POLLOUT, deadline)) return refused(fd, "connect to", address, ETIMEDOUT);
  int error = 0;
  socklen_t length = sizeof(error);
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  if (error != 0) return refused(fd, "connect to", address, error);
  return fd;
}

NetAddress local_address_of(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return {};
  return from_socket_address(storage);
}

Time monotonic_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return Time(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

bool wait_ready(int fd, short events, Time deadline) {
  while (true) {
    const Duration left = deadline - monotonic_now();
    if (left <= Duration::zero()) return false;
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    pollfd entry{.fd = fd, .events = events, .revents = 0};
    const int ready =
        ::poll(&entry, 1, static_cast<int>(std::min<std::int64_t>(milliseconds, 60'000)));
    if (ready > 0) return true;
  }
}

}  // namespace spindrift::collectives
