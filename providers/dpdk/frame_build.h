#pragma once
// The headers in front of a UDP payload: Ethernet, 802.1Q where there is a VLAN, IPv4 or IPv6, UDP.
// Pure functions of their arguments. Internal to providers/dpdk.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "spindrift/address.h"
#include "spindrift/provider.h"

#include "providers/dpdk/frame_layout.h"
#include "providers/dpdk/mac_address.h"

namespace spindrift {

// What the packets of one way share.
struct FrameWay {
  MacAddress source_mac{};
  MacAddress destination_mac{};
  NetAddress source{};       // its port is not used
  NetAddress destination{};  // with its port
  std::uint16_t vlan = 0;    // 1..4094; 0: untagged
};

struct FrameFields {
  std::uint32_t payload_bytes = 0;  // of UDP
  std::uint16_t source_port = 0;
  std::uint8_t dscp = 0;
  Ecn ecn = Ecn::kNotEct;
};

enum class UdpChecksum : std::uint8_t {
  kNone,          // zero: allowed over IPv4 (RFC 768)
  kPseudoHeader,  // what a port that computes checksums wants to find
  kFull,
};

// Made once per way; write() then fills in what differs.
class FrameHeaders {
 public:
  FrameHeaders() = default;
  explicit FrameHeaders(const FrameWay& way);

  std::size_t bytes() const { return bytes_; }
  std::size_t ip_offset() const { return ip_; }
  std::size_t ip_bytes() const { return bytes_ - ip_ - kUdpBytes; }
  bool is_ipv6() const { return is_ipv6_; }
  // Writes bytes() bytes from `at` on. `payload_sum`: of the UDP payload (checksum.h), kFull only.
  void write(std::byte* at, const FrameFields& fields, UdpChecksum checksum,
             std::uint16_t payload_sum = 0) const;

 private:
  std::array<std::byte, kMaxFrameHeaders> template_{};
  std::uint8_t bytes_ = 0;
  std::uint8_t ip_ = 0;  // offset of the IP header
  bool is_ipv6_ = false;
  std::uint16_t ip_sum_ = 0;      // of the IPv4 header without length, class and checksum
  std::uint16_t pseudo_sum_ = 0;  // of addresses and protocol
};

}  // namespace spindrift
