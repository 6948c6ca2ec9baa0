#pragma once
// SipHash-2-4 (Aumasson and Bernstein 2012): a keyed 64-bit hash that strangers cannot predict.
#include <cstddef>
#include <cstdint>
#include <span>

namespace spindrift {

// The 16 key bytes of the paper as two little-endian words, first word first.
struct SipKey {
  std::uint64_t k0 = 0;
  std::uint64_t k1 = 0;
};

[[nodiscard]] std::uint64_t siphash24(std::span<const std::byte> bytes, const SipKey& key);

}  // namespace spindrift
