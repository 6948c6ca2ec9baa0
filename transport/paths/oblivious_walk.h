#pragma once
// Every path once per round, in a new order each round: EV = i xor r, r redrawn (uet.md B.6).
#include <bit>
#include <cstdint>

#include "spindrift/types.h"

#include "transport/base/rng.h"

namespace spindrift {

class ObliviousWalk {
 public:
  ObliviousWalk(std::uint32_t path_count, std::uint64_t seed)
      : path_count_(path_count), mask_(std::bit_ceil(path_count) - 1), rng_(seed), twist_(draw()) {}

  // Where the count is no power of two, xor runs over the next one and values outside are left out,
  // so that a round stays a permutation; that costs at most two steps per path.
  PathId next() {
    while (true) {
      const std::uint32_t value = step_ ^ twist_;
      step_ = (step_ + 1) & mask_;
      if (step_ == 0) twist_ = draw();
      if (value < path_count_) return PathId{static_cast<std::uint16_t>(value)};
    }
  }

 private:
  std::uint32_t draw() { return static_cast<std::uint32_t>(rng_.next()) & mask_; }

  std::uint32_t path_count_;
  std::uint32_t mask_;
  Rng rng_;
  std::uint32_t twist_;
  std::uint32_t step_ = 0;
};

}  // namespace spindrift
