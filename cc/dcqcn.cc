// DCQCN, sender side ("reaction point"): Zhu et al., "Congestion Control for Large-Scale RDMA
// Deployments", SIGCOMM 2015, section 3 and figure 7; the variant of mlx5 NICs as the ns-3 model of
// HPCC has it; uet.md C.1. The receiver's part, one notification per 50 us of marks, is here too:
// marks come back with acknowledgements.
//
// Lower bound: the rate never falls below rate_min_mbps, or the link rate if that is lower. The
// window is a safety only: what FlowInfo allows.
#include "cc/algorithms.h"
#include "cc/dcqcn_tuning.h"
#include "cc/filters.h"

namespace spindrift {
namespace {

// A loss counts as one notification, as rarely as a receiver of the paper sends them.
constexpr Duration kLossSpacing = std::chrono::microseconds(50);
// Byte-counter events one acknowledgement may bring; a real one brings at most one.
constexpr int kByteEventsMax = 16;
constexpr std::uint64_t kStageMax = 1'000'000;

double power(double base, std::uint64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result *= base;
    base *= base;
  }
  return result;
}

class Dcqcn final : public CongestionControl {
 public:
  Dcqcn(const FlowInfo& flow, const DcqcnTuning& tuning)
      : tuning_(tuning),
        link_bps_(usable_bps(flow.link_rate)),
        target_bps_(link_bps_),
        rate_bps_(link_bps_),
        window_bytes_(static_cast<std::uint64_t>(window_cap_bytes(flow))),
        alpha_(tuning.initial_alpha),
        alpha_due_(after(flow.now, tuning.alpha_period)),
        increase_due_(after(flow.now, tuning.timer)) {}

  SendLimits initial() const override { return limits(); }

  SendLimits on_ack(const AckEvent& event) override {
    advance(event.now);
    if (event.is_marked) note_mark(event.now);
    count_bytes(bytes_of(event.acked_bytes));
    return limits();
  }

  SendLimits on_loss(const LossEvent& event) override {
    advance(event.now);
    if (tuning_.cuts_on_loss && is_spaced(event.now, last_loss_, kLossSpacing)) {
      last_loss_ = event.now;
      notify(event.now);
    }
    return limits();
  }

  SendLimits on_signal(Time now, const Signal& signal) override {
    advance(now);
    if (std::holds_alternative<CongestionNotification>(signal)) {
      notify(now);
    } else if (const auto* path = std::get_if<PathChanged>(&signal)) {
      change_link(usable_bps(path->link_rate));
    }
    return limits();
  }

  void describe(StateWriter& out) const override {
    out.field("rate_bps", rate_bps_);
    out.field("target_rate_bps", target_bps_);
    out.field("alpha", alpha_);
    out.field("timer_stage", static_cast<double>(timer_stage_));
    out.field("byte_stage", static_cast<double>(byte_stage_));
    out.field("cuts", static_cast<double>(cuts_));
    out.field("window_bytes", static_cast<double>(window_bytes_));
  }

 private:
  static bool is_spaced(Time now, Time last, Duration spacing) {
    return last == kNever || now - last >= spacing;
  }

  SendLimits limits() const {
    // At the link rate an increase changes nothing and alpha is brought up to date when needed.
    const bool may_rise = rate_bps_ < link_bps_;
    return {.window_bytes = window_bytes_,
            .pacing_rate = pacing_rate(rate_bps_, link_bps_),
            .timer = std::min({may_rise ? increase_due_ : kNever, cut_due_, notification_due_})};
  }

  void advance(Time now) {
    update_alpha(now);
    if (now >= notification_due_) {
      last_notification_ = notification_due_;
      notification_due_ = kNever;
      notify(now);
    }
    if (now >= cut_due_) cut(now);
    if (now < increase_due_) return;
    // One event however late it comes: a host that was held up must not jump to a high rate.
    const Time next = after(increase_due_, tuning_.timer);
    increase_due_ = next > now ? next : after(now, tuning_.timer);
    increase();
    timer_stage_ = std::min(timer_stage_ + 1, kStageMax);
  }

  // All periods that are over. The paper's alpha decays with each; that of mlx5 rises with one that
  // held a notification.
  void update_alpha(Time now) {
    if (now < alpha_due_ || (tuning_.alpha_by_period && !was_notified_)) return;
    const std::int64_t periods = 1 + (now - alpha_due_) / tuning_.alpha_period;
    if (tuning_.alpha_by_period && alpha_rises_) {
      alpha_ = (1 - tuning_.g) * alpha_ + tuning_.g;
      alpha_ *= power(1 - tuning_.g, static_cast<std::uint64_t>(periods - 1));
      alpha_rises_ = false;
    } else {
      alpha_ *= power(1 - tuning_.g, static_cast<std::uint64_t>(periods));
    }
    alpha_due_ = after(alpha_due_, tuning_.alpha_period * periods);
  }

