#pragma once
// What a loss rule is, and those that ship. A rule is asked once per acknowledgement and once per
// turn, never per packet. Two ways to find a loss it does not choose: a switch that trimmed a
// packet says so, and the answer to a probe shows what is missing (loss_detector.h). Therefore
// every rule finds every loss in the end; rules differ in how soon, and in how often they are
// wrong.
#include <span>

#include "spindrift/loss_rule.h"

#include "transport/loss_detector.h"

namespace spindrift {

struct LossRule {
  // An acknowledgement came: `view` is what it says, `touched` the paths on which it acknowledged
  // something new. Null: the rule learns nothing from the order of arrivals.
  void (*on_ack)(LossReport& report, Connection& c, std::span<const PathFeedback> touched,
                 const AckView& view) = nullptr;
  // A packet is lost when something sent later arrived (on whatever path) and this much time has
  // passed since it was sent. An RTT is known.
  Duration (*patience)(const Connection& c) = nullptr;
};

extern const LossRuleInfo kPerPathLossRule;
extern const LossRuleInfo kRackLossRule;
extern const LossRuleInfo kPacketThresholdLossRule;
extern const LossRuleInfo kTimeoutLossRule;

}  // namespace spindrift
