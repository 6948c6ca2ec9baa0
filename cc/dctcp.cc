// DCTCP: Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, section 3, and RFC 8257. A
// window that falls by half the share of the bytes that came back marked.
//
// Lower bound: one packet (mtu_bytes). It does not pace.
#include "cc/algorithms.h"
#include "cc/filters.h"

namespace spindrift {
namespace {

// In the order of kParameters.
struct Tuning {
  double gain;
  double initial_alpha;
  double initial_window_packets;
  double increase_packets;
};

class Dctcp final : public CongestionControl {
 public:
  Dctcp(const FlowInfo& flow, const Tuning& tuning)
      : tuning_(tuning),
        mtu_bytes_(flow.mtu_bytes),
        window_cap_(window_cap_bytes(flow)),
        window_(std::clamp(first_window(flow, tuning), mtu_bytes_, window_cap_)),
        alpha_(tuning.initial_alpha) {}

  SendLimits initial() const override {
    return {.window_bytes = static_cast<std::uint64_t>(window_)};
  }

  SendLimits on_ack(const AckEvent& event) override {
    const double acked = bytes_of(event.acked_bytes);
    acked_bytes_ += acked;
    if (event.is_marked) marked_bytes_ += acked;
    pass(acked, event.in_flight_bytes);
    if (event.is_marked) {
      cut(window_ * (1 - alpha_ / 2), event.in_flight_bytes);
    } else if (cut_left_ <= 0) {
      grow(acked);
    }
    return initial();
  }

  // As any TCP (RFC 8257, sections 3.4 and 3.5): half the window, one packet after a timeout.
  SendLimits on_loss(const LossEvent& event) override {
    pass(bytes_of(event.lost_bytes), event.in_flight_bytes);
    cut(window_ / 2, event.in_flight_bytes);
    if (event.cause == LossCause::kTimeout) window_ = mtu_bytes_;
    return initial();
  }

  SendLimits on_signal(Time /*now*/, const Signal& /*signal*/) override { return initial(); }

  void describe(StateWriter& out) const override {
    out.field("window_bytes", window_);
    out.field("slow_start_threshold_bytes", threshold_);
    out.field("alpha", alpha_);
    out.field("acked_bytes", acked_bytes_);
    out.field("marked_bytes", marked_bytes_);
    out.field("cuts", static_cast<double>(cuts_));
  }

 private:
  static double first_window(const FlowInfo& flow, const Tuning& tuning) {
    if (tuning.initial_window_packets > 0) return tuning.initial_window_packets * flow.mtu_bytes;
    return usable_bps(flow.link_rate) / 8e6 * to_us(usable_rtt(flow.base_rtt, flow.host_latency));
  }

  // At most once per window of data: until all is accounted for that is in flight now.
  void cut(double bytes, std::uint64_t in_flight_bytes) {
    if (cut_left_ > 0) return;
    cut_left_ = bytes_of(in_flight_bytes);
    window_ = std::max(bytes, mtu_bytes_);
    threshold_ = window_;
    ++cuts_;
  }

  void grow(double acked) {
    window_ +=
        window_ < threshold_ ? acked : tuning_.increase_packets * mtu_bytes_ * acked / window_;
    window_ = std::min(window_, window_cap_);
  }

  // Alpha is brought up to date once per window of data, counted the same way.
  void pass(double bytes, std::uint64_t in_flight_bytes) {
    cut_left_ -= bytes;
    round_left_ -= bytes;
    if (round_left_ > 0) return;
    if (acked_bytes_ > 0) {
      const double marked_share = std::min(marked_bytes_ / acked_bytes_, 1.0);
      alpha_ = (1 - tuning_.gain) * alpha_ + tuning_.gain * marked_share;
    }
    round_left_ = bytes_of(in_flight_bytes);
    acked_bytes_ = 0;
    marked_bytes_ = 0;
  }

  Tuning tuning_;
  double mtu_bytes_;
  double window_cap_;
  double window_;
  double threshold_ = kHuge;  // slow start below it
  double alpha_;
  double cut_left_ = 0;
  double round_left_ = 0;
  double acked_bytes_ = 0;  // of this window of data
  double marked_bytes_ = 0;
  std::uint64_t cuts_ = 0;
};

constexpr ParameterInfo kParameters[] = {
    {.name = "g",
     .unit = "",
     .default_value = 1.0 / 16,
     .min = 1e-6,
     .max = 1,
     .help = "weight of one window's marked share in alpha",
     .source = "RFC 8257, section 4.2"},
    {.name = "initial_alpha",
     .unit = "",
     .default_value = 1,
     .min = 0,
     .max = 1,
     .help = "alpha before anything was measured; 1: the first mark halves the window",
     .source = "RFC 8257, section 3.3"},
    {.name = "initial_window_packets",
     .unit = "packets",
     .default_value = 0,
     .min = 0,
     .max = 1e6,
     .help = "first window; 0: one bandwidth-delay product",
     .source = "own: flows of this transport start at line rate, TCP with 10 packets"},
    {.name = "increase_packets",
     .unit = "packets",
     .default_value = 1,
     .min = 0.001,
     .max = 1000,
     .help = "growth per window of data without a mark, after slow start",
     .source = "RFC 5681, section 3.1"},
};

std::unique_ptr<CongestionControl> make(const FlowInfo& flow, std::span<const double> values) {
  return std::make_unique<Dctcp>(flow, Tuning{.gain = values[0],
                                              .initial_alpha = values[1],
                                              .initial_window_packets = values[2],
                                              .increase_packets = values[3]});
}

}  // namespace

const CcInfo kDctcp{
    .name = "dctcp",
    .summary = "window cut by the share of marked bytes",
    .traits = {.needs_ecn = true},
    .parameters = kParameters,
    .make = &make,
};

}  // namespace spindrift
