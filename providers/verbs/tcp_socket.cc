#include "providers/verbs/tcp_socket.h"

#include <array>
#include <cerrno>
#include <system_error>

#include <netinet/tcp.h>
#include <sys/socket.h>

#include "providers/verbs/socket_address.h"

namespace spindrift {
namespace {

constexpr std::size_t kMostAtOnce = 8;  // pieces; who says more is heard again later

Error refused(const NetAddress& address, int error, const char* hint) {
  return Error(
      error == EADDRINUSE || error == ECONNREFUSED ? ErrorCode::kUnavailable : ErrorCode::kIo,
      address.to_string() + " (TCP): " + std::generic_category().message(error) + hint);
}

UniqueFd open_socket(const NetAddress& address) {
  return UniqueFd(::socket(address.family == 4 ? AF_INET : AF_INET6,
                           SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

void set(int socket, int level, int option, int value) {
  static_cast<void>(::setsockopt(socket, level, option, &value, sizeof(value)));
}

// A host that has vanished is noticed within a minute.
void prepare(int socket) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

}  // namespace

Result<UniqueFd> listen_tcp(NetAddress& local) {
  UniqueFd socket = open_socket(local);
  if (!socket.is_open()) return refused(local, errno, "");
  set(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  SocketAddress address = to_socket_address(local);
  if (::bind(socket.get(), address.get(), address.bytes) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    const int error = errno;
    return refused(local, error,
                   error == EADDRINUSE      ? "; another program listens there: choose another port"
                   : error == EADDRNOTAVAIL ? "; it is no address of this host"
                                            : "");
  }
  address.bytes = sizeof(address.storage);
  if (::getsockname(socket.get(), address.get(), &address.bytes) != 0)
    return refused(local, errno, "");
  local.port = to_net_address(address).port;
  return socket;
}

Result<UniqueFd> dial_tcp(const NetAddress& remote) {
  UniqueFd socket = open_socket(remote);
  if (!socket.is_open()) return refused(remote, errno, "");
  prepare(socket.get());
  SocketAddress address = to_socket_address(remote);
  if (::connect(socket.get(), address.get(), address.bytes) != 0 && errno != EINPROGRESS)
    return refused(remote, errno, "");
  return socket;
}

int dial_error(int socket) {
  int error = 0;
  socklen_t bytes = sizeof(error);
  return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 ? error : errno;
}

TcpCaller accept_tcp(int listener) {
  SocketAddress address;
  TcpCaller out;
  out.socket =
      UniqueFd(::accept4(listener, address.get(), &address.bytes, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!out.socket.is_open()) return out;
  prepare(out.socket.get());
  out.from = to_net_address(address);
  return out;
}

NetAddress local_address(int socket) {
  SocketAddress address;
  if (::getsockname(socket, address.get(), &address.bytes) != 0) return {};
  NetAddress out = to_net_address(address);
  out.port = 0;
  return out;
}

bool send_tcp(int socket, std::span<const std::byte> bytes) {
  return ::send(socket, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

TcpGot receive_tcp(int socket, std::vector<std::byte>& out) {
  std::array<std::byte, 4096> piece;
  TcpGot got = TcpGot::kNothing;
  for (std::size_t left = kMostAtOnce; left != 0; --left) {
    const ssize_t count = ::recv(socket, piece.data(), piece.size(), MSG_DONTWAIT);
    if (count > 0) {
      out.insert(out.end(), piece.begin(), piece.begin() + count);
      got = TcpGot::kBytes;
      continue;
    }
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return got;
    // What came before the end is read first.
    return got == TcpGot::kBytes ? got : TcpGot::kEnd;
  }
  return got;
}

}  // namespace spindrift
