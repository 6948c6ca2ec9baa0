// The rule for sprayed connections: order counts within a path only, so that paths of different
// length never look like loss; what no later packet of its path overtakes, time finds.
#include "transport/loss_rules.h"

namespace spindrift {
namespace {

// Holes that an acknowledgement says nothing about are passed over, at most this many a path and
// turn.
constexpr int kMaxUncovered = 64;

void judge_path(LossReport& report, Connection& c, PathId path, const AckView& view) {
  SentLog& log = c.send->log;
  const std::uint64_t newest = c.send->loss.paths[path.value].newest_acked_seq;
  const std::uint64_t threshold = c.send->loss.paths[path.value].reorder_threshold;
  int uncovered = 0;
  std::uint32_t lost = 0;
  for (SentUnit* unit = log.path_head(path); unit != nullptr;) {
    if (unit->path_seq.value + threshold > newest || uncovered == kMaxUncovered) break;
    SentUnit* following = log.path_next(*unit);
    if (view.says_missing(unit->psn)) {
      report.lose(*unit);
      ++lost;
    } else {
      ++uncovered;
    }
    unit = following;
  }
  report.blame(path, PathOutcome::kLost, lost);
}

void judge_paths(LossReport& report, Connection& c, std::span<const PathFeedback> touched,
                 const AckView& view) {
  for (const PathFeedback& feedback : touched)
    judge_path(report, c, feedback.path, view);
}

constexpr LossRule kRule{.on_ack = &judge_paths, .patience = &reorder_patience};

}  // namespace

const LossRuleInfo kPerPathLossRule{
    .name = "per_path",
    .summary = "a later packet of the same path arrived (threshold adapts), or time as in rack",
    .rule = &kRule};

}  // namespace spindrift
