// A recycled entropy if there is one, else the bitmap walk (uet.md B.6, "Mixed").
#include "transport/paths/penalties.h"
#include "transport/paths/policies.h"
#include "transport/paths/recycled.h"

namespace spindrift {
namespace {

// With few bursts in flight the same few values would circulate for ever: one pick in sixteen is
// left to the walk.
constexpr std::uint64_t kExploreEvery = 16;

class Mixed final : public PathSelector {
 public:
  Mixed(std::uint32_t path_count, std::uint64_t seed)
      : path_count_(path_count), walk_(path_count, seed) {}

  void pick(std::span<PathId> out) override {
    for (PathId& path : out)
      path = next();
  }
  void on_feedback(std::span<const PathFeedback> feedback) override {
    for (const PathFeedback& one : feedback) {
      walk_.on_feedback(one);
      if (one.outcome == PathOutcome::kDelivered)
        recycled_.store(one.path);
      else
        recycled_.forget(one.path);
    }
  }
  void describe(StateWriter& out) const override {
    out.field("recycled_paths", recycled_.fresh());
    out.field("penalised_paths", path_count_ - walk_.clean_count());
  }

 private:
  PathId next() {
    if (++picks_ % kExploreEvery == 0) return walk_.next();
    const std::optional<PathId> path = recycled_.take();
    return path.has_value() ? *path : walk_.next();
  }

  std::uint32_t path_count_;
  PenaltyWalk walk_;
  RecycledPaths recycled_;
  std::uint64_t picks_ = 0;
};

std::unique_ptr<PathSelector> make(std::uint32_t path_count, std::uint64_t seed) {
  return std::make_unique<Mixed>(path_count, seed);
}

}  // namespace

const PathSelectorInfo kMixedPathPolicy{
    .name = "mixed",
    .summary = "a recycled path if there is one, else the bitmap walk",
    .make = &make,
};

}  // namespace spindrift
