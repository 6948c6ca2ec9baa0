#pragma once
// Bytes as people write them in tests: "118cffff 00012345".
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spindrift::wire {

// Spaces are skipped; anything else must be an even number of lower-case hex digits.
inline std::vector<std::byte> from_hex(std::string_view text) {
  std::vector<std::byte> bytes;
  bool has_high = false;
  unsigned high = 0;
  for (const char c : text) {
    if (c == ' ') continue;
    const unsigned digit =
        c <= '9' ? static_cast<unsigned>(c - '0') : static_cast<unsigned>(c - 'a') + 10U;
    if (has_high) bytes.push_back(static_cast<std::byte>(high << 4 | digit));
    high = digit;
    has_high = !has_high;
  }
  return bytes;
}

inline std::string to_hex(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<std::size_t>(byte >> 4)];
    text += kDigits[std::to_integer<std::size_t>(byte & std::byte{15})];
  }
  return text;
}

// Encodes over a background of ones, so that a byte left unwritten shows.
template <class Header>
std::vector<std::byte> encoded(const Header& header) {
  std::vector<std::byte> bytes(1200, std::byte{0xff});
  bytes.resize(encode(header, bytes));
  return bytes;
}

}  // namespace spindrift::wire
