// DCQCN, sender side ("reaction point"): Zhu et al., "Congestion Control for Large-Scale RDMA
// Deployments", SIGCOMM 2015, section 3 and figure 7; uet.md C.1. The receiver's part, one
// notification per 50 us of marks, is the transport's (CcTraits::needs_cnp).
//
// Lower bound: the rate never falls below rate_min_mbps, or the link rate if that is lower. The
// window is a safety only: what FlowInfo allows.
#include "cc/algorithms.h"
#include "cc/filters.h"

namespace spindrift {
namespace {

// A loss counts as one notification, as rarely as a receiver sends them.
constexpr Duration kNotificationSpacing = std::chrono::microseconds(50);
// Byte-counter events one acknowledgement may bring; a real one brings at most one.
constexpr int kByteEventsMax = 16;
constexpr double kHyperFactor = 10;
constexpr std::uint64_t kStageMax = 1'000'000;

// In the order of kParameters.
struct Tuning {
  double g;
  Duration alpha_period;
  Duration timer;
  double byte_counter;
  std::uint64_t fast_recovery_stages;
  double rate_ai_bps;
  double rate_hai_bps;
  double rate_min_bps;
  bool cuts_on_loss;
};

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
  Dcqcn(const FlowInfo& flow, const Tuning& tuning)
      : tuning_(tuning),
        link_bps_(usable_bps(flow.link_rate)),
        target_bps_(link_bps_),
        rate_bps_(link_bps_),
        window_bytes_(static_cast<std::uint64_t>(window_cap_bytes(flow))),
        alpha_due_(after(flow.now, tuning.alpha_period)),
        increase_due_(after(flow.now, tuning.timer)) {}

  SendLimits initial() const override { return limits(); }

  SendLimits on_ack(const AckEvent& event) override {
    advance(event.now);
    // The paper counts bytes sent; an algorithm sees them when they are acknowledged.
    counted_bytes_ += bytes_of(event.acked_bytes);
    for (int i = 0; i < kByteEventsMax && counted_bytes_ >= tuning_.byte_counter; ++i) {
      counted_bytes_ -= tuning_.byte_counter;
      byte_stage_ = std::min(byte_stage_ + 1, kStageMax);
      increase();
    }
    counted_bytes_ = std::min(counted_bytes_, tuning_.byte_counter);
    return limits();
  }

  SendLimits on_loss(const LossEvent& event) override {
    advance(event.now);
    if (tuning_.cuts_on_loss && (!has_cut_ || event.now - last_cut_ >= kNotificationSpacing)) {
      cut(event.now);
    }
    return limits();
  }

