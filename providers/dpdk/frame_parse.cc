#include "providers/dpdk/frame_parse.h"

#include "providers/dpdk/checksum.h"

namespace spindrift {
namespace {

constexpr std::size_t kArpBytes = 28;
constexpr std::size_t kIcmpBytes = 8;

FrameVerdict parse_transport(std::uint8_t protocol, std::span<const std::byte> rest,
                             ParsedFrame& out) {
  if (protocol == (out.family == 6 ? kProtocolIcmp6 : kProtocolIcmp)) {
    if (rest.size() < kIcmpBytes) return FrameVerdict::kMalformed;
    out.payload = rest;
    return FrameVerdict::kIcmp;
  }
  if (protocol != kProtocolUdp) return FrameVerdict::kOther;
  if (rest.size() < kUdpBytes) return FrameVerdict::kMalformed;
  const std::size_t udp_bytes = get16(rest.data() + 4);
  if (udp_bytes < kUdpBytes || udp_bytes > rest.size()) return FrameVerdict::kMalformed;
  out.source_port = get16(rest.data());
  out.destination_port = get16(rest.data() + 2);
  out.payload = rest.subspan(kUdpBytes, udp_bytes - kUdpBytes);
  return FrameVerdict::kUdp;
}

FrameVerdict parse_ipv4(std::span<const std::byte> bytes, ParsedFrame& out) {
  if (bytes.size() < kIpv4Bytes) return FrameVerdict::kMalformed;
  const std::byte* at = bytes.data();
  const std::size_t header_bytes = (get8(at) & 15U) * std::size_t{4};
  const std::size_t total_bytes = get16(at + 2);
  if (get8(at) >> 4U != 4 || header_bytes < kIpv4Bytes || total_bytes < header_bytes ||
      total_bytes > bytes.size())
    return FrameVerdict::kMalformed;
  if (sum_words(bytes.first(header_bytes)) != 0xffff) return FrameVerdict::kMalformed;
  out.family = 4;
  out.traffic_class = get8(at + 1);
  out.hop_limit = get8(at + 8);
  out.ip = bytes.first(total_bytes);
  // More fragments, or not the first one.
  if ((get16(at + 6) & 0x3fffU) != 0) return FrameVerdict::kFragment;
  return parse_transport(get8(at + 9), out.ip.subspan(header_bytes), out);
}

FrameVerdict parse_ipv6(std::span<const std::byte> bytes, ParsedFrame& out) {
  static constexpr std::uint8_t kFragmentHeader = 44;
  if (bytes.size() < kIpv6Bytes) return FrameVerdict::kMalformed;
  const std::byte* at = bytes.data();
  const std::size_t payload_bytes = get16(at + 4);
  if (get8(at) >> 4U != 6 || payload_bytes > bytes.size() - kIpv6Bytes)
    return FrameVerdict::kMalformed;
  out.family = 6;
  out.traffic_class = static_cast<std::uint8_t>((get16(at) >> 4U) & 0xffU);
  out.hop_limit = get8(at + 7);
  out.ip = bytes.first(kIpv6Bytes + payload_bytes);
  if (get8(at + 6) == kFragmentHeader) return FrameVerdict::kFragment;
  return parse_transport(get8(at + 6), out.ip.subspan(kIpv6Bytes), out);
}

}  // namespace

FrameVerdict parse_frame(std::span<const std::byte> frame, ParsedFrame& out) {
  if (frame.size() < kEthernetBytes) return FrameVerdict::kMalformed;
  out.ethernet = frame.data();
  out.vlan = 0;
  out.source_port = 0;
  out.destination_port = 0;
  std::size_t offset = kEthernetBytes;
  std::uint16_t type = get16(frame.data() + 12);
  if (type == kTypeVlan) {
    if (frame.size() < kEthernetBytes + kVlanTagBytes) return FrameVerdict::kMalformed;
    out.vlan = get16(frame.data() + 14) & 0xfffU;
    type = get16(frame.data() + 16);
    offset += kVlanTagBytes;
  }
  const std::span<const std::byte> rest = frame.subspan(offset);
  switch (type) {
    case kTypeIpv4:
      return parse_ipv4(rest, out);
    case kTypeIpv6:
      return parse_ipv6(rest, out);
    case kTypeArp:
      if (rest.size() < kArpBytes) return FrameVerdict::kMalformed;
      out.family = 0;
      out.ip = {};
      out.payload = rest.first(kArpBytes);
      return FrameVerdict::kArp;
    default:
      return FrameVerdict::kOther;
  }
}

namespace {

std::uint16_t pseudo_sum(const ParsedFrame& frame) {
  const auto addresses = frame.family == 6 ? frame.ip.subspan(8, 32) : frame.ip.subspan(12, 8);
  const std::size_t udp_bytes = frame.payload.size() + kUdpBytes;
  const std::uint16_t sum =
      add_sums(sum_words(addresses), __builtin_bswap16(std::uint16_t{kProtocolUdp}));
  return add_sums(sum, __builtin_bswap16(static_cast<std::uint16_t>(udp_bytes)));
}

}  // namespace

bool is_udp_checksum_unfinished(const ParsedFrame& frame) {
  return get_raw16(frame.payload.data() - 2) == pseudo_sum(frame);
}

bool is_udp_checksum_right(const ParsedFrame& frame) {
  const std::byte* udp = frame.payload.data() - kUdpBytes;
  const std::size_t udp_bytes = frame.payload.size() + kUdpBytes;
  if (get_raw16(udp + 6) == 0) return frame.family == 4;
  return add_sums(pseudo_sum(frame), sum_words({udp, udp_bytes})) == 0xffff;
}

}  // namespace spindrift
