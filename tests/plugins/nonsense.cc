// A plug-in that is well-formed and misbehaves in every way the host must survive.
#include <cmath>
#include <stdexcept>

#include "spindrift/plugin_adapter.h"

namespace {

using namespace spindrift;

SendLimits no_window(Time /*now*/) {
  return {.window_bytes = 0};
}
SendLimits absurd_rate(Time /*now*/) {
  return {.pacing_rate = Rate::bits_per_second(UINT64_MAX)};
}
SendLimits crawl(Time /*now*/) {
  return {.pacing_rate = Rate::bits_per_second(1)};
}
SendLimits past_timer(Time now) {
  return {.timer = now - std::chrono::seconds(1)};
}
SendLimits no_credit(Time /*now*/) {
  return {.credit_bytes = 1};
}

template <SendLimits (*kAsk)(Time)>
class Wild final : public CongestionControl {
 public:
  explicit Wild(Time now) : start_(now) {}
  SendLimits initial() const override { return kAsk(start_); }
  SendLimits on_ack(const AckEvent& event) override { return kAsk(event.now); }
  SendLimits on_loss(const LossEvent& event) override { return kAsk(event.now); }
  SendLimits on_signal(Time now, const Signal& /*signal*/) override { return kAsk(now); }
  void describe(StateWriter& out) const override {
    out.field("not_a_number", std::nan(""));
    out.field("a_name_that_is_much_longer_than_anybody_needs_and_does_not_fit_into_the_buffer", 1);
  }

 private:
  Time start_;
};

template <SendLimits (*kAsk)(Time)>
std::unique_ptr<CongestionControl> make(const FlowInfo& flow, std::span<const double> /*values*/) {
  return std::make_unique<Wild<kAsk>>(flow.now);
}
std::unique_ptr<CongestionControl> make_nothing(const FlowInfo& /*flow*/,
                                                std::span<const double> /*values*/) {
  throw std::runtime_error("impossible");
}

class WildPicks final : public PathSelector {
 public:
  void pick(std::span<PathId> out) override {
    for (PathId& path : out)
      path.value = 40000;
  }
  void on_feedback(std::span<const PathFeedback> /*feedback*/) override {}
  void describe(StateWriter& /*out*/) const override {}
};

const CcInfo kNoWindow{.name = "no_window", .summary = "", .make = &make<no_window>};
const CcInfo kAbsurdRate{.name = "absurd_rate", .summary = "", .make = &make<absurd_rate>};
const CcInfo kCrawl{.name = "crawl", .summary = "", .make = &make<crawl>};
const CcInfo kPastTimer{.name = "past_timer", .summary = "", .make = &make<past_timer>};
const CcInfo kNoCredit{.name = "no_credit", .summary = "", .make = &make<no_credit>};
const CcInfo kNothing{.name = "nothing", .summary = "", .make = &make_nothing};
const PathSelectorInfo kWildPicks{
    .name = "wild_picks",
    .summary = "",
    .make = [](std::uint32_t /*paths*/, std::uint64_t /*seed*/) -> std::unique_ptr<PathSelector> {
      return std::make_unique<WildPicks>();
    }};
const PathSelectorInfo kNoSelector{
    .name = "no_selector",
    .summary = "",
    .make = [](std::uint32_t /*paths*/, std::uint64_t /*seed*/) -> std::unique_ptr<PathSelector> {
      throw std::runtime_error("impossible");
    }};

}  // namespace

SPINDRIFT_PLUGIN(kNoWindow, kAbsurdRate, kCrawl, kPastTimer, kNoCredit, kNothing, kWildPicks,
                 kNoSelector)