  SendLimits on_signal(Time now, const Signal& signal) override {
    advance(now);
    if (std::holds_alternative<CongestionNotification>(signal)) {
      cut(now);
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
  SendLimits limits() const {
    // At the link rate an increase changes nothing and alpha is brought up to date when needed.
    const bool may_rise = rate_bps_ < link_bps_;
    return {.window_bytes = window_bytes_,
            .pacing_rate = Rate::bits_per_second(
                std::max<std::uint64_t>(1, static_cast<std::uint64_t>(rate_bps_))),
            .timer = may_rise ? increase_due_ : kNever};
  }

  void advance(Time now) {
    decay_alpha(now);
    if (now < increase_due_) return;
    // One event however late it comes: a host that was held up must not jump to a high rate.
    const Time next = after(increase_due_, tuning_.timer);
    increase_due_ = next > now ? next : after(now, tuning_.timer);
    timer_stage_ = std::min(timer_stage_ + 1, kStageMax);
    increase();
  }

  // Every K without a notification: alpha <- (1 - g) alpha.
  void decay_alpha(Time now) {
    if (now < alpha_due_) return;
    const std::int64_t periods = 1 + (now - alpha_due_) / tuning_.alpha_period;
    alpha_ *= power(1 - tuning_.g, static_cast<std::uint64_t>(periods));
    alpha_due_ = after(alpha_due_, tuning_.alpha_period * periods);
  }

  // The cut uses the old alpha, then alpha rises.
  void cut(Time now) {
    target_bps_ = rate_bps_;
    rate_bps_ = std::max(rate_bps_ * (1 - alpha_ / 2), rate_min_bps());
    alpha_ = (1 - tuning_.g) * alpha_ + tuning_.g;
    timer_stage_ = 0;
    byte_stage_ = 0;
    counted_bytes_ = 0;
    alpha_due_ = after(now, tuning_.alpha_period);
    increase_due_ = after(now, tuning_.timer);
    last_cut_ = now;
    has_cut_ = true;
    ++cuts_;
  }

  void increase() {
    const std::uint64_t most = std::max(timer_stage_, byte_stage_);
    const std::uint64_t least = std::min(timer_stage_, byte_stage_);
    if (least > tuning_.fast_recovery_stages) {
      const auto i = static_cast<double>(least - tuning_.fast_recovery_stages);
      target_bps_ += i * tuning_.rate_hai_bps;
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

  Tuning tuning_;
  double link_bps_;
  double target_bps_;  // R_T
  double rate_bps_;    // R_C
  std::uint64_t window_bytes_;
  double alpha_ = 1;
  double counted_bytes_ = 0;
  std::uint64_t timer_stage_ = 0;  // T
  std::uint64_t byte_stage_ = 0;   // BC
  std::uint64_t cuts_ = 0;
  Time alpha_due_;
  Time increase_due_;
  Time last_cut_{};
  bool has_cut_ = false;
};

constexpr std::string_view kPaperTable = "SIGCOMM 2015, deployed parameters";

constexpr ParameterInfo kParameters[] = {
    {.name = "g",
     .unit = "",
     .default_value = 1.0 / 256,
     .min = 1e-6,
     .max = 1,
     .help = "weight of one notification in alpha",
     .source = kPaperTable},
    {.name = "alpha_period_us",
     .unit = "us",
     .default_value = 55,
     .min = 1,
     .max = 1e6,
     .help = "K: alpha decays once per such period without a notification",
     .source = kPaperTable},
    {.name = "timer_us",
     .unit = "us",
     .default_value = 55,
     .min = 1,
     .max = 1e6,
     .help = "T: time between rate increases",
     .source = kPaperTable},
    {.name = "byte_counter_bytes",
     .unit = "bytes",
     .default_value = 10e6,
     .min = 1000,
     .max = 1e12,
     .help = "B: acknowledged bytes between rate increases",
     .source = kPaperTable},
    {.name = "fast_recovery_stages",
     .unit = "",
     .default_value = 5,
     .min = 1,
     .max = 100,
     .help = "F: increases before the target rate itself rises",
     .source = kPaperTable},
    {.name = "rate_ai_mbps",
     .unit = "Mb/s",
     .default_value = 40,
     .min = 0.001,
     .max = 1e6,
     .help = "R_AI: additive step of the target rate",
     .source = kPaperTable},
    {.name = "rate_hai_mbps",
     .unit = "Mb/s",
     .default_value = 0,
     .min = 0,
     .max = 1e6,
     .help = "R_HAI: hyper step of the target rate; 0: ten times the additive step",
     .source = "ratio of the mlx5 firmware defaults; the paper gives no number"},
    {.name = "rate_min_mbps",
     .unit = "Mb/s",
     .default_value = 40,
     .min = 0.001,
     .max = 1e6,
     .help = "the rate is never cut below this",
     .source = kPaperTable},
    {.name = "cuts_on_loss",
     .unit = "",
     .default_value = 1,
     .min = 0,
     .max = 1,
     .help = "1: a loss counts as a notification, at most one per 50 us; 0: losses are ignored",
     .source = "the paper assumes a lossless network, ours may drop"},
};

std::unique_ptr<CongestionControl> make(const FlowInfo& flow, std::span<const double> values) {
  const Tuning tuning{
      .g = values[0],
      .alpha_period = from_us(values[1]),
      .timer = from_us(values[2]),
      .byte_counter = values[3],
      .fast_recovery_stages = static_cast<std::uint64_t>(values[4]),
      .rate_ai_bps = values[5] * 1e6,
      .rate_hai_bps = (values[6] > 0 ? values[6] : kHyperFactor * values[5]) * 1e6,
      .rate_min_bps = values[7] * 1e6,
      .cuts_on_loss = values[8] >= 0.5,
  };
  return std::make_unique<Dcqcn>(flow, tuning);
}

}  // namespace

const CcInfo kDcqcn{
    .name = "dcqcn",
    .summary = "rate control by thinned ECN notifications, as RoCE NICs do it",
    .traits = {.needs_ecn = true, .needs_cnp = true},
    .parameters = kParameters,
    .make = &make,
};

}  // namespace spindrift
