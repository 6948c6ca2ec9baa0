// Receiver-driven sending: RCCC of Ultra Ethernet (specification 3.6.14; uet.md B.3), which
// descends from Olteanu et al., "An edge-queued datagram service for all datacenter traffic"
// (EQDS), NSDI 2022. The receiver shares its link among those who send to it; the sender sends what
// it was granted, after one window on speculation. Asking and granting are the transport's.
//
// Lower bound: a window of one packet; without credit nothing is sent.
#include "cc/algorithms.h"
#include "cc/credit_limit.h"

namespace spindrift {
namespace {

class ReceiverCredit final : public CongestionControl {
 public:
  ReceiverCredit(const FlowInfo& flow, double window_bdp, double speculative_bdp)
      : flow_(flow),
        window_bdp_(window_bdp),
        window_bytes_(window()),
        credit_(speculative_bdp * bdp()) {}

  SendLimits initial() const override { return limits(); }
  SendLimits on_ack(const AckEvent& event) override {
    credit_.on_ack(event);
    return limits();
  }
  SendLimits on_loss(const LossEvent& event) override {
    credit_.on_loss(event);
    return limits();
  }
  SendLimits on_signal(Time /*now*/, const Signal& signal) override {
    if (const auto* grant = std::get_if<CreditGranted>(&signal)) {
      credit_.on_grant(*grant);
    } else if (const auto* path = std::get_if<PathChanged>(&signal)) {
      flow_.base_rtt = path->base_rtt;
      flow_.link_rate = path->link_rate;
      window_bytes_ = window();
    }
    return limits();
  }
  void describe(StateWriter& out) const override {
    out.field("window_bytes", window_bytes_);
    credit_.describe(out);
  }

 private:
  double bdp() const {
    return usable_bps(flow_.link_rate) / 8e6 *
           to_us(usable_rtt(flow_.base_rtt, flow_.host_latency));
  }
  double window() const {
    return std::clamp(window_bdp_ * bdp(), static_cast<double>(flow_.mtu_bytes),
                      window_cap_bytes(flow_));
  }
  SendLimits limits() const {
    return {.window_bytes = static_cast<std::uint64_t>(window_bytes_),
            .credit_bytes = credit_.bytes()};
  }

  FlowInfo flow_;
  double window_bdp_;
  double window_bytes_;
  CreditLimit credit_;
};

constexpr ParameterInfo kParameters[] = {
    {.name = "window_bdp",
     .unit = "BDP",
     .default_value = 1.5,
     .min = 0.1,
     .max = 1000,
     .help = "MaxWnd: most bytes in flight, in bandwidth-delay products",
     .source = "UE specification table 3-76; uet-htsim"},
    {.name = "speculative_bdp",
     .unit = "BDP",
     .default_value = 1.5,
     .min = 0,
     .max = 1000,
     .help = "bytes sent before anything is known; 0: nothing is sent without credit",
     .source = "uet-htsim"},
};

std::unique_ptr<CongestionControl> make(const FlowInfo& flow, std::span<const double> values) {
  return std::make_unique<ReceiverCredit>(flow, values[0], values[1]);
}

}  // namespace

const CcInfo kReceiverCredit{
    .name = "receiver_credit",
    .summary = "credit granted by the receiver, the receiver-based algorithm of Ultra Ethernet",
    .traits = {.is_receiver_driven = true},
    .parameters = kParameters,
    .make = &make,
};

}  // namespace spindrift
