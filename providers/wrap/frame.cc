#include "providers/wrap/frame.h"

#include <algorithm>

namespace spindrift {
namespace {

constexpr std::uint8_t kUdpProtocol = 17;
constexpr std::uint8_t kHopLimit = 64;
constexpr std::size_t kUdpHeaderBytes = 8;

void put8(std::span<std::byte> frame, std::size_t at, unsigned value) {
  frame[at] = static_cast<std::byte>(value & 0xffU);
}

void put16(std::span<std::byte> frame, std::size_t at, std::size_t value) {
  put8(frame, at, static_cast<unsigned>(value >> 8U));
  put8(frame, at + 1, static_cast<unsigned>(value));
}

void put_address(std::span<std::byte> frame, std::size_t at, const NetAddress& address) {
  const std::size_t bytes = address.family == 6 ? 16 : 4;
  for (std::size_t i = 0; i < bytes; ++i)
    put8(frame, at + i, address.ip[i]);
}

// RFC 1071, not yet folded.
std::uint64_t sum16(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) {
    sum += (static_cast<std::uint64_t>(bytes[i]) << 8U) | static_cast<std::uint64_t>(bytes[i + 1]);
  }
  if (bytes.size() % 2 == 1) sum += static_cast<std::uint64_t>(bytes.back()) << 8U;
  return sum;
}

std::uint16_t checksum(std::uint64_t sum) {
  while (sum >> 16U != 0)
    sum = (sum & 0xffffU) + (sum >> 16U);
  return static_cast<std::uint16_t>(~sum & 0xffffU);
}

unsigned traffic_class(const FrameAddresses& addresses) {
  return (static_cast<unsigned>(addresses.dscp) << 2U) | static_cast<unsigned>(addresses.ecn);
}

void write_ipv4(std::span<std::byte> frame, const FrameAddresses& addresses) {
  put8(frame, 0, 0x45);
  put8(frame, 1, traffic_class(addresses));
  put16(frame, 2, frame.size());
  put16(frame, 6, 0x4000);  // do not fragment
  put8(frame, 8, kHopLimit);
  put8(frame, 9, kUdpProtocol);
  put_address(frame, 12, addresses.source);
  put_address(frame, 16, addresses.destination);
  put16(frame, 10, checksum(sum16(frame.first(20))));
}

void write_ipv6(std::span<std::byte> frame, const FrameAddresses& addresses) {
  const unsigned version_and_class = 0x600U | traffic_class(addresses);
  put8(frame, 0, version_and_class >> 4U);
  put8(frame, 1, version_and_class << 4U);
  put16(frame, 4, frame.size() - 40);
  put8(frame, 6, kUdpProtocol);
  put8(frame, 7, kHopLimit);
  put_address(frame, 8, addresses.source);
  put_address(frame, 24, addresses.destination);
}

}  // namespace

void write_frame_headers(std::span<std::byte> frame, const FrameAddresses& addresses) {
  const std::size_t headers = frame_header_bytes(addresses.source);
  std::fill_n(frame.begin(), headers, std::byte{0});
  const bool is_v6 = addresses.source.family == 6;
  if (is_v6) {
    write_ipv6(frame, addresses);
  } else {
    write_ipv4(frame, addresses);
  }
  const std::span<std::byte> udp = frame.subspan(headers - kUdpHeaderBytes);
  put16(udp, 0, addresses.source.port);
  put16(udp, 2, addresses.destination.port);
  put16(udp, 4, udp.size());
  // The pseudo header: both addresses, protocol and length.
  const std::span<const std::byte> both = is_v6 ? frame.subspan(8, 32) : frame.subspan(12, 8);
  const std::uint16_t sum = checksum(sum16(both) + kUdpProtocol + udp.size() + sum16(udp));
  put16(udp, 6, sum == 0 ? 0xffff : sum);  // zero means none
}

}  // namespace spindrift
