#include "transport/connection_timers.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "transport/completions.h"
#include "transport/describe.h"
#include "transport/handshake.h"
#include "transport/loss_detector.h"
#include "transport/receiver_credit.h"
#include "transport/sender.h"

namespace spindrift {
namespace {

constexpr std::uint32_t kMaxBackoffShift = 10;
// On as many paths: one dark path must not swallow them all.
constexpr std::uint8_t kProbesPerTimeout = 2;

Duration backed_off_rto(const Connection& c) {
  const std::uint32_t shift = std::min(c.send->timeouts_in_row, kMaxBackoffShift);
  return std::min(current_rto(c) * (1 << shift), std::max(c.options.rto_max, c.options.rto_min));
}

Time rto_deadline(const Connection& c) {
  if (c.send->log.in_flight_packets() == 0) return kNever;
  return c.send->last_progress + backed_off_rto(c);
}

Duration silence_limit(const Connection& c) {
  return c.peer.progresses_alone ? c.options.silence_limit : c.options.silence_limit_passive;
}

// The peer owes us something: an acknowledgement, a response, credits, an answer to a keepalive.
Time silent_since(const Connection& c) {
  if (c.waiting_since == kNever) return kNever;
  return std::max(c.last_heard, c.waiting_since);
}

bool is_waiting_for_credits(const Connection& c) {
  const SendQueue& queue = c.send->queue;
  if (queue.next_request == queue.requests.end_serial()) return false;
  const Request& request = queue.requests.at_serial(queue.next_request);
  return request.state == Request::State::kQueued && request.wants_receive() &&
         static_cast<std::int32_t>(c.send->peer_credits - queue.next_receive_sequence) <= 0;
}

// The peer's application has closed: what has no RECEIVE there by now will never have one.
void flush_without_receive(EngineContext& ctx, Connection& c, Time now) {
  SendQueue& queue = c.send->queue;
  std::uint32_t count = 0;
  for (std::uint64_t i = queue.next_request; i != queue.requests.end_serial(); ++i) {
    Request& request = queue.requests.at_serial(i);
    if (request.state != Request::State::kQueued || !request.wants_receive()) continue;
    request.state = Request::State::kFinished;
    request.status = OpStatus::kFlushed;
    ++count;
  }
  c.error = absl::StrCat(describe_peer(c), " has closed and posts no more RECEIVEs: ", count,
                         " operations that need one were flushed");
  c.send->credit_probe = kNever;
  deliver_requests(ctx, c);
  advance_close(ctx, c, now);
  ctx.make_ready(c);  // what stood behind them may go
}

void check_rto(EngineContext& ctx, Connection& c, Time now) {
  if (rto_deadline(c) > now) return;
  ++c.counters.timeouts;
  ++c.send->timeouts_in_row;
  c.send->last_progress = now;
  c.send->probes_wanted = kProbesPerTimeout;
  ctx.trace(TraceKind::kTimeout, c.id,
            {.first = c.send->timeouts_in_row,
             .second = static_cast<std::uint64_t>(current_rto(c).count())});
  ctx.make_ready(c);
}

void check_tail(EngineContext& ctx, Connection& c, Time now) {
  SendState& send = *c.send;
  if (send.confirm_probe <= now) {
    send.confirm_probe = kNever;
    send.probes_wanted = 1;
    ctx.make_ready(c);
  }
  if (send.tail_probe > now) return;
  send.tail_probe = kNever;
  if (send.log.in_flight_packets() == 0) return;
  send.probes_wanted = 1;
  ctx.make_ready(c);
}

// Nothing is in flight, nothing will be acknowledged: only a probe finds out about new credits if
// the peer's update was lost.
void check_credits(EngineContext& ctx, Connection& c, Time now) {
  SendState& send = *c.send;
  if (!is_waiting_for_credits(c)) {
    send.credit_probe = kNever;
    return;
  }
  if (send.credit_probe == kNever) {
    send.credit_probe = now + std::max(current_rto(c), c.options.rto_min);
    send.credit_backoff = current_rto(c);
    return;
  }
  if (send.credit_probe > now) return;
  send.credit_backoff = std::min(2 * send.credit_backoff, c.options.rto_max);
  send.credit_probe = now + send.credit_backoff;
  send.probes_wanted = 1;
  ctx.make_ready(c);
}

void expire_requests(EngineContext& ctx, Connection& c, Time now) {
  Ring<Request>& requests = c.send->queue.requests;
  Time earliest = kNever;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Request& request = requests[i];
    if (request.state == Request::State::kFinished) continue;
    if (request.deadline > now) {
      earliest = std::min(earliest, request.deadline);
      continue;
    }
    if (request.state == Request::State::kQueued) {
      request.state = Request::State::kFinished;
      request.status = OpStatus::kTimedOut;
      continue;
    }
    request.state = Request::State::kFinished;
    request.status = OpStatus::kTimedOut;
    fail_connection(ctx, c, OpStatus::kFlushed,
                    absl::StrCat(std::string(to_string(request.kind)), " of ", request.length,
                                 " bytes to ", describe_peer(c),
                                 " passed its deadline after part "
                                 "of it was sent, so its buffer could still be read or written: "
                                 "the connection has failed. ",
                                 describe_silence(c, now)));
    return;
  }
  c.earliest_deadline = std::min(c.earliest_deadline, earliest);
  deliver_requests(ctx, c);
}

// A RECEIVE that nobody has met yet is taken back; one half filled cannot be.
void expire_receives(EngineContext& ctx, Connection& c, Time now) {
  for (std::size_t i = 0; i < c.receives->size(); ++i) {
    ReceiveSlot& slot = c.receives->at(i);
    if (slot.state == ReceiveSlot::State::kVacant) continue;
    if (slot.posted.deadline > now) {
      c.earliest_deadline = std::min(c.earliest_deadline, slot.posted.deadline);
      continue;
    }
    if (slot.state == ReceiveSlot::State::kArriving) {
      fail_connection(ctx, c, OpStatus::kFlushed,
                      absl::StrCat("a RECEIVE passed its deadline while its message was arriving "
                                   "from ",
                                   describe_peer(c), ": the connection has failed. ",
                                   describe_silence(c, now)));
      return;
    }
    if (!take_back(ctx, c, slot)) return;
  }
}

void check_deadlines(EngineContext& ctx, Connection& c, Time now) {
  if (c.earliest_deadline > now) return;
  c.earliest_deadline = kNever;
  if (c.receives) expire_receives(ctx, c, now);
  if (c.send && !is_over(c.phase)) expire_requests(ctx, c, now);
}

void check_silence(EngineContext& ctx, Connection& c, Time now) {
  const bool has_work = !c.send->queue.requests.is_empty() || !c.send->log.is_empty();
  if (!has_work && c.waiting_since != kNever && !c.awaits_keepalive) c.waiting_since = kNever;
  if (has_work && c.waiting_since == kNever) c.waiting_since = now;
  const Time since = silent_since(c);
  if (since == kNever || now - since < silence_limit(c)) return;
  fail_connection(
      ctx, c, OpStatus::kPeerGone,
      absl::StrCat(describe_peer(c), " has been silent for ", format_duration(now - since),
                   " (limit ", format_duration(silence_limit(c)), "); ", describe_silence(c, now),
                   ". It died, was stopped, or the network between is cut"));
}

// The peer answers probes, yet no data gets through: packets of full size do not pass, and nobody
// says so. (A message that met no RECEIVE waits by right.)
Time delivery_deadline(const Connection& c) {
  const SendState& send = *c.send;
  if (send.log.is_empty() || send.stalled) return kNever;
  return send.last_delivery + 2 * silence_limit(c);
}

void check_delivery(EngineContext& ctx, Connection& c, Time now) {
  if (is_over(c.phase) || delivery_deadline(c) > now) return;
  fail_connection(
      ctx, c, OpStatus::kPeerGone,
      absl::StrCat("no data has reached ", describe_peer(c), " for ",
                   format_duration(now - c.send->last_delivery), " though it answers probes; ",
                   describe_silence(c, now), ". Packets of ", c.payload_mtu + kMaxPacketOverhead,
                   " bytes seem not to pass: has the MTU of the path shrunk?"));
  c.wants_abort_notice = true;
  ctx.make_ready(c);
}

void check_keepalive(EngineContext& ctx, Connection& c, Time now) {
  if (c.next_keepalive > now) return;
  const Time quiet_until = c.last_heard + c.options.keepalive;
  if (quiet_until > now) {
    c.awaits_keepalive = false;
    c.next_keepalive = quiet_until;
    return;
  }
  c.next_keepalive = now + c.options.keepalive;
  c.send->probes_wanted = 1;
  // A peer that does not progress on its own may rightly be silent while nobody asks it anything.
  if (c.peer.progresses_alone && !c.awaits_keepalive) {
    c.awaits_keepalive = true;
    if (c.waiting_since == kNever) c.waiting_since = now;
  }
  ctx.make_ready(c);
}

void check_paths(EngineContext& ctx, Connection& c, Time now) {
  if (c.send->path_probe || c.paths->next_probe() > now) return;
  c.send->path_probe = c.paths->take_due_probe(now);
  if (c.send->path_probe) ctx.make_ready(c);
}

void run_open_timers(EngineContext& ctx, Connection& c, Time now) {
  check_rto(ctx, c, now);
  check_tail(ctx, c, now);
  if (c.send->loss.next_check <= now) judge_by_time(ctx, c, now);
  if (c.flow->limits().timer <= now) c.flow->on_signal(now, TimerFired{});
  check_credits(ctx, c, now);
  check_paths(ctx, c, now);
  if (c.credit && c.credit->ask_again <= now) note_demand(ctx, c, now);
  check_keepalive(ctx, c, now);
  check_silence(ctx, c, now);
  check_delivery(ctx, c, now);
  if (is_over(c.phase)) return;
  advance_close(ctx, c, now);
  if (c.phase == Phase::kClosing && c.close_gives_up <= now) {
    c.error = describe_peer(c) + " did not answer the farewell; closed without it";
    end_connection(ctx, c, Phase::kClosed);
    return;
  }
  if (c.send->stalled_retry <= now || !c.flow->is_paced_out(now)) ctx.make_ready(c);
}

}  // namespace

