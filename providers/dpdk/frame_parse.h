#pragma once
// Frames taken apart. Whatever the bytes are, the answer is one of FrameVerdict. Pure functions.
// Internal to providers/dpdk.
#include <cstddef>
#include <cstdint>
#include <span>

#include "spindrift/address.h"

#include "providers/dpdk/frame_layout.h"
#include "providers/dpdk/mac_address.h"

namespace spindrift {

enum class FrameVerdict : std::uint8_t {
  kUdp,
  kArp,
  kIcmp,   // either version
  kOther,  // well-formed, as far as we read it, and of no interest: another type or protocol
  kFragment,
  kMalformed,  // too short, or its lengths or the header's checksum contradict
};

struct ParsedFrame {
  const std::byte* ethernet = nullptr;
  // From the IP header on, as long as it says; empty for ARP.
  std::span<const std::byte> ip{};
  // UDP: its payload. ICMP: the message. ARP: the packet.
  std::span<const std::byte> payload{};
  std::uint16_t vlan = 0;  // 0: untagged (or only a priority)
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  std::uint8_t family = 0;  // 4, 6; 0: ARP
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;

  MacAddress source_mac() const {
    MacAddress mac;
    std::memcpy(mac.bytes.data(), ethernet + 6, 6);
    return mac;
  }
  MacAddress destination_mac() const {
    MacAddress mac;
    std::memcpy(mac.bytes.data(), ethernet, 6);
    return mac;
  }
  // With the ports of UDP.
  NetAddress source() const {
    NetAddress address = get_address(ip.data() + (family == 6 ? 8 : 12), family);
    address.port = source_port;
    return address;
  }
  NetAddress destination() const {
    NetAddress address = get_address(ip.data() + (family == 6 ? 24 : 16), family);
    address.port = destination_port;
    return address;
  }
};

// `out` is complete only for kUdp, kArp and kIcmp. Padding behind the packet is left off.
FrameVerdict parse_frame(std::span<const std::byte> frame, ParsedFrame& out);

// Only for kUdp. True when the sender computed none (IPv4).
bool is_udp_checksum_right(const ParsedFrame& frame);
// The checksum is that of the pseudo header alone: the sender left the rest to a device that the
// frame never reached, as the Linux kernel does on virtual links.
bool is_udp_checksum_unfinished(const ParsedFrame& frame);

}  // namespace spindrift
