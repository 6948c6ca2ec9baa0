#include "providers/dpdk/checksum.h"

#include <array>
#include <cstring>

namespace spindrift {

std::uint16_t sum_words(std::span<const std::byte> bytes) {
  // 32-bit words into 64-bit sums: cannot overflow below 2^34 bytes, and compilers make vectors
  // of it.
  static constexpr std::size_t kLanes = 8;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  std::array<std::uint64_t, kLanes> sums{};
  for (; left >= kLanes * 4; left -= kLanes * 4, at += kLanes * 4) {
    std::array<std::uint32_t, kLanes> words{};
    std::memcpy(words.data(), at, sizeof words);
    for (std::size_t i = 0; i < kLanes; ++i)
      sums[i] += words[i];
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t one : sums)
    sum += one;
  for (; left >= 2; left -= 2, at += 2) {
    std::uint16_t word = 0;
    std::memcpy(&word, at, sizeof word);
    sum += word;
  }
  if (left == 1) {
    std::uint16_t word = 0;
    std::memcpy(&word, at, 1);
    sum += word;
  }
  while (sum >> 16U != 0)
    sum = (sum & 0xffffU) + (sum >> 16U);
  return static_cast<std::uint16_t>(sum);
}

}  // namespace spindrift