  // The notification point: a mark is told of at once, and those of the spacing after it, together,
  // at its end (section 3.1, figure 6).
  void note_mark(Time now) {
    if (is_spaced(now, last_notification_, tuning_.notification_spacing)) {
      last_notification_ = now;
      notify(now);
    } else if (tuning_.keeps_marks) {
      notification_due_ = after(last_notification_, tuning_.notification_spacing);
    }
  }

  void notify(Time now) {
    if (tuning_.alpha_by_period) {
      if (!was_notified_) alpha_due_ = after(now, tuning_.alpha_period);
      alpha_rises_ = was_notified_;  // the first one finds alpha as it should be
    }
    was_notified_ = true;
    if (is_spaced(now, last_cut_, tuning_.cut_period))
      cut(now);
    else
      cut_due_ = after(last_cut_, tuning_.cut_period);
  }

  // The paper's cut uses the old alpha, then alpha rises.
  void cut(Time now) {
    const bool had_increase = timer_stage_ > 0 || byte_stage_ > 0;
    if (tuning_.clamps_target || had_increase || last_cut_ == kNever) target_bps_ = rate_bps_;
    rate_bps_ = std::max(rate_bps_ * (1 - alpha_ / 2), rate_min_bps());
    if (!tuning_.alpha_by_period) {
      alpha_ = (1 - tuning_.g) * alpha_ + tuning_.g;
      alpha_due_ = after(now, tuning_.alpha_period);
    }
    timer_stage_ = 0;
    byte_stage_ = 0;
    counted_bytes_ = 0;
    increase_due_ = after(now, tuning_.timer);
    last_cut_ = now;
    cut_due_ = kNever;
    ++cuts_;
  }

  // The paper counts bytes sent; an algorithm sees them when they are acknowledged.
  void count_bytes(double bytes) {
    if (tuning_.byte_counter <= 0) return;
    counted_bytes_ += bytes;
    for (int i = 0; i < kByteEventsMax && counted_bytes_ >= tuning_.byte_counter; ++i) {
      counted_bytes_ -= tuning_.byte_counter;
      increase();
      byte_stage_ = std::min(byte_stage_ + 1, kStageMax);
    }
    counted_bytes_ = std::min(counted_bytes_, tuning_.byte_counter);
  }

  // Stages count the increases before this one: F of them recover.
  void increase() {
    const std::uint64_t most = std::max(timer_stage_, byte_stage_);
    const std::uint64_t least =
        tuning_.byte_counter > 0 ? std::min(timer_stage_, byte_stage_) : timer_stage_;
    if (least > tuning_.fast_recovery_stages) {
      const auto i = static_cast<double>(least - tuning_.fast_recovery_stages);
      target_bps_ += (tuning_.hyper_grows ? i : 1) * tuning_.rate_hai_bps;
    } else if (most >= tuning_.fast_recovery_stages) {
      target_bps_ += tuning_.rate_ai_bps;
    }
    target_bps_ = std::min(target_bps_, link_bps_);
    rate_bps_ = std::clamp((target_bps_ + rate_bps_) / 2, rate_min_bps(), link_bps_);
    // Halving the rest for ever would keep a timer running for a few bits per second.
    if (link_bps_ - rate_bps_ < 1) rate_bps_ = link_bps_;
  }

  void change_link(double link_bps) {
    const bool was_at_line_rate = rate_bps_ >= link_bps_;
    link_bps_ = link_bps;
    rate_bps_ = was_at_line_rate ? link_bps : std::min(rate_bps_, link_bps);
    target_bps_ = was_at_line_rate ? link_bps : std::min(target_bps_, link_bps);
  }

  double rate_min_bps() const { return std::min(tuning_.rate_min_bps, link_bps_); }

  DcqcnTuning tuning_;
  double link_bps_;
  double target_bps_;  // R_T
  double rate_bps_;    // R_C
  std::uint64_t window_bytes_;
  double alpha_;
  double counted_bytes_ = 0;
  std::uint64_t timer_stage_ = 0;  // T: increases since the last cut
  std::uint64_t byte_stage_ = 0;   // BC
  std::uint64_t cuts_ = 0;
  Time alpha_due_;
  Time increase_due_;
  Time cut_due_ = kNever;  // a notification waits for the end of the cut period
  Time last_cut_ = kNever;
  Time last_notification_ = kNever;
  Time notification_due_ = kNever;  // marks wait for the end of the spacing
  Time last_loss_ = kNever;
  bool was_notified_ = false;
  bool alpha_rises_ = false;  // at the end of this period
};

std::unique_ptr<CongestionControl> make(const FlowInfo& flow, std::span<const double> values) {
  return std::make_unique<Dcqcn>(flow, dcqcn_tuning(values));
}

}  // namespace

const CcInfo kDcqcn{
    .name = "dcqcn",
    .summary = "rate control by thinned ECN notifications, as RoCE NICs do it",
    .traits = {.needs_ecn = true},
    .parameters = kDcqcnParameters,
    .sets = kDcqcnSets,
    .make = &make,
};

}  // namespace spindrift
