#include "providers/dpdk/frame_build.h"

#include <cstring>

#include "providers/dpdk/checksum.h"

namespace spindrift {
namespace {

// The sum of one 16-bit number in network order.
std::uint16_t word(std::size_t value) {
  return __builtin_bswap16(static_cast<std::uint16_t>(value));
}

std::uint16_t finished(std::uint16_t sum) {
  return static_cast<std::uint16_t>(~sum);
}

unsigned traffic_class(const FrameFields& fields) {
  return (static_cast<unsigned>(fields.dscp) << 2U) | static_cast<unsigned>(fields.ecn);
}

}  // namespace

FrameHeaders::FrameHeaders(const FrameWay& way) {
  std::byte* at = template_.data();
  std::memcpy(at, way.destination_mac.bytes.data(), 6);
  std::memcpy(at + 6, way.source_mac.bytes.data(), 6);
  at += 12;
  if (way.vlan != 0) {
    put16(at, kTypeVlan);
    put16(at + 2, way.vlan);
    at += kVlanTagBytes;
  }
  is_ipv6_ = way.destination.family == 6;
  put16(at, is_ipv6_ ? kTypeIpv6 : kTypeIpv4);
  at += 2;
  ip_ = static_cast<std::uint8_t>(at - template_.data());
  if (is_ipv6_) {
    put8(at, 0x60);
    put8(at + 6, kProtocolUdp);
    put8(at + 7, kHopLimit);
    put_address(at + 8, way.source);
    put_address(at + 24, way.destination);
    pseudo_sum_ = sum_words({at + 8, 32});
    at += kIpv6Bytes;
  } else {
    put8(at, 0x45);
    put16(at + 6, 0x4000);  // do not fragment
    put8(at + 8, kHopLimit);
    put8(at + 9, kProtocolUdp);
    put_address(at + 12, way.source);
    put_address(at + 16, way.destination);
    pseudo_sum_ = sum_words({at + 12, 8});
    ip_sum_ = sum_words({at, kIpv4Bytes});
    at += kIpv4Bytes;
  }
  pseudo_sum_ = add_sums(pseudo_sum_, word(kProtocolUdp));
  put16(at + 2, way.destination.port);
  at += kUdpBytes;
  bytes_ = static_cast<std::uint8_t>(at - template_.data());
}

void FrameHeaders::write(std::byte* at, const FrameFields& fields, UdpChecksum checksum,
                         std::uint16_t payload_sum) const {
  // Of a length that the compiler knows: a call would take longer than the copy.
  constexpr std::size_t kUsualBytes = kEthernetBytes + kIpv4Bytes + kUdpBytes;
  if (bytes_ == kUsualBytes) [[likely]]
    std::memcpy(at, template_.data(), kUsualBytes);
  else
    std::memcpy(at, template_.data(), bytes_);
  std::byte* ip = at + ip_;
  const std::size_t udp_bytes = fields.payload_bytes + kUdpBytes;
  const unsigned tc = traffic_class(fields);
  std::byte* udp = at + bytes_ - kUdpBytes;
  if (is_ipv6_) {
    put8(ip, 0x60U | (tc >> 4U));
    put8(ip + 1, (tc << 4U) & 0xf0U);
    put16(ip + 4, udp_bytes);
  } else {
    put8(ip + 1, tc);
    put16(ip + 2, udp_bytes + kIpv4Bytes);
    std::uint16_t sum = add_sums(ip_sum_, word(tc));
    sum = add_sums(sum, word(udp_bytes + kIpv4Bytes));
    put_raw16(ip + 10, finished(sum));
  }
  put16(udp, fields.source_port);
  put16(udp + 4, udp_bytes);
  if (checksum == UdpChecksum::kNone) return;
  std::uint16_t sum = add_sums(pseudo_sum_, word(udp_bytes));
  if (checksum == UdpChecksum::kPseudoHeader) {
    put_raw16(udp + 6, sum);
    return;
  }
  sum = add_sums(sum, payload_sum);
  sum = add_sums(sum, sum_words({udp, kUdpBytes}));
  const std::uint16_t result = finished(sum);
  put_raw16(udp + 6, result == 0 ? 0xffff : result);  // zero means none
}

}  // namespace spindrift
