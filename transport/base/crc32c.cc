#include "transport/base/crc32c.h"

#include <algorithm>

#include <isa-l/crc.h>

namespace spindrift {

namespace {
constexpr std::size_t kMaxStepBytes = std::size_t{1} << 30;  // ISA-L counts in int
}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc) {
  // ISA-L works on the raw register: it inverts neither the initial value nor the result.
  std::uint32_t state = ~crc;
  while (!bytes.empty()) {
    const auto step = bytes.first(std::min(bytes.size(), kMaxStepBytes));
    // ISA-L only reads; its signature lacks the const.
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(step.data()));
    state = crc32_iscsi(data, static_cast<int>(step.size()), state);
    bytes = bytes.subspan(step.size());
  }
  return ~state;
}

}  // namespace spindrift
