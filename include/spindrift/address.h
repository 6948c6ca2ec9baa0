#pragma once
// Where packets go: an IP address and a port, and the textual addresses users write.
#include <array>
#include <bit>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "spindrift/export.h"
#include "spindrift/result.h"

namespace spindrift {

// The registered UDP destination port of Ultra Ethernet transport; the default wherever none is
// given.
inline constexpr std::uint16_t kDefaultPort = 4793;

// IPv4 or IPv6. IPv4 occupies the first four bytes of `ip`, the rest is zero.
struct NetAddress {
  std::array<std::uint8_t, 16> ip{};
  std::uint32_t scope = 0;  // interface index of a link-local IPv6 address, else 0
  std::uint16_t port = 0;   // host byte order
  std::uint8_t family = 0;  // 4, 6, or 0: unset

  auto operator<=>(const NetAddress&) const = default;
  bool is_set() const { return family != 0; }
  bool is_same_host(const NetAddress& other) const {
    // As two words: asked for every packet.
    using Words = std::array<std::uint64_t, 2>;
    return family == other.family && std::bit_cast<Words>(ip) == std::bit_cast<Words>(other.ip);
  }
  bool is_wildcard() const { return ip == std::array<std::uint8_t, 16>{}; }
  SPINDRIFT_EXPORT bool is_loopback() const;
  // "10.0.0.1:4793" or "[fe80::1%2]:4793".
  SPINDRIFT_EXPORT std::string to_string() const;
};

// Numeric IPv4 or IPv6 with an optional port: "10.0.0.1", "10.0.0.1:4793", "::1", "[::1]:4793",
// "[fe80::1%eth0]:4793". Host names are looked up ("localhost:4793"). A missing port becomes
// `default_port`.
SPINDRIFT_EXPORT Result<NetAddress> parse_net_address(std::string_view text,
                                                      std::uint16_t default_port);

// "udp://10.0.0.1:4793,10.1.0.1:4793?gro=0": provider, a comma-separated list of rails, and
// options for the provider.
struct Url {
  std::string scheme;
  std::vector<std::string> hosts;
  std::vector<std::pair<std::string, std::string>> options;
};
SPINDRIFT_EXPORT Result<Url> parse_url(std::string_view text);

}  // namespace spindrift
