// TIMELY: Mittal et al., "TIMELY: RTT-based Congestion Control for the Datacenter", SIGCOMM 2015,
// algorithm 1; and "patched TIMELY" of Zhu et al., "ECN or Delay: Lessons Learnt from Analysis of
// DCQCN and TIMELY", CoNEXT 2016, algorithm 2, which gives it a fixed point and so fair shares. A
// rate steered by the gradient of the RTT.
//
// Lower bound: the rate never falls below rate_min_mbps, or the link rate if that is lower. The
// window is a safety only: what FlowInfo allows.
#include "cc/algorithms.h"
#include "cc/filters.h"

namespace spindrift {
namespace {

// Both thresholds and the step belong to the paper's network: RTT 20 us, 10 Gb/s.
constexpr double kLowPerRtt = 50.0 / 20;
constexpr double kHighPerRtt = 500.0 / 20;
constexpr double kStepPerLink = 10e6 / 10e9;
constexpr int kHyperAfter = 5;
constexpr double kHyperFactor = 5;

// In the order of kParameters.
struct Chosen {
  bool is_patched;
  double low_us;
  double high_us;
  double ewma;
  double beta;
  double patched_beta;
  double step_mbps;
  double segment_bytes;
  double loss_decrease;
  double rate_min_mbps;
};

class Timely final : public CongestionControl {
 public:
  Timely(const FlowInfo& flow, const Chosen& chosen)
      : chosen_(chosen),
        host_latency_(flow.host_latency),
        window_bytes_(static_cast<std::uint64_t>(window_cap_bytes(flow))) {
    set_path(flow.link_rate, flow.base_rtt);
    rate_bps_ = link_bps_;
  }

  SendLimits initial() const override { return limits(); }

  // One decision per segment, as the paper's per completion event.
  SendLimits on_ack(const AckEvent& event) override {
    counted_bytes_ = std::min(counted_bytes_ + bytes_of(event.acked_bytes), chosen_.segment_bytes);
    if (event.rtt <= Duration{} || counted_bytes_ < chosen_.segment_bytes) return limits();
    counted_bytes_ = 0;
    decide(to_us(event.rtt));
    return finish();
  }

  SendLimits on_loss(const LossEvent& event) override {
    if (has_loss_ && event.now - last_loss_ < rtt_min_) return limits();
    has_loss_ = true;
    last_loss_ = event.now;
    rate_bps_ *= 1 - chosen_.loss_decrease;
    return finish();
  }

  SendLimits on_signal(Time /*now*/, const Signal& signal) override {
    if (const auto* path = std::get_if<PathChanged>(&signal)) {
      const bool was_at_line_rate = rate_bps_ >= link_bps_;
      set_path(path->link_rate, path->base_rtt);
      if (was_at_line_rate) rate_bps_ = link_bps_;
    }
    return finish();
  }

  void describe(StateWriter& out) const override {
    out.field("rate_bps", rate_bps_);
    out.field("rtt_us", previous_us_);
    out.field("gradient", gradient());
    out.field("low_us", low_us_);
    out.field("high_us", high_us_);
    out.field("step_bps", step_bps_);
    out.field("falls_in_row", falls_in_row_);
    out.field("window_bytes", static_cast<double>(window_bytes_));
  }

 private:
  void set_path(Rate link_rate, Duration base_rtt) {
    link_bps_ = usable_bps(link_rate);
    rtt_min_ = usable_rtt(base_rtt, host_latency_);
    const double rtt_us = to_us(rtt_min_);
    low_us_ = chosen_.low_us > 0 ? chosen_.low_us : kLowPerRtt * rtt_us;
    high_us_ = std::max(chosen_.high_us > 0 ? chosen_.high_us : kHighPerRtt * rtt_us, low_us_);
    step_bps_ = chosen_.step_mbps > 0 ? chosen_.step_mbps * 1e6 : kStepPerLink * link_bps_;
  }

  double gradient() const { return difference_us_ / std::max(to_us(rtt_min_), 1e-3); }

  void decide(double rtt_us) {
    if (previous_us_ > 0) {
      difference_us_ = (1 - chosen_.ewma) * difference_us_ + chosen_.ewma * (rtt_us - previous_us_);
    }
    previous_us_ = rtt_us;
    if (rtt_us < low_us_) {
      rate_bps_ += step_bps_;
    } else if (rtt_us > high_us_) {
      rate_bps_ *= 1 - chosen_.beta * (1 - high_us_ / rtt_us);
    } else if (chosen_.is_patched) {
      follow_patched(rtt_us);
    } else {
      follow_gradient();
    }
    if (rtt_us >= low_us_ && gradient() > 0) falls_in_row_ = 0;
  }

  void follow_gradient() {
    if (gradient() > 0) {
      rate_bps_ *= std::max(0.0, 1 - chosen_.beta * gradient());
      return;
    }
    falls_in_row_ = std::min(falls_in_row_ + 1, kHyperAfter);
    rate_bps_ += falls_in_row_ >= kHyperAfter ? kHyperFactor * step_bps_ : step_bps_;
  }

