#pragma once
// Ethernet addresses. Internal to providers/dpdk.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace spindrift {

struct MacAddress {
  std::array<std::uint8_t, 6> bytes{};
  bool operator==(const MacAddress&) const = default;
  bool is_group() const { return (bytes[0] & 1U) != 0; }
  bool is_zero() const { return bytes == std::array<std::uint8_t, 6>{}; }
};

inline constexpr MacAddress kBroadcastMac{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};

inline std::string to_string(const MacAddress& mac) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : mac.bytes) {
    if (!text.empty()) text += ':';
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

// "02:00:5e:10:00:01"; nothing else.
inline std::optional<MacAddress> parse_mac(std::string_view text) {
  const auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  MacAddress mac;
  if (text.size() != 17) return std::nullopt;
  for (std::size_t i = 0; i < 6; ++i) {
    const int high = digit(text[3 * i]);
    const int low = digit(text[3 * i + 1]);
    if (high < 0 || low < 0 || (i < 5 && text[3 * i + 2] != ':')) return std::nullopt;
    mac.bytes[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return mac;
}

}  // namespace spindrift
