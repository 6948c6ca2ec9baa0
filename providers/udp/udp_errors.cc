#include "providers/udp/udp_errors.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include <sys/epoll.h>

// After the socket headers: it needs their types.
#include <linux/errqueue.h>

namespace spindrift {
namespace {

struct alignas(cmsghdr) ErrorControl {
  std::array<char, 512> bytes{};
};

bool is_extended_error(const cmsghdr& one) {
  return (one.cmsg_level == IPPROTO_IP && one.cmsg_type == IP_RECVERR) ||
         (one.cmsg_level == IPPROTO_IPV6 && one.cmsg_type == IPV6_RECVERR);
}

// False for errors that say nothing about the path.
bool translate(const sock_extended_err& error, IoError& out) {
  switch (error.ee_errno) {
    case ECONNREFUSED:
      out.kind = IoError::Kind::kPortUnreachable;
      return true;
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
    case ENONET:
    case EACCES:
      out.kind = IoError::Kind::kHostUnreachable;
      return true;
    case EMSGSIZE:
      out.kind = IoError::Kind::kTooBig;
      if (error.ee_info > header_bytes(out.to)) {
        out.max_packet_bytes = error.ee_info - header_bytes(out.to);
      }
      return true;
    default:
      return false;
  }
}

}  // namespace

Status UdpErrors::open() {
  readable_.reserve(64);
  epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (epoll_.is_open()) return ok_status();
  return Error(ErrorCode::kNoMemory,
               "epoll_create failed: " + std::generic_category().message(errno));
}

Status UdpErrors::watch(int fd, std::uint16_t rail, std::uint16_t entropy) {
  epoll_event event{};
  event.events = EPOLLIN;  // errors are always reported
  event.data.u32 = (static_cast<std::uint32_t>(rail) << 16U) | entropy;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return ok_status();
  return Error(ErrorCode::kNoMemory,
               "watching a socket for errors failed: " + std::generic_category().message(errno) +
                   " (see /proc/sys/fs/epoll/max_user_watches)");
}

std::size_t UdpErrors::poll(std::span<const UdpRail> rails, std::span<IoError> out) {
  std::array<epoll_event, 16> events{};
  const int ready = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  std::size_t count = 0;
  for (int i = 0; i < ready; ++i) {
    const std::uint32_t key = events[static_cast<std::size_t>(i)].data.u32;
    const auto rail = static_cast<std::uint16_t>(key >> 16U);
    const auto entropy = static_cast<std::uint16_t>(key & 0xffffU);
    if ((events[static_cast<std::size_t>(i)].events & EPOLLIN) != 0)
      readable_.push_back({.rail = rail, .entropy = entropy});
    const int fd = rails[rail].send[entropy].get();
    bool has_error = false;
    while (count < out.size() && read_one(fd, out[count], has_error)) {
      if (!has_error) continue;
      out[count].rail = rail;
      out[count].entropy = entropy;
      ++count;
    }
  }
  reported_ += count;
  return count;
}

// False when the queue is empty. `has_error`: it was one that IoError has a word for.
bool UdpErrors::read_one(int fd, IoError& out, bool& has_error) {
  has_error = false;
  SocketAddress to;
  ErrorControl control;
  msghdr header{};
  header.msg_name = &to.any;
  header.msg_namelen = sizeof(sockaddr_in6);
  header.msg_control = control.bytes.data();
  header.msg_controllen = control.bytes.size();
  if (recvmsg(fd, &header, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) {
    // An error kept outside the queue would leave the descriptor readable for ever.
    int pending = 0;
    socklen_t length = sizeof pending;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &pending, &length);
    return false;
  }
  out = IoError{};
  out.to = to_net_address(to);
  for (cmsghdr* one = CMSG_FIRSTHDR(&header); one != nullptr; one = CMSG_NXTHDR(&header, one)) {
    if (!is_extended_error(*one)) continue;
    sock_extended_err error{};
    std::memcpy(&error, CMSG_DATA(one), sizeof error);
    has_error = translate(error, out);
  }
  if (!has_error) ++ignored_;
  return true;
}

void UdpErrors::counters(CounterWriter& out) const {
  out.counter("network_errors", reported_);
  out.counter("network_errors_ignored", ignored_);
}

}  // namespace spindrift
