#include "providers/udp/udp_socket.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include <linux/sock_diag.h>
#include <netinet/udp.h>
#include <sys/resource.h>
#include <unistd.h>

namespace spindrift {
namespace {

// Not a send socket's business: whoever sends to it fills this much and no more.
constexpr int kSendSocketReceiveBytes = 1;

std::string word_for(int error) {
  return std::generic_category().message(error);
}

std::string host_text(const NetAddress& address) {
  NetAddress host = address;
  host.port = 0;
  std::string text = host.to_string();
  return text.substr(0, text.rfind(':'));
}

Error descriptor_error() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return Error(ErrorCode::kNoMemory,
               "out of file descriptors: every entropy of every rail needs a socket and "
               "RLIMIT_NOFILE is " +
                   std::to_string(limit.rlim_cur) +
                   "; raise it (ulimit -n) or use fewer entropies");
}

Error socket_error(int error, const NetAddress& local, const char* what) {
  switch (error) {
    case EMFILE:
    case ENFILE:
      return descriptor_error();
    case EADDRINUSE:
      return Error(
          ErrorCode::kUnavailable,
          "udp://" + local.to_string() + " is in use by another process; choose another port or 0");
    case EADDRNOTAVAIL:
      return Error(ErrorCode::kInvalidArgument,
                   host_text(local) + " is not an address of this host (see `ip address`)");
    case EACCES:
      return Error(ErrorCode::kInvalidArgument, "udp://" + local.to_string() +
                                                    " is a privileged port; choose one above "
                                                    "1023 or run as root");
    case EAFNOSUPPORT:
      return Error(ErrorCode::kUnsupported,
                   std::string("this kernel has no ") + (local.family == 4 ? "IPv4" : "IPv6"));
    default:
      return Error(ErrorCode::kIo, std::string(what) + " for udp://" + local.to_string() +
                                       " failed: " + word_for(error));
  }
}

bool set_option(int fd, int level, int name, int value) {
  return setsockopt(fd, level, name, &value, sizeof value) == 0;
}

// The privileged form first: it may pass the limit that net.core.*mem_max sets.
void set_buffer(int fd, int forced_name, int name, std::uint32_t bytes) {
  const int value = static_cast<int>(bytes);
  if (!set_option(fd, SOL_SOCKET, forced_name, value)) set_option(fd, SOL_SOCKET, name, value);
}

Result<UniqueFd> open_bound(const NetAddress& local) {
  const int domain = local.family == 4 ? AF_INET : AF_INET6;
  UniqueFd fd(socket(domain, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_open()) return socket_error(errno, local, "socket");
  if (local.family == 6) set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  const SocketAddress address = to_socket_address(local);
  if (bind(fd.get(), &address.any, address.length) != 0) {
    return socket_error(errno, local, "bind");
  }
  return fd;
}

}  // namespace

SocketAddress to_socket_address(const NetAddress& address) {
  SocketAddress result;
  if (address.family == 4) {
    result.v4.sin_family = AF_INET;
    result.v4.sin_port = htons(address.port);
    std::memcpy(&result.v4.sin_addr, address.ip.data(), 4);
    result.length = sizeof result.v4;
  } else {
    result.v6.sin6_family = AF_INET6;
    result.v6.sin6_port = htons(address.port);
    result.v6.sin6_scope_id = address.scope;
    std::memcpy(&result.v6.sin6_addr, address.ip.data(), 16);
    result.length = sizeof result.v6;
  }
  return result;
}

NetAddress to_net_address(const SocketAddress& address) {
  NetAddress result;
  if (address.any.sa_family == AF_INET) {
    result.family = 4;
    result.port = ntohs(address.v4.sin_port);
    std::memcpy(result.ip.data(), &address.v4.sin_addr, 4);
  } else if (address.any.sa_family == AF_INET6) {
    result.family = 6;
    result.port = ntohs(address.v6.sin6_port);
    result.scope = address.v6.sin6_scope_id;
    std::memcpy(result.ip.data(), &address.v6.sin6_addr, 16);
  }
  return result;
}

Result<UniqueFd> open_receive_socket(const NetAddress& local, const UdpOptions& options) {
  auto opened = open_bound(local);
  if (!opened.ok()) return opened;
  const int fd = opened.value().get();
  const bool reads_ecn = local.family == 4 ? set_option(fd, IPPROTO_IP, IP_RECVTOS, 1)
                                           : set_option(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
  if (!reads_ecn) return socket_error(errno, local, "reading the ECN field");
  set_receive_buffer(fd, options.receive_buffer_bytes);
  return opened;
}

Result<UniqueFd> open_send_socket(const NetAddress& local, const UdpOptions& options) {
  NetAddress any_port = local;
  any_port.port = 0;
  auto opened = open_bound(any_port);
  if (!opened.ok()) return opened;
  const int fd = opened.value().get();
  set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, options.send_buffer_bytes);
  set_option(fd, SOL_SOCKET, SO_RCVBUF, kSendSocketReceiveBytes);
  const bool is_set = local.family == 4
                          ? set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO) &&
                                set_option(fd, IPPROTO_IP, IP_RECVERR, 1)
                          : set_option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO) &&
                                set_option(fd, IPPROTO_IPV6, IPV6_DONTFRAG, 1) &&
                                set_option(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
  if (!is_set) return socket_error(errno, local, "forbidding fragmentation");
  // What most packets carry needs no control message.
  if (local.family == 4)
    set_option(fd, IPPROTO_IP, IP_TOS, kUsualTrafficClass);
  else
    set_option(fd, IPPROTO_IPV6, IPV6_TCLASS, kUsualTrafficClass);
  return opened;
}

bool set_gro(int fd) {
  return set_option(fd, IPPROTO_UDP, UDP_GRO, 1);
}

NetAddress local_address_of(int fd) {
  SocketAddress address;
  address.length = sizeof(sockaddr_in6);
  if (getsockname(fd, &address.any, &address.length) != 0) return NetAddress{};
  return to_net_address(address);
}

std::uint64_t set_receive_buffer(int fd, std::uint32_t wanted_bytes) {
  set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, wanted_bytes);
  int granted = 0;
  socklen_t length = sizeof granted;
  getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &granted, &length);
  return granted > 0 ? static_cast<std::uint64_t>(granted) : 0;
}

std::uint64_t dropped_by_kernel(int fd) {
  std::array<std::uint32_t, SK_MEMINFO_VARS> info{};
  socklen_t length = sizeof info;
  if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info.data(), &length) != 0) return 0;
  return info[SK_MEMINFO_DROPS];
}

}  // namespace spindrift