  // The gradient only decides how much the distance to T_low counts.
  void follow_patched(double rtt_us) {
    const double weight = std::clamp(2 * gradient() + 0.5, 0.0, 1.0);
    const double error = (rtt_us - low_us_) / low_us_;
    rate_bps_ = step_bps_ * (1 - weight) +
                rate_bps_ * std::max(0.0, 1 - chosen_.patched_beta * weight * error);
  }

  SendLimits finish() {
    const double least = std::min(chosen_.rate_min_mbps * 1e6, link_bps_);
    rate_bps_ = std::clamp(rate_bps_, least, link_bps_);
    return limits();
  }

  SendLimits limits() const {
    return {.window_bytes = window_bytes_, .pacing_rate = pacing_rate(rate_bps_, link_bps_)};
  }

  Chosen chosen_;
  Duration host_latency_;
  std::uint64_t window_bytes_;
  Duration rtt_min_{};
  double link_bps_ = 0;
  double low_us_ = 0;
  double high_us_ = 0;
  double step_bps_ = 0;
  double rate_bps_ = 0;
  double previous_us_ = 0;
  double difference_us_ = 0;
  double counted_bytes_ = 0;
  int falls_in_row_ = 0;
  Time last_loss_{};
  bool has_loss_ = false;
};

constexpr std::string_view kPaper = "SIGCOMM 2015";

constexpr ParameterInfo kParameters[] = {
    {.name = "is_patched",
     .unit = "",
     .default_value = 1,
     .min = 0,
     .max = 1,
     .help = "1: patched TIMELY; 0: as published first, whose flows may share unfairly for ever",
     .source = "CoNEXT 2016, algorithm 2"},
    {.name = "low_us",
     .unit = "us",
     .default_value = 0,
     .min = 0,
     .max = 1e6,
     .help = "T_low: below it the rate rises whatever the gradient; 0: 2.5 base RTTs",
     .source = "SIGCOMM 2015: 50 us where the RTT is 20 us"},
    {.name = "high_us",
     .unit = "us",
     .default_value = 0,
     .min = 0,
     .max = 1e6,
     .help = "T_high: above it the rate falls whatever the gradient; 0: 25 base RTTs",
     .source = "SIGCOMM 2015: 500 us where the RTT is 20 us"},
    {.name = "ewma",
     .unit = "",
     .default_value = 0.875,
     .min = 0.001,
     .max = 1,
     .help = "alpha: weight of one RTT difference in the gradient",
     .source = "CoNEXT 2016, parameters of TIMELY"},
    {.name = "beta",
     .unit = "",
     .default_value = 0.8,
     .min = 0.0001,
     .max = 1,
     .help = "strength of the decrease above T_high and by the gradient",
     .source = kPaper},
    {.name = "patched_beta",
     .unit = "",
     .default_value = 0.008,
     .min = 0.0001,
     .max = 1,
     .help = "strength of the decrease by distance from T_low, once per segment",
     .source = "own, by the size of the steps; CoNEXT 2016 asks for a value far below beta"},
    {.name = "step_mbps",
     .unit = "Mb/s",
     .default_value = 0,
     .min = 0,
     .max = 1e6,
     .help = "delta: additive step; 0: a thousandth of the link rate",
     .source = "SIGCOMM 2015: 10 Mb/s at 10 Gb/s"},
    {.name = "segment_bytes",
     .unit = "bytes",
     .default_value = 16384,
     .min = 64,
     .max = 1e9,
     .help = "acknowledged bytes per decision",
     .source = "SIGCOMM 2015: segments of 16 to 64 KB"},
    {.name = "loss_decrease",
     .unit = "",
     .default_value = 0.5,
     .min = 0,
     .max = 0.99,
     .help = "share of the rate that losses take, once per base RTT",
     .source = "own: the paper assumes a lossless network, ours may drop"},
    {.name = "rate_min_mbps",
     .unit = "Mb/s",
     .default_value = 40,
     .min = 1,
     .max = 1e6,
     .help = "the rate is never cut below this",
     .source = "own: as for dcqcn"},
};

std::unique_ptr<CongestionControl> make(const FlowInfo& flow, std::span<const double> values) {
  return std::make_unique<Timely>(flow, Chosen{.is_patched = values[0] >= 0.5,
                                               .low_us = values[1],
                                               .high_us = values[2],
                                               .ewma = values[3],
                                               .beta = values[4],
                                               .patched_beta = values[5],
                                               .step_mbps = values[6],
                                               .segment_bytes = values[7],
                                               .loss_decrease = values[8],
                                               .rate_min_mbps = values[9]});
}

}  // namespace

const CcInfo kTimely{
    .name = "timely",
    .summary = "rate steered by the gradient of the RTT",
    .parameters = kParameters,
    .make = &make,
};

}  // namespace spindrift
