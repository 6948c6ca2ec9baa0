#pragma once
// The eight entropy values that worked most recently, each used once more: the buffer of REPS
// (recycled entropy packet spraying, uet.md B.6).
#include <array>
#include <cstdint>
#include <optional>

#include "spindrift/types.h"

namespace spindrift {

class RecycledPaths {
 public:
  static constexpr std::uint32_t kCapacity = 8;

  // Several acknowledgements may speak of one burst, so a path that already waits is not stored
  // again: it would crowd out the others.
  void store(PathId path) {
    for (std::uint32_t i = 0; i < fresh_; ++i) {
      if (slots_[index_of_fresh(i)] == path) return;
    }
    slots_[head_] = path;
    head_ = (head_ + 1) % kCapacity;
    if (fresh_ < kCapacity) ++fresh_;
  }
  // It has proved worse since: it is not used once more.
  void forget(PathId path) {
    std::uint32_t kept = 0;
    for (std::uint32_t i = fresh_; i != 0; --i) {  // from the newest on, towards the head
      const PathId one = slots_[index_of_fresh(i - 1)];
      if (one == path) continue;
      ++kept;
      slots_[(head_ + kCapacity - kept) % kCapacity] = one;
    }
    fresh_ = kept;
  }
  // The oldest that has not been used since it was stored.
  std::optional<PathId> take() {
    if (fresh_ == 0) return std::nullopt;
    const PathId path = slots_[index_of_fresh(0)];
    --fresh_;
    return path;
  }
  std::uint32_t fresh() const { return fresh_; }

 private:
  std::uint32_t index_of_fresh(std::uint32_t i) const {
    return (head_ + kCapacity - fresh_ + i) % kCapacity;
  }

  std::array<PathId, kCapacity> slots_{};
  std::uint32_t head_ = 0;
  std::uint32_t fresh_ = 0;
};

}  // namespace spindrift
