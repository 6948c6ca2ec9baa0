// HPCC: Li et al., "HPCC: High Precision Congestion Control", SIGCOMM 2019, algorithm 1. A window
// computed from what every link of the path says of itself: how much it sent, how long its queue
// is.
//
// Lower bound: the rate never falls below 1 Mb/s, or the link rate if that is lower; the window is
// one packet where the computed one is less.
#include <array>

#include "cc/algorithms.h"
#include "cc/filters.h"

namespace spindrift {
namespace {

// Of in-band telemetry, as many as its header has room for (section 4.1).
constexpr std::size_t kHopsMax = 5;
constexpr double kLeastUtilisation = 1e-6;

// In the order of kParameters.
struct Chosen {
  double target;
  double stages;
  double flows;
  double loss_decrease;
};

class Hpcc final : public CongestionControl {
 public:
  Hpcc(const FlowInfo& flow, const Chosen& chosen)
      : chosen_(chosen),
        mtu_bytes_(flow.mtu_bytes),
        window_cap_(window_cap_bytes(flow)),
        host_latency_(flow.host_latency) {
    set_path(flow.link_rate, flow.base_rtt);
    window_ = line_window_;
    reference_ = line_window_;
  }

  SendLimits initial() const override { return limits(); }

  SendLimits on_ack(const AckEvent& event) override {
    round_left_ -= bytes_of(event.acked_bytes);
    if (!measure(event.telemetry)) return limits();
    const bool ends_round = round_left_ <= 0;
    if (ends_round) round_left_ = bytes_of(event.in_flight_bytes);
    compute_window(ends_round);
    return limits();
  }

  SendLimits on_loss(const LossEvent& event) override {
    round_left_ -= bytes_of(event.lost_bytes);
    if (has_loss_ && event.now - last_loss_ < rtt_) return limits();
    has_loss_ = true;
    last_loss_ = event.now;
    set_window(window_ * (1 - chosen_.loss_decrease));
    reference_ = window_;
    return limits();
  }

  SendLimits on_signal(Time /*now*/, const Signal& signal) override {
    if (const auto* path = std::get_if<PathChanged>(&signal)) {
      const bool was_at_line_rate = window_ >= line_window_;
      set_path(path->link_rate, path->base_rtt);
      set_window(was_at_line_rate ? line_window_ : window_);
      reference_ = window_;
    }
    return limits();
  }

  void describe(StateWriter& out) const override {
    out.field("window_bytes", window_);
    out.field("reference_window_bytes", reference_);
    out.field("utilisation", utilisation_);
    out.field("increase_stage", stage_);
    out.field("increase_bytes", increase_bytes_);
    out.field("hops", static_cast<double>(hop_count_));
    out.field("rounds", static_cast<double>(rounds_));
  }

 private:
  void set_path(Rate link_rate, Duration base_rtt) {
    link_bps_ = usable_bps(link_rate);
    rtt_ = std::max(usable_rtt(base_rtt, host_latency_), Duration{1});
    const double bdp = link_bps_ / 8e6 * to_us(rtt_);
    line_window_ = std::clamp(bdp, mtu_bytes_, window_cap_);
    increase_bytes_ = line_window_ * (1 - chosen_.target) / chosen_.flows;
  }

