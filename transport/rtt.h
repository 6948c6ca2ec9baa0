#pragma once
// Smoothed round-trip time and retransmission timeout (RFC 6298 gains).
#include <algorithm>

#include "spindrift/types.h"

namespace spindrift {

class RttEstimator {
 public:
  void add(Duration sample) {
    sample = std::max(sample, Duration(1));
    latest_ = sample;
    if (smoothed_ == Duration{}) {
      smoothed_ = sample;
      variation_ = sample / 2;
      min_ = sample;
      return;
    }
    const Duration error = sample > smoothed_ ? sample - smoothed_ : smoothed_ - sample;
    variation_ += (error - variation_) / 4;
    smoothed_ += (sample - smoothed_) / 8;
    min_ = std::min(min_, sample);
  }
  bool has_sample() const { return smoothed_ != Duration{}; }
  Duration smoothed() const { return smoothed_; }
  Duration variation() const { return variation_; }
  Duration latest() const { return latest_; }
  Duration min() const { return min_; }
  // Without a sample yet: `fallback`.
  Duration timeout(Duration lowest, Duration highest, Duration fallback) const {
    if (!has_sample()) return std::clamp(fallback, lowest, highest);
    return std::clamp(smoothed_ + 4 * variation_, lowest, highest);
  }

 private:
  Duration smoothed_{};
  Duration variation_{};
  Duration latest_{};
  Duration min_{};
};

}  // namespace spindrift
