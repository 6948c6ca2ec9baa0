#pragma once
// Keeps what an algorithm asks for within what makes sense, counts what it had to change and
// remembers the first of it. Algorithms may come from outside; the ones that ship never need it.
#include <cstdint>
#include <string>

#include "spindrift/congestion_control.h"

namespace spindrift {

class LimitCheck {
 public:
  // A rate below this would take seconds for one packet.
  static constexpr Rate kSlowest = Rate::bits_per_second(1'000'000);
  // How far ahead a timer is put that was due in the past.
  static constexpr Duration kSoonest = std::chrono::microseconds(10);

  // Accepts everything.
  LimitCheck() = default;
  // `clamped` is counted up and must outlive this object.
  LimitCheck(const FlowInfo& flow, const CcTraits& traits, std::uint64_t& clamped);

  SendLimits first(const SendLimits& limits) { return after_timer(limits, start_); }
  // A timer that was set before may be overdue by now, and fires soon.
  SendLimits after_event(const SendLimits& limits, const SendLimits& before, Time now) {
    return is_sane(limits) && (limits.timer > now || limits.timer == before.timer)
               ? limits
               : correct(limits, now, limits.timer == before.timer);
  }
  SendLimits after_timer(const SendLimits& limits, Time now) {
    return is_sane(limits) && limits.timer > now ? limits : correct(limits, now, false);
  }

  // What the algorithm asked for first that made no sense, and what is used instead; empty:
  // nothing.
  const char* complaint() const { return complaint_; }

 private:
  bool is_sane(const SendLimits& limits) const {
    return limits.window_bytes >= window_min_ && limits.pacing_rate <= fastest_ &&
           (limits.pacing_rate >= slowest_ || limits.pacing_rate.is_unlimited()) &&
           (has_credit_ || limits.credit_bytes == kNoLimit);
  }
  SendLimits correct(SendLimits limits, Time now, bool is_timer_pending);

  Time start_ = Time::min();
  std::uint64_t window_min_ = 0;
  Rate slowest_{};
  Rate fastest_ = Rate::bits_per_second(kNoLimit);
  bool has_credit_ = true;
  std::uint64_t* clamped_ = nullptr;
  const char* complaint_ = "";
};

}  // namespace spindrift
