#include "transport/limit_check.h"

#include <algorithm>

namespace spindrift {

LimitCheck::LimitCheck(const FlowInfo& flow, const CcTraits& traits, std::uint64_t& clamped)
    : start_(flow.now),
      window_min_(flow.mtu_bytes),
      slowest_(kSlowest),
      has_credit_(traits.is_receiver_driven),
      clamped_(&clamped) {
  if (!flow.link_rate.is_unlimited()) fastest_ = flow.link_rate;
  slowest_ = std::min(slowest_, fastest_);
}

SendLimits LimitCheck::correct(SendLimits limits, Time now, bool is_timer_pending) {
  const char* complaint = "";
  if (limits.timer <= now && !is_timer_pending) {
    complaint = "a timer in the past; it is due 10 us from now";
    limits.timer = now + kSoonest;
  }
  if (!has_credit_ && limits.credit_bytes != kNoLimit) {
    complaint = "a credit, though it is not receiver-driven; there is none";
    limits.credit_bytes = kNoLimit;
  }
  if (limits.pacing_rate > fastest_) {
    complaint = "a rate above the link's; it is the link's";
    limits.pacing_rate = fastest_;
  }
  if (limits.pacing_rate < slowest_ && !limits.pacing_rate.is_unlimited()) {
    complaint = "a rate below 1 Mb/s; it is 1 Mb/s";
    limits.pacing_rate = slowest_;
  }
  if (limits.window_bytes < window_min_) {
    complaint = "a window of less than one packet; it is one packet";
    limits.window_bytes = window_min_;
  }
  if (clamped_ != nullptr) ++*clamped_;
  if (*complaint_ == '\0') complaint_ = complaint;
  return limits;
}

}  // namespace spindrift
