// Swift: Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in the
// Datacenter", SIGCOMM 2020, algorithm 1 and section 3. A window that keeps the delay of the fabric
// at a target. The paper's second window, for the delay inside the receiving host, has no input
// here: RTT comes without it, and an overrun receiver answers with its penalty bits.
//
// Lower bound: window_min_packets, which may be below one; then the window is one packet and pacing
// spreads the packets, never below 1 Mb/s.
#include "cc/algorithms.h"
#include "cc/filters.h"

namespace spindrift {
namespace {

// Of a measured base RTT; uet-htsim has 20 us on paths of 13 us.
constexpr double kTargetPerBaseRtt = 1.5;
constexpr double kScalingPerTarget = 5;

// In the order of kParameters.
struct Chosen {
  double base_target_us;
  double scaling_range_us;
  double scaling_min_packets;
  double scaling_max_packets;
  double increase_packets;
  double beta;
  double max_decrease;
  double window_min_packets;
  double timeouts_to_reset;
};

class Swift final : public CongestionControl {
 public:
  Swift(const FlowInfo& flow, const Chosen& chosen)
      : chosen_(chosen),
        mtu_bytes_(std::max<double>(1, flow.mtu_bytes)),
        host_latency_(flow.host_latency),
        window_max_(window_cap_bytes(flow) / mtu_bytes_),
        last_decrease_(flow.now) {
    set_path(flow.link_rate, flow.base_rtt);
    const double bdp_packets = link_bps_ / 8e6 * to_us(rtt_) / mtu_bytes_;
    window_ = std::clamp(bdp_packets, 1.0, window_max_);
  }

  SendLimits initial() const override { return limits(); }

  SendLimits on_ack(const AckEvent& event) override {
    if (event.acked_bytes > 0) timeouts_ = 0;
    if (event.rtt <= Duration{}) return limits();
    rtt_ = event.rtt;
    const double before = window_;
    const double delay_us = to_us(event.rtt);
    const double target_us = target_delay_us();
    if (delay_us < target_us) {
      const double acked = bytes_of(event.acked_bytes) / mtu_bytes_;
      const double step = chosen_.increase_packets * acked;
      window_ += window_ >= 1 ? step / window_ : step;
    } else if (may_decrease(event.now)) {
      const double excess = chosen_.beta * (delay_us - target_us) / delay_us;
      window_ *= std::max(1 - excess, 1 - chosen_.max_decrease);
    }
    return finish(event.now, before);
  }

  SendLimits on_loss(const LossEvent& event) override {
    const double before = window_;
    timeouts_ = event.cause == LossCause::kTimeout ? timeouts_ + 1 : 0;
    if (timeouts_ > 0 && timeouts_ >= chosen_.timeouts_to_reset) {
      window_ = chosen_.window_min_packets;
    } else if (may_decrease(event.now)) {
      window_ *= 1 - chosen_.max_decrease;
    }
    return finish(event.now, before);
  }

  SendLimits on_signal(Time /*now*/, const Signal& signal) override {
    if (const auto* path = std::get_if<PathChanged>(&signal)) {
      set_path(path->link_rate, path->base_rtt);
    }
    return limits();
  }

  void describe(StateWriter& out) const override {
    out.field("window_packets", window_);
    out.field("base_target_us", base_target_us_);
    out.field("target_delay_us", target_delay_us());
    out.field("rtt_us", to_us(rtt_));
    out.field("timeouts_in_row", timeouts_);
    out.field("decreases", static_cast<double>(decreases_));
  }

 private:
  void set_path(Rate link_rate, Duration base_rtt) {
    link_bps_ = usable_bps(link_rate);
    rtt_ = usable_rtt(base_rtt, host_latency_);
    base_target_us_ =
        chosen_.base_target_us > 0 ? chosen_.base_target_us : kTargetPerBaseRtt * to_us(rtt_);
    scaling_range_us_ = chosen_.scaling_range_us > 0 ? chosen_.scaling_range_us
                                                     : kScalingPerTarget * base_target_us_;
    // Section 3.5: alpha and beta let the range end at the two windows.
    const double at_min = 1 / std::sqrt(chosen_.scaling_min_packets);
    const double at_max =
        1 / std::sqrt(std::max(chosen_.scaling_max_packets, 2 * chosen_.scaling_min_packets));
    scaling_alpha_ = scaling_range_us_ / (at_min - at_max);
    scaling_beta_ = -scaling_alpha_ * at_max;
  }

