#pragma once
// Text that users wrote, taken apart: lists, and numbers without sign or unit.
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace spindrift {

// One part more than there are separators; parts may be empty.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

// Nothing when there is more than a number, or it is above 2^32 - 1.
inline std::optional<std::uint32_t> parse_number(std::string_view text) {
  std::uint32_t value = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

}  // namespace spindrift
