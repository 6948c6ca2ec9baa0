#include "bench/limit/wires.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>

#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>

namespace spindrift::limit {
namespace {

constexpr int kPatienceMs = 600'000;

Error system_error(const std::string& what) {
  return Error(ErrorCode::kIo, what + " failed: " + std::generic_category().message(errno));
}

Error peer_is_gone() {
  return Error(ErrorCode::kIo, "the other udp_limit has gone; its own message says why");
}

NetAddress without_port(NetAddress address) {
  address.port = 0;
  return address;
}

UniqueFd tcp_socket(const NetAddress& address) {
  return UniqueFd(socket(address.family == 4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

}  // namespace

NetAddress Talk::local() const {
  return local_address_of(fd_.get());
}

NetAddress Talk::remote() const {
  SocketAddress address;
  address.length = sizeof(sockaddr_in6);
  if (getpeername(fd_.get(), &address.any, &address.length) != 0) return NetAddress{};
  return to_net_address(address);
}

Status Talk::send(const nlohmann::json& object) {
  const std::string line = object.dump() + "\n";
  if (::send(fd_.get(), line.data(), line.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(line.size()))
    return peer_is_gone();
  return ok_status();
}

Result<nlohmann::json> Talk::receive() {
  std::size_t end = 0;
  while ((end = received_.find('\n')) == std::string::npos) {
    pollfd waiting{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    if (poll(&waiting, 1, kPatienceMs) != 1) return peer_is_gone();
    std::array<char, 4096> piece{};
    const ssize_t bytes = recv(fd_.get(), piece.data(), piece.size(), 0);
    if (bytes <= 0) return peer_is_gone();
    received_.append(piece.data(), static_cast<std::size_t>(bytes));
  }
  nlohmann::json object = nlohmann::json::parse(received_.substr(0, end), nullptr, false);
  received_.erase(0, end + 1);
  if (object.is_discarded() || !object.is_object())
    return Error(ErrorCode::kIo, "what listens there is no udp_limit of this build");
  if (object.contains("error")) return Error(ErrorCode::kIo, "peer: " + object["error"].dump());
  return object;
}

bool Talk::has_news() const {
  char byte = 0;
  return recv(fd_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
}

Result<UniqueFd> listen_at(const NetAddress& address) {
  UniqueFd fd = tcp_socket(address);
  const int yes = 1;
  const SocketAddress at = to_socket_address(address);
  if (!fd.is_open() || setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      bind(fd.get(), &at.any, at.length) != 0 || listen(fd.get(), 16) != 0)
    return system_error("listening at " + address.to_string());
  return fd;
}

Result<Talk> accept_from(int listener) {
  UniqueFd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd.is_open()) return system_error("accepting a client");
  return Talk(std::move(fd));
}

Result<Talk> connect_to(const NetAddress& address) {
  UniqueFd fd = tcp_socket(address);
  const SocketAddress to = to_socket_address(address);
  const int yes = 1;
  if (!fd.is_open() || connect(fd.get(), &to.any, to.length) != 0)
    return system_error("connecting to udp_limit at " + address.to_string());
  static_cast<void>(setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes));
  return Talk(std::move(fd));
}

Result<UniqueFd> open_receiver(const NetAddress& host) {
  auto fd = open_receive_socket(without_port(host), UdpOptions{});
  if (fd.ok() && !set_gro(fd.value().get())) return system_error("UDP_GRO");
  return fd;
}

std::uint64_t receive_room(int fd) {
  int granted = 0;
  socklen_t length = sizeof granted;
  getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &granted, &length);
  return static_cast<std::uint64_t>(granted) / 2;
}

Result<std::vector<UniqueFd>> open_senders(const NetAddress& host, const NetAddress& to,
                                           std::uint32_t count, std::uint32_t segment_bytes) {
  std::vector<UniqueFd> sockets;
  const SocketAddress address = to_socket_address(to);
  const int segment = static_cast<int>(segment_bytes);
  for (std::uint32_t i = 0; i < count; ++i) {
    auto fd = open_send_socket(without_port(host), UdpOptions{});
    if (!fd.ok()) return fd.error();
    if (connect(fd.value().get(), &address.any, address.length) != 0)
      return system_error("joining a socket to " + to.to_string());
    if (segment != 0 &&
        setsockopt(fd.value().get(), IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof segment) != 0)
      return system_error("UDP_SEGMENT");
    sockets.push_back(std::move(fd.value()));
  }
  return sockets;
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

void bind_to_processor(int processor) {
  if (processor < 0) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(processor), &one);
  static_cast<void>(sched_setaffinity(0, sizeof one, &one));
}

}  // namespace spindrift::limit
