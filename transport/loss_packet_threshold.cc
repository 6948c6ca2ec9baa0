// The rule of transports with one path (RFC 9002, 6.1): three later packets arrived, or 9/8 of an
// RTT passed. It knows no paths: where packets are sprayed over paths of different length it sends
// again what was only slower, which is what it is here to show.
#include <algorithm>
#include <bit>

#include "transport/loss_rules.h"

namespace spindrift {
namespace {

constexpr std::uint64_t kPacketThreshold = 3;

// The newest PSN that `view` shows to have arrived.
Psn newest_arrived(const AckView& view) {
  if (view.sack_bitmap == 0) return view.cumulative;
  const auto last = static_cast<std::uint64_t>(63 - std::countl_zero(view.sack_bitmap));
  return std::max(view.cumulative, Psn{view.sack_base.value + last});
}

void judge_order(LossReport& report, Connection& c, std::span<const PathFeedback> /*touched*/,
                 const AckView& view) {
  const Psn newest = newest_arrived(view);
  const auto judge = [&](Psn psn) {
    if (psn.value + kPacketThreshold > newest.value || !view.says_missing(psn)) return;
    SentUnit* unit = c.send->log.find(psn);
    // A packet sent again is younger than its number says; time judges it.
    if (unit == nullptr || unit->state != SentUnit::State::kInFlight || unit->transmissions != 1)
      return;
    report.lose(*unit);
    report.blame(unit->path, PathOutcome::kLost, 1);
  };
  const Psn first{view.cumulative.value + 1};
  if (first < view.sack_base) judge(first);
  for (std::uint64_t i = 0; i < 64; ++i)
    judge(Psn{view.sack_base.value + i});
}

Duration nine_eighths(const Connection& c) {
  return c.rtt.smoothed() + c.rtt.smoothed() / 8;
}

constexpr LossRule kRule{.on_ack = &judge_order, .patience = &nine_eighths};

}  // namespace

const LossRuleInfo kPacketThresholdLossRule{
    .name = "packet_threshold",
    .summary = "three later packets arrived, on whatever path, or 9/8 of an RTT passed (RFC 9002)",
    .rule = &kRule};

}  // namespace spindrift
