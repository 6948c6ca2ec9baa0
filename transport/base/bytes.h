#pragma once
// Big-endian loads and stores, and cursors that never leave their span.
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "transport/base/check.h"

namespace spindrift {

namespace internal {
template <std::unsigned_integral T>
constexpr T big_endian(T value) {
  static_assert(std::endian::native == std::endian::little || sizeof(T) == 1);
  if constexpr (sizeof(T) == 1) {
    return value;
  } else if constexpr (sizeof(T) == 2) {
    return __builtin_bswap16(value);
  } else if constexpr (sizeof(T) == 4) {
    return __builtin_bswap32(value);
  } else {
    return __builtin_bswap64(value);
  }
}
}  // namespace internal

// For code that has compared the length already; offset + sizeof(T) must be inside the span.
template <std::unsigned_integral T>
T load_be(std::span<const std::byte> from, std::size_t offset) {
  SPINDRIFT_DCHECK(offset + sizeof(T) <= from.size());
  T value = 0;
  std::memcpy(&value, from.data() + offset, sizeof(T));
  return internal::big_endian(value);
}

template <std::unsigned_integral T>
void store_be(std::span<std::byte> to, std::size_t offset, T value) {
  SPINDRIFT_DCHECK(offset + sizeof(T) <= to.size());
  value = internal::big_endian(value);
  std::memcpy(to.data() + offset, &value, sizeof(T));
}

// Reads forward. The first read past the end fails; from then on every read gives zero or nothing.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  std::uint8_t u8() { return read<std::uint8_t>(); }
  std::uint16_t u16() { return read<std::uint16_t>(); }
  std::uint32_t u32() { return read<std::uint32_t>(); }
  std::uint64_t u64() { return read<std::uint64_t>(); }
  // The next `count` bytes, in place; empty if there are fewer.
  std::span<const std::byte> take(std::size_t count) {
    if (!reserve(count)) return {};
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

  bool has_failed() const { return has_failed_; }
  std::span<const std::byte> rest() const { return rest_; }

 private:
  bool reserve(std::size_t count) {
    if (count <= rest_.size()) return true;
    has_failed_ = true;
    rest_ = {};
    return false;
  }
  template <class T>
  T read() {
    if (!reserve(sizeof(T))) return 0;
    const T value = load_be<T>(rest_, 0);
    rest_ = rest_.subspan(sizeof(T));
    return value;
  }

  std::span<const std::byte> rest_;
  bool has_failed_ = false;
};

// Writes forward. The first write that does not fit fails; from then on nothing is written.
class ByteWriter {
 public:
  explicit ByteWriter(std::span<std::byte> bytes) : bytes_(bytes) {}

  void u8(std::uint8_t value) { write(value); }
  void u16(std::uint16_t value) { write(value); }
  void u32(std::uint32_t value) { write(value); }
  void u64(std::uint64_t value) { write(value); }
  void put(std::span<const std::byte> bytes) {
    if (!reserve(bytes.size())) return;
    if (!bytes.empty()) std::memcpy(bytes_.data() + written_, bytes.data(), bytes.size());
    written_ += bytes.size();
  }

  bool has_failed() const { return has_failed_; }
  std::size_t written() const { return written_; }

 private:
  bool reserve(std::size_t count) {
    has_failed_ = has_failed_ || count > bytes_.size() - written_;
    return !has_failed_;
  }
  template <class T>
  void write(T value) {
    if (!reserve(sizeof(T))) return;
    store_be(bytes_, written_, value);
    written_ += sizeof(T);
  }

  std::span<std::byte> bytes_;
  std::size_t written_ = 0;
  bool has_failed_ = false;
};

}  // namespace spindrift