  // More flows, smaller windows, a longer queue that must be allowed for.
  double target_delay_us() const {
    const double scaled = scaling_alpha_ / std::sqrt(window_) + scaling_beta_;
    return base_target_us_ + std::clamp(scaled, 0.0, scaling_range_us_);
  }

  bool may_decrease(Time now) const { return now - last_decrease_ >= rtt_; }

  SendLimits finish(Time now, double before) {
    window_ = std::clamp(window_, chosen_.window_min_packets, window_max_);
    if (window_ < before) {
      last_decrease_ = now;
      ++decreases_;
    }
    return limits();
  }

  SendLimits limits() const {
    SendLimits out{.window_bytes = static_cast<std::uint64_t>(std::max(window_, 1.0) * mtu_bytes_)};
    if (window_ < 1) {
      const double us = std::max(to_us(rtt_), 1e-3);
      out.pacing_rate = pacing_rate(window_ * mtu_bytes_ * 8e6 / us, link_bps_);
    }
    return out;
  }

  Chosen chosen_;
  double mtu_bytes_;
  Duration host_latency_;
  double window_max_;  // packets
  double window_ = 1;  // packets
  double link_bps_ = 0;
  double base_target_us_ = 0;
  double scaling_range_us_ = 0;
  double scaling_alpha_ = 0;
  double scaling_beta_ = 0;
  Duration rtt_{};
  Time last_decrease_;
  double timeouts_ = 0;  // in a row
  std::uint64_t decreases_ = 0;
};

constexpr std::string_view kHtsim = "uet-htsim; the paper gives no number";

constexpr ParameterInfo kParameters[] = {
    {.name = "base_target_us",
     .unit = "us",
     .default_value = 0,
     .min = 0,
     .max = 1e6,
     .help =
         "target delay of a flow with a large window; 0: 1.5 base RTTs, which hold the hops too",
     .source = "section 3.5; the factor from uet-htsim"},
    {.name = "scaling_range_us",
     .unit = "us",
     .default_value = 0,
     .min = 0,
     .max = 1e6,
     .help = "fs_range: most that small windows add to the target; 0: 5 base targets",
     .source = kHtsim},
    {.name = "scaling_min_packets",
     .unit = "packets",
     .default_value = 0.1,
     .min = 0.001,
     .max = 100,
     .help = "fs_min_cwnd: the window at which the whole range is added",
     .source = kHtsim},
    {.name = "scaling_max_packets",
     .unit = "packets",
     .default_value = 100,
     .min = 0.01,
     .max = 1e5,
     .help = "fs_max_cwnd: the window above which nothing is added; at least twice fs_min_cwnd",
     .source = kHtsim},
    {.name = "increase_packets",
     .unit = "packets",
     .default_value = 1,
     .min = 0.001,
     .max = 1000,
     .help = "ai: growth per RTT below target",
     .source = kHtsim},
    {.name = "beta",
     .unit = "",
     .default_value = 0.8,
     .min = 0.001,
     .max = 1,
     .help = "strength of the decrease for delay above target",
     .source = kHtsim},
    {.name = "max_decrease",
     .unit = "",
     .default_value = 0.5,
     .min = 0.01,
     .max = 0.99,
     .help = "max_mdf: largest share of the window that one RTT may take, for delay or loss",
     .source = kHtsim},
    {.name = "window_min_packets",
     .unit = "packets",
     .default_value = 0.01,
     .min = 0.001,
     .max = 1,
     .help = "smallest window; below one packet the packets are paced",
     .source =
         "own: with 0.001, the paper's order of size, a flow of 4 KiB packets falls to 1 Mb/s"},
    {.name = "timeouts_to_reset",
     .unit = "",
     .default_value = 5,
     .min = 1,
     .max = 1000,
     .help = "RETX_RESET_THRESHOLD: timeouts in a row that bring the window to its minimum",
     .source = kHtsim},
};

std::unique_ptr<CongestionControl> make(const FlowInfo& flow, std::span<const double> values) {
  return std::make_unique<Swift>(flow, Chosen{.base_target_us = values[0],
                                              .scaling_range_us = values[1],
                                              .scaling_min_packets = values[2],
                                              .scaling_max_packets = values[3],
                                              .increase_packets = values[4],
                                              .beta = values[5],
                                              .max_decrease = values[6],
                                              .window_min_packets = values[7],
                                              .timeouts_to_reset = values[8]});
}

}  // namespace

const CcInfo kSwift{
    .name = "swift",
    .summary = "window that holds the RTT at a target which grows as windows shrink",
    .parameters = kParameters,
    .make = &make,
};

}  // namespace spindrift