void note_credit_wait(EngineContext& ctx, Connection& c, Time now) {
  SendState& send = *c.send;
  if (!is_waiting_for_credits(c)) {
    send.credit_probe = kNever;
  } else if (send.peer_has_closed) {
    flush_without_receive(ctx, c, now);
  } else if (send.credit_probe == kNever) {
    send.credit_backoff = current_rto(c);
    send.credit_probe = now + send.credit_backoff;
  }
}

void run_timers(EngineContext& ctx, Connection& c, Time now) {
  if (is_over(c.phase)) return;
  check_deadlines(ctx, c, now);
  if (is_over(c.phase)) return;
  if (carries_data(c.phase))
    run_open_timers(ctx, c, now);
  else
    handshake_timer(ctx, c, now);
  if (!is_over(c.phase)) ctx.timers.arm(c.index, next_timer(c, now));
}

Time next_timer(const Connection& c, Time now) {
  if (is_over(c.phase)) return kNever;
  Time next = c.earliest_deadline;
  if (!carries_data(c.phase)) return std::min(next, handshake_deadline(c));
  const SendState& send = *c.send;
  next = std::min({next, rto_deadline(c), send.tail_probe, send.loss.next_check, send.stalled_retry,
                   c.flow->limits().timer, c.paths->next_probe(), c.next_keepalive,
                   send.credit_probe, send.confirm_probe});
  next = std::min(next, delivery_deadline(c));
  if (c.credit) next = std::min(next, c.credit->ask_again);
  if (c.phase == Phase::kClosing) next = std::min(next, c.close_gives_up);
  if (c.waiting_since != kNever) next = std::min(next, silent_since(c) + silence_limit(c));
  if (!c.send->lost.is_empty() || send.queue.next_request != send.queue.requests.end_serial())
    if (c.flow->is_paced_out(now)) next = std::min(next, c.flow->next_send_time());
  return next;
}

void advance_close(EngineContext& ctx, Connection& c, Time now) {
  if (c.phase != Phase::kDraining || !c.send->queue.requests.is_empty()) return;
  c.phase = Phase::kClosing;
  ctx.trace_phase(c);
  c.send->wants_close = true;
  c.close_gives_up = now + c.options.close_timeout;
  ctx.make_ready(c);
  ctx.arm(c, c.close_gives_up);
}

}  // namespace spindrift