  // Equations 1 and 2: the fullest link, averaged over about one RTT. False: nothing to compare
  // with.
  bool measure(std::span<const HopTelemetry> hops) {
    hops = hops.first(std::min(hops.size(), kHopsMax));
    double most = 0;
    double span_ns = 0;
    for (std::size_t i = 0; i < hops.size() && i < hop_count_; ++i) {
      const HopTelemetry& before = hops_[i];
      if (hops[i].link_id != before.link_id || hops[i].timestamp_ns <= before.timestamp_ns ||
          hops[i].tx_bytes < before.tx_bytes || hops[i].link_rate.is_unlimited())
        continue;
      const auto ns = static_cast<double>(hops[i].timestamp_ns - before.timestamp_ns);
      const double bytes_per_ns = static_cast<double>(hops[i].link_rate.bits_per_second()) / 8e9;
      const double queue = std::min(hops[i].queue_bytes, before.queue_bytes);
      const double sent = bytes_of(hops[i].tx_bytes - before.tx_bytes);
      const double use =
          queue / (bytes_per_ns * static_cast<double>(rtt_.count())) + sent / (bytes_per_ns * ns);
      if (use <= most) continue;
      most = use;
      span_ns = ns;
    }
    std::copy(hops.begin(), hops.end(), hops_.begin());
    hop_count_ = hops.size();
    if (span_ns <= 0) return false;
    const double weight = std::min(span_ns / static_cast<double>(rtt_.count()), 1.0);
    utilisation_ = (1 - weight) * utilisation_ + weight * bounded(most);
    return true;
  }

  void compute_window(bool ends_round) {
    const bool is_multiplicative = utilisation_ >= chosen_.target || stage_ >= chosen_.stages;
    const double scaled =
        is_multiplicative ? reference_ * chosen_.target / std::max(utilisation_, kLeastUtilisation)
                          : reference_;
    set_window(scaled + increase_bytes_);
    if (!ends_round) return;
    stage_ = is_multiplicative ? 0 : stage_ + 1;
    reference_ = window_;
    ++rounds_;
  }

  void set_window(double bytes) { window_ = std::clamp(bytes, 1.0, line_window_); }

  SendLimits limits() const {
    return {.window_bytes = static_cast<std::uint64_t>(std::max(window_, mtu_bytes_)),
            .pacing_rate = pacing_rate(window_ * 8e6 / to_us(rtt_), link_bps_)};
  }

  Chosen chosen_;
  double mtu_bytes_;
  double window_cap_;
  Duration host_latency_;
  Duration rtt_{};  // T
  double link_bps_ = 0;
  double line_window_ = 0;  // W_init
  double increase_bytes_ = 0;
  double window_ = 0;
  double reference_ = 0;    // W_c
  double utilisation_ = 1;  // U
  double stage_ = 0;
  double round_left_ = 0;
  std::array<HopTelemetry, kHopsMax> hops_{};
  std::size_t hop_count_ = 0;
  std::uint64_t rounds_ = 0;
  Time last_loss_{};
  bool has_loss_ = false;
};

constexpr ParameterInfo kParameters[] = {
    {.name = "target",
     .unit = "",
     .default_value = 0.95,
     .min = 0.1,
     .max = 0.999,
     .help = "eta: share of a link that is to be used",
     .source = "SIGCOMM 2019, section 3.3"},
    {.name = "stages",
     .unit = "",
     .default_value = 5,
     .min = 0,
     .max = 1000,
     .help = "maxStage: additive increases before a multiplicative one",
     .source = "SIGCOMM 2019, section 3.3"},
    {.name = "flows",
     .unit = "",
     .default_value = 5,
     .min = 1,
     .max = 1e6,
     .help = "N: flows that may share a link; W_AI is (1 - eta) / N of the window at line rate",
     .source = "the rule: SIGCOMM 2019, section 3.3; the number: measured, see the rules"},
    {.name = "loss_decrease",
     .unit = "",
     .default_value = 0.5,
     .min = 0,
     .max = 0.99,
     .help = "share of the window that losses take, once per base RTT",
     .source = "own: the paper assumes a lossless network, ours may drop"},
};

std::unique_ptr<CongestionControl> make(const FlowInfo& flow, std::span<const double> values) {
  return std::make_unique<Hpcc>(flow, Chosen{.target = values[0],
                                             .stages = values[1],
                                             .flows = values[2],
                                             .loss_decrease = values[3]});
}

}  // namespace

const CcInfo kHpcc{
    .name = "hpcc",
    .summary = "window from what every link of the path says of its load",
    .traits = {.needs_telemetry = true},
    .parameters = kParameters,
    .make = &make,
};

}  // namespace spindrift
