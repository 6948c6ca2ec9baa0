// A window that never moves: for fabrics that control congestion themselves, for loopback, and as
// the line every algorithm is compared with. Lower bound: the window itself, at least one packet.
#include "cc/algorithms.h"
#include "cc/filters.h"

namespace spindrift {
namespace {

constexpr double kBdpFactor = 2;
constexpr double kWindowMinPackets = 64;

class FixedWindow final : public CongestionControl {
 public:
  FixedWindow(const FlowInfo& flow, double window_bytes)
      : mtu_bytes_(flow.mtu_bytes),
        cap_bytes_(window_cap_bytes(flow)),
        chosen_bytes_(window_bytes) {
    set_window(flow.link_rate, std::max(flow.base_rtt, flow.host_latency));
  }

  SendLimits initial() const override { return limits_; }
  SendLimits on_ack(const AckEvent&) override { return limits_; }
  SendLimits on_loss(const LossEvent&) override { return limits_; }
  SendLimits on_signal(Time, const Signal& signal) override {
    if (const auto* path = std::get_if<PathChanged>(&signal)) {
      set_window(path->link_rate, path->base_rtt);
    }
    return limits_;
  }
  void describe(StateWriter& out) const override {
    out.field("window_bytes", static_cast<double>(limits_.window_bytes));
  }

 private:
  void set_window(Rate link_rate, Duration base_rtt) {
    double window = chosen_bytes_;
    if (window <= 0) {
      window = std::max(kBdpFactor * bdp_bytes(link_rate, base_rtt),
                        kWindowMinPackets * static_cast<double>(mtu_bytes_));
    }
    window = std::clamp(window, static_cast<double>(mtu_bytes_), cap_bytes_);
    limits_.window_bytes = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(window));
  }

  std::uint32_t mtu_bytes_;
  double cap_bytes_;
  double chosen_bytes_;
  SendLimits limits_{};
};

constexpr ParameterInfo kParameters[] = {
    {.name = "window_bytes",
     .unit = "bytes",
     .default_value = 0,
     .min = 0,
     .max = 1e12,
     .help = "bytes in flight; 0: twice the bandwidth-delay product, at least 64 packets",
     .source = "two BDP keep a path busy through acknowledgement bursts"},
};

std::unique_ptr<CongestionControl> make(const FlowInfo& flow, std::span<const double> values) {
  return std::make_unique<FixedWindow>(flow, values[0]);
}

}  // namespace

const CcInfo kFixedWindow{
    .name = "fixed_window",
    .summary = "a constant window",
    .parameters = kParameters,
    .make = &make,
};

}  // namespace spindrift
