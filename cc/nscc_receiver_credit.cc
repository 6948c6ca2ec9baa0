// NSCC and receiver credit on one flow (Ultra Ethernet specification 3.6.12: both must permit): the
// credit keeps senders from overrunning one receiver, the window keeps them from overrunning the
// network before it. Trims at the last hop are the receiver's business and do not touch the window.
//
// Lower bound: a window of one packet; without credit nothing is sent.
#include <algorithm>
#include <array>

#include "cc/algorithms.h"
#include "cc/credit_limit.h"
#include "cc/nscc_parameters.h"

namespace spindrift {
namespace {

constexpr ParameterInfo kSpeculative{
    .name = "speculative_bdp",
    .unit = "BDP",
    .default_value = 1.5,
    .min = 0,
    .max = 1000,
    .help = "bytes sent before anything is known; 0: nothing is sent without credit",
    .source = "uet-htsim"};

constexpr auto kParameters = [] {
  std::array<ParameterInfo, kNsccParameterCount + 1> all{};
  std::copy(std::begin(kNsccParameters), std::end(kNsccParameters), all.begin());
  all.back() = kSpeculative;
  return all;
}();

class NsccReceiverCredit final : public CongestionControl {
 public:
  NsccReceiverCredit(const FlowInfo& flow, std::span<const double> values)
      : window_(kNscc.make(flow, values.first(kNsccParameterCount))),
        limits_(window_->initial()),
        credit_(values.back() * usable_bps(flow.link_rate) / 8e6 *
                to_us(usable_rtt(flow.base_rtt, flow.host_latency))) {
    limits_.credit_bytes = credit_.bytes();
  }

  SendLimits initial() const override { return limits_; }
  SendLimits on_ack(const AckEvent& event) override {
    credit_.on_ack(event);
    return permit(window_->on_ack(event));
  }
  SendLimits on_loss(const LossEvent& event) override {
    credit_.on_loss(event);
    if (event.cause == LossCause::kTrimmedLastHop) return permit(limits_);
    return permit(window_->on_loss(event));
  }
  SendLimits on_signal(Time now, const Signal& signal) override {
    if (const auto* grant = std::get_if<CreditGranted>(&signal)) credit_.on_grant(*grant);
    return permit(window_->on_signal(now, signal));
  }
  void describe(StateWriter& out) const override {
    window_->describe(out);
    credit_.describe(out);
  }

 private:
  SendLimits permit(const SendLimits& window) {
    limits_ = window;
    limits_.credit_bytes = credit_.bytes();
    return limits_;
  }

  std::unique_ptr<CongestionControl> window_;
  SendLimits limits_;
  CreditLimit credit_;
};

std::unique_ptr<CongestionControl> make(const FlowInfo& flow, std::span<const double> values) {
  return std::make_unique<NsccReceiverCredit>(flow, values);
}

}  // namespace

const CcInfo kNsccReceiverCredit{
    .name = "nscc+receiver_credit",
    .summary = "both algorithms of Ultra Ethernet together: sending needs window and credit",
    .traits = {.needs_ecn = true, .is_receiver_driven = true},
    .parameters = kParameters,
    .make = &make,
};

}  // namespace spindrift
