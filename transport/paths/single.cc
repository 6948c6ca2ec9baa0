// One path, chosen by the seed: for comparison with spraying. It moves only when the path is dark.
#include "transport/base/rng.h"
#include "transport/paths/policies.h"

namespace spindrift {
namespace {

// Packets lost in a row, without anything arriving, before the flow moves.
constexpr std::uint64_t kLostInRowMax = 64;

class Single final : public PathSelector {
 public:
  Single(std::uint32_t path_count, std::uint64_t seed)
      : path_count_(path_count), path_(static_cast<std::uint32_t>(Rng(seed).below(path_count))) {}

  void pick(std::span<PathId> out) override {
    for (PathId& path : out)
      path = PathId{static_cast<std::uint16_t>(path_)};
  }
  void on_feedback(std::span<const PathFeedback> feedback) override {
    for (const PathFeedback& one : feedback) {
      if (one.path.value == path_) on_own_path(one);
    }
  }
  void describe(StateWriter& out) const override {
    out.field("path", path_);
    out.field("moves", static_cast<double>(moves_));
  }

 private:
  void on_own_path(const PathFeedback& feedback) {
    switch (feedback.outcome) {
      case PathOutcome::kDelivered:
      case PathOutcome::kMarked:
      case PathOutcome::kTrimmed:
        lost_in_row_packets_ = 0;
        return;
      case PathOutcome::kLost:
        lost_in_row_packets_ += feedback.packets;
        if (lost_in_row_packets_ >= kLostInRowMax) move();
        return;
    }
  }
  void move() {
    path_ = (path_ + 1) % path_count_;
    lost_in_row_packets_ = 0;
    ++moves_;
  }

  std::uint32_t path_count_;
  std::uint32_t path_;
  std::uint64_t lost_in_row_packets_ = 0;
  std::uint64_t moves_ = 0;
};

std::unique_ptr<PathSelector> make(std::uint32_t path_count, std::uint64_t seed) {
  return std::make_unique<Single>(path_count, seed);
}

}  // namespace

const PathSelectorInfo kSinglePathPolicy{
    .name = "single",
    .summary = "one path, left only when it is dark; for comparison",
    .make = &make,
};

}  // namespace spindrift
