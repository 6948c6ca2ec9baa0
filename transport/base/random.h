#pragma once
// Secrets from the kernel: keys, nonces, seeds. For numbers that must repeat, see rng.h.
#include <cstddef>
#include <cstdint>
#include <span>

namespace spindrift {

void fill_random(std::span<std::byte> out);
[[nodiscard]] std::uint64_t random_u64();

}  // namespace spindrift
