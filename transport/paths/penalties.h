#pragma once
// A penalty per path, 0..15, worked off by being passed over: the "bitmap" scheme of uet.md B.6.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "spindrift/path_selector.h"

#include "transport/paths/oblivious_walk.h"

namespace spindrift {

class PenaltyWalk {
 public:
  static constexpr std::uint8_t kPenaltyMax = 15;

  PenaltyWalk(std::uint32_t path_count, std::uint64_t seed)
      : path_count_(path_count), clean_count_(path_count), walk_(path_count, seed) {
    for (std::uint32_t i = 0; i < path_count; ++i)
      set_clean(i);
  }

  // The next path of the walk without a penalty. Only the first one passed over is forgiven a
  // point, so that bad paths return slowly. When all are penalised: the next, as it comes.
  PathId next() {
    PathId path = walk_.next();
    if (penalties_[path.value] == 0) return path;
    const PathId first = path;
    if (clean_count_ > 0) path = next_clean(path);
    forgive(first.value);
    return path;
  }

  // Once per feedback, not per packet: a burst of 64 packets is still one observation.
  void on_feedback(const PathFeedback& feedback) {
    switch (feedback.outcome) {
      case PathOutcome::kDelivered:
        return;
      case PathOutcome::kMarked:
        return punish(feedback.path.value, 1);
      case PathOutcome::kTrimmed:
      // A single loss says no more than a trim: a random one must not cost the path 15 turns.
      case PathOutcome::kLost:
        return punish(feedback.path.value, 4);
    }
  }

  std::uint32_t clean_count() const { return clean_count_; }
  std::uint8_t penalty(PathId path) const { return penalties_[path.value]; }

 private:
  // Bounds one pick when few of many paths are clean.
  static constexpr int kWalkMax = 16;

  PathId next_clean(PathId path) {
    for (int i = 0; i < kWalkMax; ++i) {
      path = walk_.next();
      if (penalties_[path.value] == 0) return path;
    }
    const std::size_t start_word = path.value / 64;
    // The word of `path` comes twice: its upper part first, its lower part last.
    for (std::size_t i = 0; i <= clean_.size(); ++i) {
      const std::size_t word = (start_word + i) % clean_.size();
      const std::uint64_t from = i == 0 ? ~0ULL << (path.value % 64) : ~0ULL;
      const std::uint64_t bits = clean_[word] & from;
      if (bits == 0) continue;
      return PathId{
          static_cast<std::uint16_t>(word * 64 + static_cast<std::size_t>(std::countr_zero(bits)))};
    }
    return path;
  }

  void punish(std::size_t path, std::uint8_t points) {
    if (path >= path_count_) return;
    if (penalties_[path] == 0) {
      --clean_count_;
      clean_[path / 64] &= ~(1ULL << (path % 64));
    }
    penalties_[path] =
        static_cast<std::uint8_t>(std::min<int>(penalties_[path] + points, kPenaltyMax));
  }
  void forgive(std::size_t path) {
    if (--penalties_[path] > 0) return;
    ++clean_count_;
    set_clean(path);
  }
  void set_clean(std::size_t path) { clean_[path / 64] |= 1ULL << (path % 64); }

  std::uint32_t path_count_;
  std::uint32_t clean_count_;
  ObliviousWalk walk_;
  std::array<std::uint8_t, kMaxPaths> penalties_{};
  std::array<std::uint64_t, kMaxPaths / 64> clean_{};
};

}  // namespace spindrift
