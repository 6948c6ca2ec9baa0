// Spraying that passes over paths with recent marks, trims or losses (uet.md B.6, "Bitmap").
#include "transport/paths/penalties.h"
#include "transport/paths/policies.h"

namespace spindrift {
namespace {

class Bitmap final : public PathSelector {
 public:
  Bitmap(std::uint32_t path_count, std::uint64_t seed)
      : path_count_(path_count), walk_(path_count, seed) {}

  void pick(std::span<PathId> out) override {
    for (PathId& path : out)
      path = walk_.next();
  }
  void on_feedback(std::span<const PathFeedback> feedback) override {
    for (const PathFeedback& one : feedback)
      walk_.on_feedback(one);
  }
  void describe(StateWriter& out) const override {
    out.field("penalised_paths", path_count_ - walk_.clean_count());
  }

 private:
  std::uint32_t path_count_;
  PenaltyWalk walk_;
};

std::unique_ptr<PathSelector> make(std::uint32_t path_count, std::uint64_t seed) {
  return std::make_unique<Bitmap>(path_count, seed);
}

}  // namespace

const PathSelectorInfo kBitmapPathPolicy{
    .name = "bitmap",
    .summary = "all paths in turn, but for those with recent marks, trims or losses",
    .make = &make,
};

}  // namespace spindrift
