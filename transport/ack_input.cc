#include "transport/ack_input.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "transport/completions.h"
#include "transport/describe.h"
#include "transport/loss_rules.h"
#include "transport/path_tally.h"
#include "transport/sender.h"

namespace spindrift {
namespace {

constexpr Duration kServiceUnit = std::chrono::nanoseconds(128);
constexpr std::uint16_t kServiceOverflow = 0xffff;
constexpr Duration kCnpSpacing = std::chrono::microseconds(50);  // DCQCN's notification point

struct AckWork {
  EngineContext& ctx;
  Connection& c;
  Time now;
  Psn trigger{};                // the packet that the acknowledgement answers
  bool is_retransmit = false;   // ... was a copy sent again
  bool has_duplicates = false;  // the receiver counted new duplicates
  AckEvent event{};
  PathTally paths{ctx.path_feedback};
};

// The message that met no RECEIVE got through: what else of it was turned away may go again.
void wake_stalled(Connection& c) {
  SendState& send = *c.send;
  send.stalled.reset();
  send.stalled_retry = kNever;
  for (Psn psn = send.log.oldest(); psn < send.log.next(); ++psn.value) {
    SentUnit* unit = send.log.find(psn);
    if (unit->state != SentUnit::State::kStalled || send.lost.is_full()) continue;
    unit->state = SentUnit::State::kLost;
    send.lost.push_back(psn);
  }
}

void note_newest(LossState& loss, const SentUnit& unit) {
  std::uint64_t& newest = loss.paths[unit.path.value].newest_acked_seq;
  newest = std::max(newest, unit.path_seq.value);
  loss.newest_acked_sent = std::max(loss.newest_acked_sent, unit.sent_time);
}

void acknowledge(AckWork& work, SentUnit& unit) {
  using State = SentUnit::State;
  if (unit.state == State::kAcked || unit.state == State::kFree) return;
  Connection& c = work.c;
  LossState& loss = c.send->loss;
  if (unit.state == State::kInFlight) {
    work.event.acked_bytes += unit.nominal_bytes;
  } else if (unit.state == State::kLost && !unit.was_spurious) {
    unit.was_spurious = true;  // declared lost, and here it is: it need not be sent again
    on_spurious(c, unit, work.now);
    work.ctx.trace_unit(TraceKind::kSpurious, c, unit);
  }
  ++work.event.acked_packets;
  work.paths.add(unit.path, 1);
  // Of a unit sent again nobody knows which copy arrived, unless the receiver says so. What is
  // believed wrongly here makes everything before it on its path look lost.
  const bool is_this_copy =
      unit.transmissions == 1 || (unit.psn == work.trigger && work.is_retransmit);
  if (is_this_copy) note_newest(loss, unit);
  c.send->log.take_out(unit, State::kAcked);
  if (c.send->stalled && *c.send->stalled == unit.psn) wake_stalled(c);
  on_units_acked(work.ctx, c, unit, 1);
}

// What is true of each unit of a run is done once for all. Returns the number of units; zero: they
// must go one by one.
std::uint32_t acknowledge_run(AckWork& work, Psn psn, Psn last) {
  SendState& send = *work.c.send;
  if (send.stalled) return 0;
  const SentLog::Run run = send.log.acknowledge_run(psn, last);
  if (run.packets == 0) return 0;
  work.event.acked_bytes += run.nominal_bytes;
  work.event.acked_packets += run.packets;
  work.paths.add(run.first->path, run.packets);
  note_newest(send.loss, *run.last);
  on_units_acked(work.ctx, work.c, *run.first, run.packets);
  return run.packets;
}

void acknowledge_range(AckWork& work, Psn first, Psn last) {
  SentLog& log = work.c.send->log;
  last = std::min(last, Psn{log.next().value - 1});
  for (Psn psn = std::max(first, log.oldest()); psn <= last;) {
    std::uint32_t units = acknowledge_run(work, psn, last);
    if (units == 0) {
      acknowledge(work, *log.find(psn));
      units = 1;
    }
    psn.value += units;
  }
}

void acknowledge_bitmap(AckWork& work, const AckView& view) {
  std::uint64_t base = view.sack_base.value;
  for (std::uint64_t bits = view.sack_bitmap; bits != 0;) {
    const int zeros = std::countr_zero(bits);
    const int ones = std::countr_one(bits >> zeros);
    const std::uint64_t first = base + static_cast<std::uint64_t>(zeros);
    base = first + static_cast<std::uint64_t>(ones);
    acknowledge_range(work, Psn{first}, Psn{base - 1});
    if (zeros + ones == 64) return;
    bits >>= zeros + ones;
  }
}

// The 64-bit PSN near our window whose low bits are `wire`.
Psn extend(const SentLog& log, std::uint32_t wire) {
  const std::uint64_t base = log.oldest().value;
  const auto delta = static_cast<std::int32_t>(wire - static_cast<std::uint32_t>(base));
  return Psn{base + static_cast<std::uint64_t>(static_cast<std::int64_t>(delta))};
}

// RTT from our own record, when it is clear which copy the acknowledgement answers.
void measure(AckWork& work, const wire::Ack& ack, const wire::NsccState& state, Psn trigger) {
  Connection& c = work.c;
  if (state.service_time == 0) return;  // an update, not the answer to a packet
  SentUnit* unit = c.send->log.find(trigger);
  if (unit == nullptr) unit = c.send->log.find_retired(trigger);
  if (unit == nullptr || unit->transmissions == 0) return;
  work.event.sent_time = unit->sent_time;
  const bool was_known = unit->state == SentUnit::State::kAcked;
  if (work.has_duplicates && was_known && unit->transmissions > 1 && !unit->was_spurious) {
    // A second arrival of something that was acknowledged: the retransmission was needless.
    unit->was_spurious = true;
    on_spurious(c, *unit, work.now);
    work.ctx.trace_unit(TraceKind::kSpurious, c, *unit);
  }
  const bool is_first_copy = unit->transmissions == 1 && !ack.is_retransmit;
  const bool is_second_copy = unit->transmissions == 2 && ack.is_retransmit;
  if (was_known || (!is_first_copy && !is_second_copy)) return;
  if (state.service_time == kServiceOverflow) return;
  const Duration rtt = work.now - unit->sent_time - state.service_time * kServiceUnit;
  if (rtt <= Duration{}) return;
  work.event.rtt = rtt;
  c.rtt.add(rtt);
  if (unit->delivered_time_before != Time{}) {
    work.event.delivery.delivered_bytes = c.flow->delivered() - unit->delivered_before;
    work.event.delivery.interval = work.now - unit->delivered_time_before;
    work.event.delivery.is_app_limited =
        c.send->queue.next_request == c.send->queue.requests.end_serial();
  }
}

void note_restored(AckWork& work, PathId path) {
  ++work.c.counters.paths_restored;
  work.ctx.trace(TraceKind::kPath, work.c.id,
                 {.cause = static_cast<std::uint8_t>(PathState::kGood), .path = path});
}

void give_path_feedback(AckWork& work, const SentUnit* trigger) {
  Connection& c = work.c;
  for (PathFeedback& feedback : work.paths.entries()) {
    const bool is_trigger = trigger != nullptr && trigger->path == feedback.path;
    if (is_trigger) feedback.rtt = work.event.rtt;
    feedback.outcome =
        is_trigger && work.event.is_marked ? PathOutcome::kMarked : PathOutcome::kDelivered;
    if (c.paths->awaits_arrival(feedback.path)) note_restored(work, feedback.path);
  }
  c.paths->on_feedback(work.paths.entries(), work.now, current_rto(c));
}

void judge(AckWork& work, const AckView& view) {
  const LossRule& rule = *work.c.loss_rule;
  if (rule.on_ack == nullptr) return;
  LossReport report(work.ctx, work.c, LossCause::kReordered, work.now);
  if (!work.paths.has_overflowed()) {
    rule.on_ack(report, work.c, work.paths.entries(), view);
    return;
  }
  for (std::uint32_t i = 0; i < work.c.send->log.path_count(); ++i) {
    const PathFeedback touched{.path = PathId{static_cast<std::uint16_t>(i)}};
    rule.on_ack(report, work.c, {&touched, 1}, view);
  }
}

void feed_flow(AckWork& work, const wire::NsccState& state, std::uint32_t& last_quanta) {
  Connection& c = work.c;
  const std::uint32_t fresh = (state.received_quanta - last_quanta) & 0xffffff;
  if (fresh < 0x800000) {  // an older acknowledgement overtaken by a newer one says nothing new
    work.event.received_bytes = std::uint64_t{fresh} * 256;
    last_quanta = state.received_quanta;
  }
  work.event.now = work.now;
  work.event.out_of_order_packets = state.out_of_order == 0xffff ? 0 : state.out_of_order;
  work.event.receiver_penalty = state.window_penalty;
  work.event.restores_window = state.restores_window;
  const bool thins_marks = c.cc.info->traits.needs_cnp;
  if (work.event.is_marked) {
    ++c.counters.marked_acks;
    if (thins_marks && work.now - c.send->last_cnp >= kCnpSpacing) {
      c.send->last_cnp = work.now;
      c.flow->on_signal(work.now, CongestionNotification{});
    }
  }
  c.flow->on_ack(work.event);
  work.ctx.arm(c, c.flow->limits().timer);
  work.ctx.trace_limits(c, work.now);
}

// The SES response behind an ACK: receive credits, and how many duplicates came in.
void take_response(AckWork& work, std::span<const std::byte> rest) {
  Connection& c = work.c;
  wire::Response response;
  std::size_t bytes = 0;
  if (wire::parse(rest, response, bytes) != wire::ParseError::kOk) {
    ++c.counters.malformed_received;
    return;
  }
  const auto more = static_cast<std::int32_t>(response.modified_length - c.send->peer_credits);
  // What found no RECEIVE when the peer closed was flushed. A shared queue may get more of them for
  // its other connections, but nothing may be delivered behind the gap.
  if (more > 0 && !c.send->peer_has_closed) c.send->peer_credits = response.modified_length;
  if (response.return_code == static_cast<std::uint8_t>(wire::ReturnCode::kNoMoreReceives))
    c.send->peer_has_closed = true;
  const auto duplicates = static_cast<std::int16_t>(response.message_id - c.send->peer_duplicates);
  if (duplicates <= 0) return;
  work.has_duplicates = true;
  c.send->peer_duplicates = response.message_id;
  // The network duplicates too: no more than were sent again can have been needless.
  const ConnectionCounters& n = c.counters;
  c.counters.spurious_retransmits =
      std::min(n.spurious_retransmits + static_cast<std::uint64_t>(duplicates),
               n.retransmits_reordered + n.retransmits_trimmed + n.retransmits_timeout);
}

void on_progress(AckWork& work) {
  SendState& send = *work.c.send;
  // By time it is judged after the whole batch: the next packet may be the missing acknowledgement.
  send.loss.next_check = work.now;
  work.ctx.arm(work.c, work.now);
  send.timeouts_in_row = 0;
  send.last_progress = work.now;
  send.last_delivery = work.now;
  send.tail_probe =
      send.log.in_flight_packets() == 0
          ? kNever
          : work.now + 2 * std::max(work.c.rtt.smoothed(), work.c.options.rto_min / 2);
}

void answer_probe(AckWork& work, const wire::Ack& ack, const AckView& view) {
  Connection& c = work.c;
  for (ProbeRecord& record : c.send->probes) {
    if (!record.is_outstanding || record.opaque != ack.probe_opaque) continue;
    record.is_outstanding = false;
    ++c.counters.probes_answered;
    const Duration rtt = work.now - record.sent;
    work.ctx.trace(TraceKind::kProbeAnswered, c.id,
                   {.path = record.path,
                    .first = record.opaque,
                    .second = static_cast<std::uint64_t>(rtt.count())});
    if (c.paths->state(record.path) == PathState::kBad) note_restored(work, record.path);
    c.paths->on_probe_reply(record.path, rtt);
    // Control packets overtake data: their RTT is a first guess and a lower bound, no more.
    if (!c.rtt.has_sample() && rtt > Duration{}) c.rtt.add(rtt);
    judge_by_probe(work.ctx, c, view, record.sent, work.now);
    c.send->timeouts_in_row = 0;  // it lives
    return;
  }
}

OpStatus status_of(std::uint32_t return_code) {
  switch (static_cast<wire::ReturnCode>(return_code)) {
    case wire::ReturnCode::kBadKey:
      return OpStatus::kRemoteKey;
    case wire::ReturnCode::kPermission:
      return OpStatus::kRemoteAccess;
    case wire::ReturnCode::kOutOfRange:
      return OpStatus::kRemoteBounds;
    case wire::ReturnCode::kAtomicUnaligned:
      return OpStatus::kRemoteAlignment;
    case wire::ReturnCode::kTooLong:
      return OpStatus::kRemoteLength;
    default:
      return OpStatus::kRemoteUnsupported;
  }
}

// What the acknowledgement says has arrived, at the most.
Psn newest_shown(const AckView& view) {
  if (view.sack_bitmap == 0) return view.cumulative;
  const Psn last{view.sack_base.value + 63 -
                 static_cast<std::uint64_t>(std::countl_zero(view.sack_bitmap))};
  return std::max(last, view.cumulative);
}

void on_operation_error(EngineContext& ctx, Connection& c, const wire::Nack& nack, Time now) {
  const Psn psn = extend(c.send->log, nack.psn);
  SentUnit* unit = c.send->log.find(psn);
  // A READ may fail after its packet was acknowledged: its region was deregistered before its turn.
  if (unit == nullptr) unit = c.send->log.find_retired(psn);
  if (unit == nullptr || unit->transmissions == 0 ||
      (unit->kind == SentUnit::Kind::kRequest &&
       !c.send->queue.requests.contains_serial(unit->owner))) {
    ++c.counters.acks_impossible;
    return;
  }
  AckWork work{.ctx = ctx, .c = c, .now = now};
  acknowledge_range(work, c.send->log.oldest(), Psn{psn.value - 1});
  c.send->log.retire();
  deliver_requests(ctx, c);
  if (is_over(c.phase)) return;
  const OpStatus status = status_of(nack.payload);
  std::string what = "a response of ours was refused";
  if (unit->kind == SentUnit::Kind::kRequest &&
      c.send->queue.requests.contains_serial(unit->owner)) {
    Request& request = c.send->queue.requests.at_serial(unit->owner);
    what = absl::StrCat(std::string(to_string(request.kind)), " of ", request.length, " bytes");
    // The culprit gets the reason even if earlier READs are still without answer.
    request.status = status;
    request.state = Request::State::kFinished;
  }
  const std::string sentence =
      absl::StrCat(describe_peer(c), " refused ", what, ": ", std::string(to_string(status)),
                   " (return code ", nack.payload,
                   "). The connection has failed, as RDMA connections do after a "
                   "remote error");
  fail_connection(ctx, c, OpStatus::kFlushed, sentence);
}

void stall(Connection& c, SentUnit& unit) {
  c.send->log.take_out(unit, SentUnit::State::kStalled);
  c.flow->on_withdrawn(unit.nominal_bytes);
}

// No RECEIVE, then for none of its packets: the rest of the message waits without being asked.
void stall_message(Connection& c, const SentUnit& first) {
  SentLog& log = c.send->log;
  for (Psn psn = log.oldest(); psn < log.next(); ++psn.value) {
    SentUnit* unit = log.find(psn);
    if (unit->state == SentUnit::State::kInFlight && unit->kind == first.kind &&
        unit->owner == first.owner)
      stall(c, *unit);
  }
}

void on_not_ready(EngineContext& ctx, Connection& c, const wire::Nack& nack, Time now) {
  SentUnit* unit = c.send->log.find(extend(c.send->log, nack.psn));
  if (unit == nullptr || unit->state != SentUnit::State::kInFlight) return;
  SendState& send = *c.send;
  if (send.peer_has_closed) {
    fail_connection(ctx, c, OpStatus::kFlushed,
                    describe_peer(c) +
                        " has closed, and posted no RECEIVE for a message that was "
                        "already under way: the connection has failed");
    return;
  }
  if (send.stalled && *send.stalled != unit->psn) {
    // One packet asks again for the stalled message; its other packets wait as lost ones do.
    const SentUnit* first = send.log.find(*send.stalled);
    if (first != nullptr && first->state == SentUnit::State::kStalled && first->psn < unit->psn) {
      stall(c, *unit);
      return;
    }
  }
  const bool is_again = send.stalled && *send.stalled == unit->psn;
  stall_message(c, *unit);
  const Duration first_wait = std::max(c.rtt.smoothed(), c.options.rto_min);
  send.stalled_backoff =
      is_again ? std::min(2 * send.stalled_backoff, c.options.rto_max) : first_wait;
  send.stalled = unit->psn;
  send.stalled_retry = now + send.stalled_backoff;
  ++c.counters.retransmits_not_ready;
  ctx.arm(c, send.stalled_retry);
}

void on_trimmed(EngineContext& ctx, Connection& c, const wire::Nack& nack, LossCause cause,
                Time now) {
  SentUnit* unit = c.send->log.find(extend(c.send->log, nack.psn));
  if (unit == nullptr || unit->state != SentUnit::State::kInFlight) return;
  LossReport report(ctx, c, cause, now);
  report.lose(*unit);
  report.blame(unit->path, PathOutcome::kTrimmed, 1);
}

}  // namespace

void on_ack(EngineContext& ctx, Connection& c, const AckPacket& packet, Time now) {
  const auto& [ack, rest, telemetry] = packet;
  ++c.counters.acks_received;
  SentLog& log = c.send->log;
  const Psn cumulative = extend(log, ack.cack_psn);
  const AckView view{
      .cumulative = cumulative,
      .sack_base = Psn{cumulative.value +
                       static_cast<std::uint64_t>(static_cast<std::int64_t>(ack.sack_psn_offset))},
      .sack_bitmap = ack.sack_bitmap};
  const Psn trigger{cumulative.value +
                    static_cast<std::uint64_t>(static_cast<std::int64_t>(ack.ack_psn_offset))};
  if (!ack.has_cc || ack.cc_type != wire::CcType::kNscc || newest_shown(view) >= log.next() ||
      (!ack.is_probe && trigger >= log.next())) {
    ++c.counters.acks_impossible;
    return;
  }
  const wire::NsccState state = wire::unpack_nscc(ack.ack_cc_state);
  AckWork work{.ctx = ctx, .c = c, .now = now};
  if (ack.next == wire::NextHeader::kResponse) take_response(work, rest);
  work.event.is_marked = ack.is_marked;
  work.event.telemetry = telemetry;
  const bool is_newest = cumulative.value + 1 >= log.oldest().value;
  if (is_newest && ack.mpr != 0) c.send->peer_window = std::uint64_t{ack.mpr} * 128;
  if (!ack.is_probe && state.service_time != 0) {
    work.trigger = trigger;
    work.is_retransmit = ack.is_retransmit;
  }
  if (!ack.is_probe) measure(work, ack, state, trigger);
  ctx.trace(
      TraceKind::kAckReceived, c.id,
      {.first = cumulative.value, .second = static_cast<std::uint64_t>(work.event.rtt.count())});
  acknowledge_range(work, log.oldest(), cumulative);
  acknowledge_bitmap(work, view);
  if (is_over(c.phase)) return;
  const SentUnit* trigger_unit = ack.is_probe ? nullptr : log.find(trigger);
  if (trigger_unit == nullptr && !ack.is_probe) trigger_unit = log.find_retired(trigger);
  if (work.event.acked_packets != 0) {
    give_path_feedback(work, trigger_unit);
  } else if (!is_newest) {
    ++c.counters.acks_stale;
  }
  // Acknowledgements overtake each other: what an older one calls missing may have come since, so
  // only the newest view of the receiver, by its count of received bytes, is held against a path.
  const std::uint32_t ahead = (state.received_quanta - c.send->peer_received_quanta) & 0xffffff;
  feed_flow(work, state, c.send->peer_received_quanta);
  if (ahead < 0x800000) judge(work, view);
  if (ack.is_probe) answer_probe(work, ack, view);
  if (work.event.acked_packets != 0) on_progress(work);
  log.retire();
  deliver_requests(ctx, c);
  ctx.make_ready(c);
}

void on_nack(EngineContext& ctx, Connection& c, const wire::Nack& nack, Time now) {
  ++c.counters.nacks_received;
  ctx.trace(TraceKind::kNackReceived, c.id, {.first = nack.psn, .second = nack.code});
  const auto code = static_cast<wire::NackCode>(nack.code);
  const bool says_closing =
      code == wire::NackCode::kClosing || code == wire::NackCode::kClosingInError;
  if (!says_closing && extend(c.send->log, nack.psn) >= c.send->log.next()) {
    ++c.counters.acks_impossible;
    return;
  }
  switch (code) {
    case wire::NackCode::kOperationError:
      on_operation_error(ctx, c, nack, now);
      return;
    case wire::NackCode::kNoMessageAvailable:
    case wire::NackCode::kNoResource:
    case wire::NackCode::kNoPacketBuffer:
      on_not_ready(ctx, c, nack, now);
      return;
    case wire::NackCode::kTrimmed:
      on_trimmed(ctx, c, nack, LossCause::kTrimmed, now);
      return;
    case wire::NackCode::kTrimmedLastHop:
      on_trimmed(ctx, c, nack, LossCause::kTrimmedLastHop, now);
      return;
    case wire::NackCode::kClosing:
    case wire::NackCode::kClosingInError:
      if (c.phase == Phase::kClosing) {  // all our work is done: this side wanted no more
        end_connection(ctx, c, Phase::kClosed);
        return;
      }
      fail_connection(ctx, c, OpStatus::kPeerGone, describe_peer(c) + " aborted the connection");
      return;
    default:
      ++c.counters.malformed_received;
      return;
  }
}

}  // namespace spindrift
