#pragma once
// Where the fields of Ethernet, 802.1Q, IPv4, IPv6 and UDP headers lie, and reading and writing
// them. Internal to providers/dpdk.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "spindrift/address.h"

namespace spindrift {

inline constexpr std::size_t kEthernetBytes = 14;
inline constexpr std::size_t kVlanTagBytes = 4;
inline constexpr std::size_t kIpv4Bytes = 20;
inline constexpr std::size_t kIpv6Bytes = 40;
inline constexpr std::size_t kUdpBytes = 8;
// Tagged, IPv6.
inline constexpr std::size_t kMaxFrameHeaders =
    kEthernetBytes + kVlanTagBytes + kIpv6Bytes + kUdpBytes;
// Without the frame check sequence.
inline constexpr std::size_t kMinFrameBytes = 60;

inline constexpr std::uint16_t kTypeIpv4 = 0x0800;
inline constexpr std::uint16_t kTypeArp = 0x0806;
inline constexpr std::uint16_t kTypeVlan = 0x8100;
inline constexpr std::uint16_t kTypeIpv6 = 0x86dd;
inline constexpr std::uint8_t kProtocolIcmp = 1;
inline constexpr std::uint8_t kProtocolUdp = 17;
inline constexpr std::uint8_t kProtocolIcmp6 = 58;
inline constexpr std::uint8_t kHopLimit = 64;
// Neighbour discovery is believed only with this one: no router has passed it on.
inline constexpr std::uint8_t kMaxHopLimit = 255;

static_assert(std::endian::native == std::endian::little);

inline std::uint8_t get8(const std::byte* at) {
  return static_cast<std::uint8_t>(*at);
}
inline std::uint16_t get16(const std::byte* at) {
  std::uint16_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return __builtin_bswap16(value);
}
inline std::uint32_t get32(const std::byte* at) {
  std::uint32_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return __builtin_bswap32(value);
}
inline void put8(std::byte* at, unsigned value) {
  *at = static_cast<std::byte>(value);
}
inline void put16(std::byte* at, std::size_t value) {
  const std::uint16_t swapped = __builtin_bswap16(static_cast<std::uint16_t>(value));
  std::memcpy(at, &swapped, sizeof swapped);
}
inline void put32(std::byte* at, std::uint32_t value) {
  const std::uint32_t swapped = __builtin_bswap32(value);
  std::memcpy(at, &swapped, sizeof swapped);
}
// As it lies in memory: checksums.
inline void put_raw16(std::byte* at, std::uint16_t value) {
  std::memcpy(at, &value, sizeof value);
}
inline std::uint16_t get_raw16(const std::byte* at) {
  std::uint16_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

inline std::size_t ip_address_bytes(std::uint8_t family) {
  return family == 6 ? 16 : 4;
}
inline NetAddress get_address(const std::byte* at, std::uint8_t family) {
  NetAddress address;
  address.family = family;
  std::memcpy(address.ip.data(), at, ip_address_bytes(family));
  return address;
}
inline void put_address(std::byte* at, const NetAddress& address) {
  std::memcpy(at, address.ip.data(), ip_address_bytes(address.family));
}
// IP and UDP.
inline std::uint32_t ip_udp_bytes(std::uint8_t family) {
  return static_cast<std::uint32_t>((family == 6 ? kIpv6Bytes : kIpv4Bytes) + kUdpBytes);
}

}  // namespace spindrift
