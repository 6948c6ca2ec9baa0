// Recycled entropies: a path whose packet arrived unmarked is used again (uet.md B.6,
// "REPS"). Its freezing after a failure is left out: the path table keeps dark paths out of use.
#include <optional>

#include "transport/paths/oblivious_walk.h"
#include "transport/paths/policies.h"
#include "transport/paths/recycled.h"

namespace spindrift {
namespace {

// With few bursts in flight the same few values would circulate for ever: one pick in sixteen tries
// another path even when a recycled one waits.
constexpr std::uint64_t kExploreEvery = 16;

class Reps final : public PathSelector {
 public:
  Reps(std::uint32_t path_count, std::uint64_t seed) : walk_(path_count, seed) {}

  void pick(std::span<PathId> out) override {
    for (PathId& path : out)
      path = next();
  }
  void on_feedback(std::span<const PathFeedback> feedback) override {
    // What was marked, trimmed or lost is not recycled.
    for (const PathFeedback& one : feedback)
      if (one.outcome == PathOutcome::kDelivered) recycled_.store(one.path);
  }
  void describe(StateWriter& out) const override { out.field("recycled_paths", recycled_.fresh()); }

 private:
  PathId next() {
    if (++picks_ % kExploreEvery == 0) return walk_.next();
    const std::optional<PathId> path = recycled_.take();
    return path.has_value() ? *path : walk_.next();
  }

  ObliviousWalk walk_;
  RecycledPaths recycled_;
  std::uint64_t picks_ = 0;
};

std::unique_ptr<PathSelector> make(std::uint32_t path_count, std::uint64_t seed) {
  return std::make_unique<Reps>(path_count, seed);
}

}  // namespace

const PathSelectorInfo kRepsPathPolicy{
    .name = "reps",
    .summary = "paths whose packets arrived unmarked are used again",
    .make = &make,
};

}  // namespace spindrift
