// Recycled entropies: a path whose packet arrived unmarked is used again (uet.md B.6, "REPS").
#include <algorithm>

#include "transport/paths/oblivious_walk.h"
#include "transport/paths/policies.h"
#include "transport/paths/recycled.h"

namespace spindrift {
namespace {

constexpr std::uint32_t kExplorePicks = 16;
// With few bursts in flight the same few values would circulate for ever: one pick in sixteen tries
// another path even when a recycled one waits.
constexpr std::uint64_t kExploreEvery = 16;
// A policy has no clock: where the reference stays frozen for 10 ms, this one waits for as many
// good packets as 10 ms bring at 10 Gb/s in packets of 4 KiB.
constexpr std::uint64_t kFrozenPackets = 3000;

class Reps final : public PathSelector {
 public:
  Reps(std::uint32_t path_count, std::uint64_t seed) : walk_(path_count, seed) {}

  void pick(std::span<PathId> out) override {
    for (PathId& path : out)
      path = next();
  }
  void on_feedback(std::span<const PathFeedback> feedback) override {
    for (const PathFeedback& one : feedback)
      on_one(one);
  }
  void describe(StateWriter& out) const override {
    out.field("recycled_paths", recycled_.fresh());
    out.field("is_frozen", frozen_packets_left_ > 0 ? 1 : 0);
    out.field("freezes", static_cast<double>(freezes_));
  }

 private:
  PathId next() {
    ++picks_;
    if (explore_picks_left_ > 0) {
      --explore_picks_left_;
      return walk_.next();
    }
    if (picks_ % kExploreEvery == 0) return walk_.next();
    const bool is_frozen = frozen_packets_left_ > 0;
    const std::optional<PathId> path = is_frozen ? recycled_.cycle() : recycled_.take();
    return path.has_value() ? *path : walk_.next();
  }

  void on_one(const PathFeedback& feedback) {
    switch (feedback.outcome) {
      case PathOutcome::kDelivered:
        recycled_.store(feedback.path);
        thaw(feedback.packets);
        return;
      case PathOutcome::kMarked:
      case PathOutcome::kTrimmed:
      case PathOutcome::kLost:
        return;  // not recycled
      case PathOutcome::kTimedOut:
        if (frozen_packets_left_ > 0 || explore_picks_left_ > 0) return;
        frozen_packets_left_ = kFrozenPackets;
        ++freezes_;
        return;
    }
  }
  void thaw(std::uint32_t packets) {
    if (frozen_packets_left_ == 0) return;
    frozen_packets_left_ -= std::min<std::uint64_t>(packets, frozen_packets_left_);
    if (frozen_packets_left_ > 0) return;
    recycled_.clear();
    explore_picks_left_ = kExplorePicks;
  }

  ObliviousWalk walk_;
  RecycledPaths recycled_;
  std::uint64_t picks_ = 0;
  std::uint32_t explore_picks_left_ = 0;
  std::uint64_t frozen_packets_left_ = 0;
  std::uint64_t freezes_ = 0;
};

std::unique_ptr<PathSelector> make(std::uint32_t path_count, std::uint64_t seed) {
  return std::make_unique<Reps>(path_count, seed);
}

}  // namespace

const PathSelectorInfo kRepsPathPolicy{
    .name = "reps",
    .summary = "paths whose packets arrived unmarked are used again; frozen to these by a timeout",
    .make = &make,
};

}  // namespace spindrift
