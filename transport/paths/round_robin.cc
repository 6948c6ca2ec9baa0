// Oblivious spraying: every path once per round, whatever happens on it.
#include "transport/paths/oblivious_walk.h"
#include "transport/paths/policies.h"

namespace spindrift {
namespace {

class RoundRobin final : public PathSelector {
 public:
  RoundRobin(std::uint32_t path_count, std::uint64_t seed) : walk_(path_count, seed) {}

  void pick(std::span<PathId> out) override {
    for (PathId& path : out)
      path = walk_.next();
    picks_ += out.size();
  }
  void on_feedback(std::span<const PathFeedback>) override {}
  void describe(StateWriter& out) const override {
    out.field("picks", static_cast<double>(picks_));
  }

 private:
  ObliviousWalk walk_;
  std::uint64_t picks_ = 0;
};

std::unique_ptr<PathSelector> make(std::uint32_t path_count, std::uint64_t seed) {
  return std::make_unique<RoundRobin>(path_count, seed);
}

}  // namespace

const PathSelectorInfo kRoundRobinPathPolicy{
    .name = "round_robin",
    .summary = "all paths in turn, in a new order each round, whatever happens on them",
    .make = &make,
};

}  // namespace spindrift
