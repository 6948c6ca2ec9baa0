#pragma once
// The Internet checksum (RFC 1071) over bytes that lie in pieces. Sums are kept in memory order, in
// which the result is stored as it is. Internal to providers/dpdk.
#include <cstddef>
#include <cstdint>
#include <span>

namespace spindrift {

// The sum of 16-bit words as they lie in memory, folded to 16 bits; an odd last byte counts as a
// word whose second byte is zero.
std::uint16_t sum_words(std::span<const std::byte> bytes);

// Adds with end-around carry.
inline std::uint16_t add_sums(std::uint32_t a, std::uint32_t b) {
  const std::uint32_t sum = a + b;
  return static_cast<std::uint16_t>((sum & 0xffffU) + (sum >> 16U));
}

// Pieces one after another, of any length.
class ChecksumOfPieces {
 public:
  void add(std::span<const std::byte> bytes) {
    std::uint16_t sum = sum_words(bytes);
    // Behind an odd number of bytes every byte stands in the other half of its word.
    if (is_odd_) sum = static_cast<std::uint16_t>((sum << 8U) | (sum >> 8U));
    sum_ = add_sums(sum_, sum);
    is_odd_ = is_odd_ != (bytes.size() % 2 == 1);
  }
  std::uint16_t sum() const { return sum_; }

 private:
  std::uint16_t sum_ = 0;
  bool is_odd_ = false;
};

}  // namespace spindrift
