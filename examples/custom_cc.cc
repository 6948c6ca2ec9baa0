// A congestion control algorithm outside the library: additive increase, multiplicative decrease on
// marks and losses. The window is never below one packet.
//   spindrift perf local --cc build/release/examples/libcustom_cc.so
//   spindrift perf local --cc build/release/examples/libcustom_cc.so:decrease=0.3
#include <algorithm>
#include <memory>

#include "spindrift/plugin_adapter.h"

namespace {

using namespace spindrift;

class Aimd final : public CongestionControl {
 public:
  Aimd(const FlowInfo& flow, double increase_packets, double decrease)
      : packet_bytes_(flow.mtu_bytes),
        window_max_bytes_(static_cast<double>(flow.max_window_bytes)),
        increase_bytes_(increase_packets * packet_bytes_),
        decrease_(decrease),
        window_bytes_(std::min(window_max_bytes_, 64 * packet_bytes_)) {}

  SendLimits initial() const override {
    return {.window_bytes = static_cast<std::uint64_t>(window_bytes_)};
  }

  SendLimits on_ack(const AckEvent& event) override {
    if (event.is_marked) cut();
    acked_bytes_ += static_cast<double>(event.acked_bytes);
    if (acked_bytes_ >= window_bytes_) end_round();
    return initial();
  }

  SendLimits on_loss(const LossEvent& event) override {
    if (event.cause == LossCause::kTimeout) {
      window_bytes_ = packet_bytes_;
      acked_bytes_ = 0;
    } else {
      cut();
    }
    return initial();
  }

  SendLimits on_signal(Time /*now*/, const Signal& /*signal*/) override { return initial(); }

  void describe(StateWriter& out) const override {
    out.field("window_packets", window_bytes_ / packet_bytes_);
    out.field("cuts", cuts_);
  }

 private:
  // At most once per round, a window's worth of acknowledgements: about one RTT.
  void cut() {
    if (was_cut_) return;
    was_cut_ = true;
    cuts_ += 1;
    window_bytes_ = std::max(packet_bytes_, window_bytes_ * (1 - decrease_));
  }

  void end_round() {
    if (!was_cut_) window_bytes_ = std::min(window_max_bytes_, window_bytes_ + increase_bytes_);
    was_cut_ = false;
    acked_bytes_ = 0;
  }

  double packet_bytes_;
  double window_max_bytes_;
  double increase_bytes_;
  double decrease_;
  double window_bytes_;
  double acked_bytes_ = 0;  // of this round
  double cuts_ = 0;
  bool was_cut_ = false;  // in this round
};

constexpr ParameterInfo kParameters[] = {
    {.name = "increase_packets",
     .unit = "packets",
     .default_value = 1,
     .min = 0.01,
     .max = 1000,
     .help = "growth of the window per round trip without a mark",
     .source = "RFC 5681, section 3.1"},
    {.name = "decrease",
     .unit = "",
     .default_value = 0.5,
     .min = 0.01,
     .max = 0.9,
     .help = "share of the window given up in a round trip with a mark or a loss",
     .source = "RFC 5681, section 3.1"},
};

const CcInfo kAimd{
    .name = "aimd",
    .summary = "additive increase, multiplicative decrease on marks and losses",
    .traits = {.needs_ecn = true},
    .parameters = kParameters,
    .make = [](const FlowInfo& flow,
               std::span<const double> values) -> std::unique_ptr<CongestionControl> {
      return std::make_unique<Aimd>(flow, values[0], values[1]);
    },
};

}  // namespace

SPINDRIFT_PLUGIN(kAimd)
