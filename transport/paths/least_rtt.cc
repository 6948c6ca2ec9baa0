// Power of two choices over smoothed path RTT.
#include <algorithm>
#include <vector>

#include "transport/base/rng.h"
#include "transport/paths/oblivious_walk.h"
#include "transport/paths/policies.h"

namespace spindrift {
namespace {

// The slowest path loses every comparison and would never be measured again: one pick in sixteen
// goes round all paths.
constexpr std::uint64_t kRefreshEvery = 16;
// Of a path that lost before it ever delivered: known to be bad, so not tried first any more.
constexpr std::int64_t kRttLostFirstNs = 1'000'000;
constexpr std::int64_t kRttMaxNs = 60'000'000'000;

class LeastRtt final : public PathSelector {
 public:
  LeastRtt(std::uint32_t path_count, std::uint64_t seed)
      : path_count_(path_count), rng_(seed), walk_(path_count, rng_.next()), rtts_ns_(path_count) {}

  void pick(std::span<PathId> out) override {
    for (PathId& path : out)
      path = next();
  }
  void on_feedback(std::span<const PathFeedback> feedback) override {
    for (const PathFeedback& one : feedback) {
      if (one.path.value >= path_count_) continue;
      std::int64_t& rtt_ns = rtts_ns_[one.path.value];
      if (one.rtt > Duration{}) add_sample(rtt_ns, std::min(one.rtt.count(), kRttMaxNs));
      switch (one.outcome) {
        case PathOutcome::kDelivered:
        case PathOutcome::kMarked:  // the queue that marked shows in the RTT
          break;
        case PathOutcome::kTrimmed:
        case PathOutcome::kLost:
          slow_down(rtt_ns);
          break;
      }
    }
  }
  void describe(StateWriter& out) const override {
    out.field("least_rtt_ns",
              static_cast<double>(*std::min_element(rtts_ns_.begin(), rtts_ns_.end())));
    out.field("largest_rtt_ns",
              static_cast<double>(*std::max_element(rtts_ns_.begin(), rtts_ns_.end())));
  }

 private:
  PathId next() {
    if (++picks_ % kRefreshEvery == 0 || path_count_ == 1) return walk_.next();
    const std::uint64_t a = rng_.below(path_count_);
    const std::uint64_t b = (a + 1 + rng_.below(path_count_ - 1)) % path_count_;
    // No sample yet reads as zero: unknown paths are tried first.
    return PathId{static_cast<std::uint16_t>(rtts_ns_[b] < rtts_ns_[a] ? b : a)};
  }
  static void add_sample(std::int64_t& rtt_ns, std::int64_t sample_ns) {
    rtt_ns = rtt_ns == 0 ? sample_ns : std::max<std::int64_t>(1, rtt_ns + (sample_ns - rtt_ns) / 8);
  }
  // A loss brings no sample: the path counts as slower until samples pull it back.
  static void slow_down(std::int64_t& rtt_ns) {
    if (rtt_ns == 0) rtt_ns = kRttLostFirstNs;
    rtt_ns = std::min(rtt_ns + rtt_ns / 4, kRttMaxNs);
  }

  std::uint32_t path_count_;
  Rng rng_;
  ObliviousWalk walk_;
  std::vector<std::int64_t> rtts_ns_;  // smoothed, gain 1/8
  std::uint64_t picks_ = 0;
};

std::unique_ptr<PathSelector> make(std::uint32_t path_count, std::uint64_t seed) {
  return std::make_unique<LeastRtt>(path_count, seed);
}

}  // namespace

const PathSelectorInfo kLeastRttPathPolicy{
    .name = "least_rtt",
    .summary = "the faster of two random paths by smoothed RTT",
    .make = &make,
};

}  // namespace spindrift
