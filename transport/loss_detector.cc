#include "transport/loss_detector.h"

#include <algorithm>

#include "transport/loss_rules.h"

namespace spindrift {
namespace {

constexpr std::uint16_t kMaxReorderThreshold = 64;
constexpr std::uint32_t kMaxWindowShift = 4;

// Before any RTT is known, nothing that a real network does should look like a loss.
constexpr Duration kFirstRto = std::chrono::milliseconds(20);

void count_retransmit(Connection& c, LossCause cause) {
  switch (cause) {
    case LossCause::kReordered:
      ++c.counters.retransmits_reordered;
      return;
    case LossCause::kTrimmed:
    case LossCause::kTrimmedLastHop:
      ++c.counters.retransmits_trimmed;
      return;
    case LossCause::kTimeout:
      ++c.counters.retransmits_timeout;
      return;
  }
}

// How much later than the newest arrival a packet may still come: the spread of the paths' RTTs
// plus a quarter RTT, doubled for each time this proved too little.
Duration reorder_window(const Connection& c) {
  const Duration slow = c.paths->slowest_rtt();
  const Duration spread = std::min(slow - c.paths->fastest_rtt(), 2 * c.rtt.smoothed());
  const Duration base = std::max(spread, Duration{}) + c.rtt.smoothed() / 4;
  return base * (1U << c.send->loss.window_shift);
}

}  // namespace

Duration reorder_patience(const Connection& c) {
  return std::max(c.paths->slowest_rtt(), c.rtt.smoothed()) + reorder_window(c);
}

Duration current_rto(const Connection& c) {
  return c.rtt.timeout(c.options.rto_min, c.options.rto_max, kFirstRto);
}

void LossReport::lose(SentUnit& unit) {
  SendState& send = *c_.send;
  send.log.take_out(unit, SentUnit::State::kLost);
  if (send.lost.is_full()) {
    // Entries that were acknowledged meanwhile make room; there are never more lost units than
    // slots.
    for (std::size_t i = send.lost.size(); i != 0; --i) {
      const Psn psn = send.lost.front();
      send.lost.pop_front();
      const SentUnit* old = send.log.find(psn);
      if (old != nullptr && old->state == SentUnit::State::kLost && psn != unit.psn)
        send.lost.push_back(psn);
    }
  }
  send.lost.push_back(unit.psn);
  count_retransmit(c_, event_.cause);
  ctx_.trace_unit(TraceKind::kLoss, c_, unit, static_cast<std::uint8_t>(event_.cause));
  event_.lost_bytes += unit.nominal_bytes;
  ++event_.lost_packets;
  event_.newest_sent_time = std::max(event_.newest_sent_time, unit.sent_time);
}

void LossReport::blame(PathId path, PathOutcome outcome, std::uint32_t packets) {
  if (packets == 0) return;
  const PathFeedback feedback{.path = path, .outcome = outcome, .packets = packets};
  const PathState before = c_.paths->state(path);
  c_.paths->on_feedback({&feedback, 1}, now_, current_rto(c_));
  if (before == PathState::kBad || c_.paths->state(path) != PathState::kBad) return;
  dark_bytes_ += c_.paths->lost_in_row_packets(path) * c_.payload_mtu;
  ++c_.counters.paths_went_bad;
  ctx_.trace_path(c_, path);
}

LossReport::~LossReport() {
  if (event_.lost_packets == 0) return;
  c_.flow->on_loss(event_);
  // A path that is dark while most others deliver is no congestion: what it took comes back.
  if (dark_bytes_ != 0 && 2 * c_.paths->usable() >= c_.paths->size())
    c_.flow->on_signal(now_, LossWasSpurious{dark_bytes_});
  ctx_.make_ready(c_);
}

void judge_by_time(EngineContext& ctx, Connection& c, Time now) {
  LossState& loss = c.send->loss;
  loss.next_check = kNever;
  if (!c.rtt.has_sample() || c.send->log.in_flight_packets() == 0) return;
  const Duration patience = c.loss_rule->patience(c);
  // Asked with every acknowledgement: the paths are walked only when the oldest packet of the last
  // walk, or what has left since, can be due.
  if (loss.oldest_sent + patience > now) {
    loss.next_check = loss.oldest_sent + patience;
    return;
  }
  loss.oldest_sent = now;
  LossReport report(ctx, c, LossCause::kReordered, now);
  for (std::uint32_t i = 0; i < c.send->log.path_count(); ++i) {
    const PathId path{static_cast<std::uint16_t>(i)};
    std::uint32_t lost = 0;
    while (SentUnit* unit = c.send->log.path_head(path)) {
      loss.oldest_sent = std::min(loss.oldest_sent, unit->sent_time);
      if (unit->sent_time >= loss.newest_acked_sent) break;  // nothing sent later arrived
      const Time due = unit->sent_time + patience;
      if (due > now) {
        loss.next_check = std::min(loss.next_check, due);
        break;
      }
      report.lose(*unit);
      ++lost;
    }
    report.blame(path, PathOutcome::kLost, lost);
  }
}

void judge_by_probe(EngineContext& ctx, Connection& c, const AckView& view, Time probe_sent,
                    Time now) {
  const Time old_enough = probe_sent - reorder_patience(c);
  const LossCause cause =
      c.send->timeouts_in_row == 0 ? LossCause::kReordered : LossCause::kTimeout;
  LossReport report(ctx, c, cause, now);
  for (std::uint64_t i = 0; i < 64; ++i) {
    SentUnit* unit = c.send->log.find(Psn{view.sack_base.value + i});
    if (unit == nullptr) continue;
    if (unit->state == SentUnit::State::kInFlight && unit->sent_time <= old_enough &&
        view.says_missing(unit->psn)) {
      report.lose(*unit);
      report.blame(unit->path, PathOutcome::kLost, 1);
    }
  }
}

void on_spurious(Connection& c, const SentUnit& unit, Time now) {
  LossState& loss = c.send->loss;
  std::uint16_t& threshold = loss.paths[unit.path.value].reorder_threshold;
  threshold =
      std::min<std::uint16_t>(kMaxReorderThreshold, static_cast<std::uint16_t>(threshold + 1));
  if (now - loss.last_spurious > c.rtt.smoothed())
    loss.window_shift = std::min(loss.window_shift + 1, kMaxWindowShift);
  loss.last_spurious = now;
}

}  // namespace spindrift
