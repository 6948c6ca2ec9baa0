#include "transport/base/printable.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_format.h"

namespace spindrift {
namespace {

// Bytes of the printable character that `text` begins with; 0: there is none.
std::size_t character_bytes(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (at(0) < 0x80) return at(0) >= 0x20 && at(0) != 0x7f ? 1 : 0;
  if (at(0) < 0xc2 || at(0) > 0xf4) return 0;
  const std::size_t bytes = at(0) < 0xe0 ? 2 : at(0) < 0xf0 ? 3 : 4;
  if (text.size() < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i)
    if ((at(i) & 0xc0) != 0x80) return 0;
  const bool is_c1_control = at(0) == 0xc2 && at(1) < 0xa0;
  return is_c1_control ? 0 : bytes;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    if (bytes == 0)
      absl::StrAppendFormat(&out, "\\x%02x", static_cast<unsigned char>(text[0]));
    else
      out += text.substr(0, bytes);
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return out;
}

}  // namespace spindrift
