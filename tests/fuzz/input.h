#pragma once
// Numbers read from a fuzzer's input; zeros after its end.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "spindrift/types.h"

namespace spindrift {

class FuzzInput {
 public:
  explicit FuzzInput(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  bool is_empty() const { return bytes_.empty(); }
  std::uint8_t u8() { return take<std::uint8_t>(); }
  std::uint16_t u16() { return take<std::uint16_t>(); }
  std::uint32_t u32() { return take<std::uint32_t>(); }
  std::uint64_t u64() { return take<std::uint64_t>(); }
  Duration duration() { return Duration(static_cast<std::int64_t>(u64() >> (24 + u8() % 40))); }
  Rate rate() { return Rate::bits_per_second(u64() >> (24 + u8() % 40)); }

 private:
  template <class T>
  T take() {
    T value{};
    const std::size_t count = std::min(sizeof(T), bytes_.size());
    if (count > 0) std::memcpy(&value, bytes_.data(), count);
    bytes_ = bytes_.subspan(count);
    return value;
  }
  std::span<const std::uint8_t> bytes_;
};

}  // namespace spindrift
