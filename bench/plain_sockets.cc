#include "bench/plain_sockets.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace spindrift::bench {
namespace {

constexpr std::size_t kMaxDatagramBytes = 65536;
constexpr std::uint64_t kMaxSuperPacketBytes = 65535 - 48;
constexpr std::uint64_t kMaxSegments = 64;
constexpr int kSocketBytes = 8 << 20;
// Under way at most: less than the receive buffer holds, with what the kernel adds to each packet.
constexpr std::uint64_t kWindowBytes = 1U << 20U;

using SteadyClock = std::chrono::steady_clock;

bool set_option(int fd, int level, int name, int value) {
  return setsockopt(fd, level, name, &value, sizeof value) == 0;
}

// Bound to a free port of 127.0.0.1.
int open_socket(sockaddr_in& address) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (bind(fd, any, length) != 0 || getsockname(fd, any, &length) != 0) return fd;
  if (!set_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, kSocketBytes))
    set_option(fd, SOL_SOCKET, SO_RCVBUF, kSocketBytes);
  if (!set_option(fd, SOL_SOCKET, SO_SNDBUFFORCE, kSocketBytes))
    set_option(fd, SOL_SOCKET, SO_SNDBUF, kSocketBytes);
  set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
  set_option(fd, IPPROTO_IP, IP_RECVTOS, 1);
  return fd;
}

bool join(int fd, const sockaddr_in& to) {
  return connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
}

}  // namespace

PlainSockets::PlainSockets(std::uint32_t packet_bytes)
    : packet_bytes_(packet_bytes),
      packets_per_super_(std::min(kMaxSegments, kMaxSuperPacketBytes / packet_bytes)),
      outgoing_(kMaxDatagramBytes),
      incoming_(kMaxDatagramBytes) {
  sockaddr_in near{};
  sockaddr_in far{};
  near_ = open_socket(near);
  far_ = open_socket(far);
  is_open_ = join(near_, far) && join(far_, near) && set_option(far_, IPPROTO_UDP, UDP_GRO, 1) &&
             set_option(near_, IPPROTO_UDP, UDP_SEGMENT, static_cast<int>(packet_bytes));
}

PlainSockets::~PlainSockets() {
  close(near_);
  close(far_);
}

bool PlainSockets::wait_for(std::uint64_t bytes) const {
  const auto deadline = SteadyClock::now() + std::chrono::seconds(2);
  for (std::uint32_t i = 1; arrived_bytes_.load(std::memory_order_acquire) < bytes; ++i)
    if (i % 4096 == 0 && SteadyClock::now() > deadline) return false;
  return true;
}

bool PlainSockets::send_super_packet(std::uint64_t packets) {
  const std::uint64_t bytes = packets * packet_bytes_;
  if (sent_bytes_ + bytes > kWindowBytes && !wait_for(sent_bytes_ + bytes - kWindowBytes))
    return false;
  if (send(near_, outgoing_.data(), bytes, 0) != static_cast<ssize_t>(bytes)) return false;
  sent_bytes_ += bytes;
  return true;
}

bool PlainSockets::stream(std::uint64_t packets) {
  for (std::uint64_t sent = 0; sent < packets; sent += packets_per_super_)
    if (!send_super_packet(std::min(packets_per_super_, packets - sent))) return false;
  return wait_for(sent_bytes_);
}

void PlainSockets::receive_some() {
  alignas(cmsghdr) std::array<char, 128> control{};
  iovec piece{.iov_base = incoming_.data(), .iov_len = incoming_.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t bytes = recvmsg(far_, &message, 0);
  if (bytes > 0) arrived_bytes_.fetch_add(static_cast<std::uint64_t>(bytes));
}

bool PlainSockets::ping() const {
  std::array<std::byte, 8> word{};
  if (send(near_, word.data(), word.size(), 0) != 8) return false;
  const auto deadline = SteadyClock::now() + std::chrono::seconds(2);
  for (std::uint32_t i = 1; recv(near_, word.data(), word.size(), 0) != 8; ++i)
    if (i % 4096 == 0 && SteadyClock::now() > deadline) return false;
  return true;
}

void PlainSockets::answer_some() const {
  std::array<std::byte, 8> word{};
  if (recv(far_, word.data(), word.size(), 0) == 8)
    static_cast<void>(send(far_, word.data(), word.size(), 0));
}

}  // namespace spindrift::bench
