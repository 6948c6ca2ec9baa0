#include "providers/udp/udp_receiver.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include <netinet/udp.h>

#include "providers/monotonic_clock.h"
#include "transport/base/check.h"

namespace spindrift {
namespace {

template <class T>
T value_of(const cmsghdr& message) {
  T value{};
  std::memcpy(&value, CMSG_DATA(&message), sizeof value);
  return value;
}

constexpr std::uint32_t mask_of(std::size_t slots) {
  return static_cast<std::uint32_t>((1ULL << slots) - 1);
}

}  // namespace

UdpReceiver::UdpReceiver()
    : memory_(Pages::map(kBuffers * kBufferBytes).value()), waiting_(kBuffers) {
  free_.reserve(kBuffers);
  for (std::uint32_t i = kBuffers; i > 0; --i)
    free_.push_back(i - 1);
}

std::size_t UdpReceiver::receive(std::span<const UdpRail> rails, std::span<RxPacket> out) {
  std::size_t count = hand_out(out);
  for (std::size_t i = 0; i < rails.size() && count < out.size(); ++i) {
    next_rail_ = next_rail_ + 1 < rails.size() ? next_rail_ + 1 : 0;
    const auto rail = static_cast<std::uint16_t>(next_rail_);
    bool may_hold_more = true;
    while (may_hold_more && count < out.size()) {
      may_hold_more = take_in(rails[rail].receive.get(), rail, out.size() - count);
      count += hand_out(out.subspan(count));
    }
  }
  return count;
}

std::size_t UdpReceiver::hand_out(std::span<RxPacket> out) {
  std::size_t count = 0;
  while (count < out.size() && !waiting_.is_empty()) {
    Message& message = waiting_.front();
    const std::uint32_t bytes =
        std::min(message.segment_bytes, message.bytes - message.taken_bytes);
    RxPacket& packet = out[count++];
    packet.bytes = std::span<const std::byte>(buffer(message.buffer) + message.taken_bytes, bytes);
    packet.arrival = message.arrival;
    packet.source = message.source;
    packet.rail = message.rail;
    packet.ecn = static_cast<Ecn>(message.traffic_class & 3U);
    packet.dscp = static_cast<std::uint8_t>(message.traffic_class >> 2U);
    packet.is_trimmed = false;
    packet.buffer = message.buffer;
    message.taken_bytes += bytes;
    packet.ends_burst = message.taken_bytes == message.bytes;
    ++references_[message.buffer];
    if (packet.ends_burst) {
      drop_reference(message.buffer);
      waiting_.pop_front();
    }
  }
  packets_ += count;
  return count;
}

bool UdpReceiver::take_in(int fd, std::uint16_t rail, std::size_t wanted_packets) {
  // As many messages as will probably hold the packets wanted, and as have come lately: the kernel
  // looks for one more than there are, which a lone packet's latency would pay for.
  const std::size_t wanted = (wanted_packets + packets_per_message_ - 1) / packets_per_message_;
  const std::size_t asked = prepare(std::min({wanted, kMaxMessages, expected_messages_}));
  if (asked == 0) return false;
  const int received =
      recvmmsg(fd, headers_.data(), static_cast<unsigned>(asked), MSG_DONTWAIT, nullptr);
  ++calls_;
  if (received <= 0) {
    if (received < 0 && errno == EINTR) return true;
    expected_messages_ = 1;
    if (received < 0 && errno != EAGAIN && errno != EWOULDBLOCK) ++errors_;
    return false;
  }
  const auto count = static_cast<std::size_t>(received);
  prepared_ &= ~mask_of(count);
  const Time arrival = monotonic_now();
  std::size_t packets = 0;
  for (std::size_t slot = 0; slot < count; ++slot) {
    packets += accept(slot, rail, arrival);
  }
  packets_per_message_ = std::max<std::size_t>(1, packets / count);
  const bool may_hold_more = count == asked && asked > 1;
  expected_messages_ = std::min(2 * count, kMaxMessages);
  return may_hold_more;
}

// Slots that the last calls did not use are still as they were made. Returns how many of the first
// `wanted` are ready: fewer when buffers are short.
std::size_t UdpReceiver::prepare(std::size_t wanted) {
  std::uint32_t missing = mask_of(wanted) & ~prepared_;
  for (; missing != 0; missing &= missing - 1) {
    const auto slot = static_cast<std::size_t>(std::countr_zero(missing));
    if (free_.empty()) return slot;
    const std::uint32_t index = free_.back();
    free_.pop_back();
    prepared_ |= 1U << slot;
    slot_buffers_[slot] = index;
    pieces_[slot] = iovec{buffer(index), kBufferBytes};
    msghdr& header = headers_[slot].msg_hdr;
    header.msg_name = &sources_[slot].any;
    header.msg_namelen = sizeof(sockaddr_in6);
    header.msg_iov = &pieces_[slot];
    header.msg_iovlen = 1;
    header.msg_control = controls_[slot].bytes.data();
    header.msg_controllen = controls_[slot].bytes.size();
    header.msg_flags = 0;
  }
  return wanted;
}

// How many packets the message holds.
std::size_t UdpReceiver::accept(std::size_t slot, std::uint16_t rail, Time arrival) {
  msghdr& header = headers_[slot].msg_hdr;
  const std::uint32_t index = slot_buffers_[slot];
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    ++truncated_;
    free_.push_back(index);
    return 0;
  }
  Message& message = waiting_.push_back();
  message = Message{};
  message.source = to_net_address(sources_[slot]);
  message.arrival = arrival;
  message.buffer = index;
  message.bytes = headers_[slot].msg_len;
  message.segment_bytes = message.bytes;
  message.rail = rail;
  for (cmsghdr* one = CMSG_FIRSTHDR(&header); one != nullptr; one = CMSG_NXTHDR(&header, one)) {
    if (one->cmsg_level == IPPROTO_IP && one->cmsg_type == IP_TOS) {
      message.traffic_class = value_of<std::uint8_t>(*one);
    } else if (one->cmsg_level == IPPROTO_IPV6 && one->cmsg_type == IPV6_TCLASS) {
      message.traffic_class = static_cast<std::uint8_t>(value_of<int>(*one));
    } else if (one->cmsg_level == IPPROTO_UDP && one->cmsg_type == UDP_GRO) {
      const int segment_bytes = value_of<int>(*one);
      if (segment_bytes > 0) message.segment_bytes = static_cast<std::uint32_t>(segment_bytes);
    }
  }
  references_[index] = 1;
  ++messages_;
  bytes_ += message.bytes;
  if (message.bytes == 0) return 1;
  return (message.bytes + message.segment_bytes - 1) / message.segment_bytes;
}

void UdpReceiver::release(std::span<const RxPacket> packets) {
  for (const RxPacket& packet : packets)
    drop_reference(packet.buffer);
}

void UdpReceiver::drop_reference(std::uint32_t buffer) {
  SPINDRIFT_CHECK(buffer < kBuffers);
  SPINDRIFT_CHECK(references_[buffer] > 0);  // else released twice
  if (--references_[buffer] == 0) free_.push_back(buffer);
}

void UdpReceiver::counters(CounterWriter& out) const {
  out.counter("rx_packets", packets_);
  out.counter("rx_bytes", bytes_);
  out.counter("rx_messages", messages_);
  out.counter("rx_calls", calls_);
  out.counter("rx_truncated_messages", truncated_);
  out.counter("rx_errors", errors_);
}

}  // namespace spindrift
