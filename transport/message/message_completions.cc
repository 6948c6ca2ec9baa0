#include "transport/message/message_completions.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/endpoint_queues.h"
#include "transport/message/message_reads.h"
#include "transport/message/message_sender.h"

namespace spindrift {
namespace {

// False when the queue is full: the error is the connection's, its work waits for room.
bool push(MessageContext& ctx, MessageConnection& c, const Completion& completion) {
  if (!ctx.completions.is_full()) {
    if (completion.status != OpStatus::kOk) [[unlikely]]
      ctx.trace(
          TraceKind::kCompletionError, c.id,
          {.cause = static_cast<std::uint8_t>(completion.status), .first = completion.user_data});
    put(ctx.completions, completion);
    return true;
  }
  if (!c.is_blocked_on_queue) {
    c.is_blocked_on_queue = true;
    ++ctx.blocked_on_queue;
  }
  return false;
}

void report_overflow(MessageContext& ctx, MessageConnection& c) {
  ++ctx.counters.completion_queue_overflows;
  fail_connection(ctx, c, OpStatus::kFlushed,
                  absl::StrCat("completion queue overflow: ", ctx.completions.capacity(),
                               " completions wait and none was polled in time; poll more often or "
                               "raise EndpointConfig::completion_queue"));
}

void announce_end(MessageContext& ctx, MessageConnection& c) {
  if (!is_over(c.phase) || c.close_event_sent || c.is_blocked_on_queue) return;
  if (c.requests && !c.requests->is_empty()) return;
  if (c.receives && !c.receives->is_empty()) return;
  c.close_event_sent = true;
  ctx.push_event(c.phase == Phase::kFailed ? ConnEvent::Kind::kFailed : ConnEvent::Kind::kClosed,
                 c);
}

bool is_done(const MessageConnection& c, const MessageRequest& request) {
  if (request.state == MessageRequest::State::kFinished) return true;
  if (request.state != MessageRequest::State::kSent) return false;
  if (request.wants_response()) return request.is_answered;
  return static_cast<std::int32_t>(c.acked - request.last_number) > 0;
}

bool deliver_slot(MessageContext& ctx, MessageConnection& c, const ReceiveSlot& slot,
                  OpStatus status) {
  const Completion done{.user_data = slot.posted.user_data,
                        .bytes = status == OpStatus::kOk ? slot.message_bytes : 0,
                        .conn = c.id,
                        .immediate = status == OpStatus::kOk && slot.is_write ? slot.immediate : 0,
                        .kind = OpKind::kReceive,
                        .status = status,
                        .has_immediate = status == OpStatus::kOk && slot.is_write,
                        .is_shared = slot.posted.is_shared};
  if (!push(ctx, c, done)) return false;
  drop_all(ctx.memory, slot.posted.list());
  ++c.counters.receives_completed;
  return true;
}

// What becomes of a RECEIVE when its connection is over. A message that was complete and only
// waited for room in the completion queue has arrived all the same.
OpStatus final_status(const MessageConnection& c, const ReceiveSlot& slot) {
  if (slot.state != ReceiveSlot::State::kArriving) return OpStatus::kFlushed;
  if (slot.has_end) return OpStatus::kOk;
  return c.pending_fault == OpStatus::kRemoteLength ? OpStatus::kLocalLength : OpStatus::kFlushed;
}

void flush_receives(MessageContext& ctx, MessageConnection& c) {
  while (c.receives && !c.receives->is_empty()) {
    const ReceiveSlot& slot = c.receives->front();
    if (slot.state != ReceiveSlot::State::kVacant &&
        !deliver_slot(ctx, c, slot, final_status(c, slot)))
      return;
    c.receives->pop();
  }
}

// Ends all work in order: `first` for the first request that did not succeed, `rest` for those
// behind it. What the peer took in beyond a hole has arrived, but is not reported so.
void end_requests(MessageConnection& c, OpStatus first, OpStatus rest) {
  if (!c.requests) return;
  bool is_broken = false;
  for (std::size_t i = 0; i < c.requests->size(); ++i) {
    MessageRequest& request = (*c.requests)[i];
    const bool has_failed =
        request.state == MessageRequest::State::kFinished && request.status != OpStatus::kOk;
    if (has_failed) {
      const bool was_never_sent =
          request.sent_bytes == 0 &&
          (request.status == OpStatus::kTimedOut || request.status == OpStatus::kFlushed);
      is_broken = is_broken || !was_never_sent;
      continue;
    }
    if (is_done(c, request) && !is_broken) continue;
    request.status = is_broken ? rest : first;
    request.state = MessageRequest::State::kFinished;
    is_broken = true;
  }
}

}  // namespace

void let_go(MessageContext& ctx, const MessageRequest& request) {
  if (request.inline_buffer != kNoInlineBuffer)
    ctx.free_inline.push_back(request.inline_buffer);
  else
    drop_all(ctx.memory, request.list());
}

void deliver_requests(MessageContext& ctx, MessageConnection& c) {
  while (c.requests && !c.requests->is_empty()) {
    MessageRequest& request = c.requests->front();
    if (!is_done(c, request)) break;
    if (!request.is_unsignaled || request.status != OpStatus::kOk) {
      const bool is_ok = request.status == OpStatus::kOk;
      const Completion done{.user_data = request.user_data,
                            .bytes = is_ok ? request.length : 0,
                            .conn = c.id,
                            .kind = request.kind,
                            .status = request.status};
      if (!push(ctx, c, done)) {
        if (!is_over(c.phase)) report_overflow(ctx, c);
        return;
      }
    }
    ++c.counters.requests_completed;
    let_go(ctx, request);
    c.requests->pop_front();
    c.next_request = std::max(c.next_request, c.requests->front_serial());
  }
  if (is_over(c.phase))
    announce_end(ctx, c);
  else if (c.phase == Phase::kDraining)
    ctx.make_ready(c);  // it may be the time for the farewell
}

void deliver_receive(MessageContext& ctx, MessageConnection& c) {
  ReceiveSlot& slot = c.receives->front();
  if (!deliver_slot(ctx, c, slot, OpStatus::kOk)) {
    report_overflow(ctx, c);
    return;
  }
  c.receives->pop();
}

bool take_back(MessageContext& ctx, MessageConnection& c, ReceiveSlot& slot) {
  if (!deliver_slot(ctx, c, slot, OpStatus::kTimedOut)) {
    report_overflow(ctx, c);
    return false;
  }
  c.receives->vacate(slot);
  return true;
}

void resume_blocked(MessageContext& ctx) {
  for (auto& holder : ctx.connections) {
    if (!holder || !holder->is_blocked_on_queue) continue;
    if (ctx.completions.is_full()) return;
    MessageConnection& c = *holder;
    c.is_blocked_on_queue = false;
    --ctx.blocked_on_queue;
    if (is_over(c.phase)) flush_receives(ctx, c);
    if (!c.is_blocked_on_queue) deliver_requests(ctx, c);
  }
}

void refuse_request(MessageContext& ctx, MessageConnection& c, RefusedRequest refused) {
  if (c.pending_fault != OpStatus::kOk) return;
  ++c.counters.requests_refused;
  c.pending_fault = refused.status;
  c.shows.fault_number = refused.number;
  c.pending_reason = absl::StrCat("refused a request of ", describe_peer(ctx, c), " (",
                                  std::string(to_string(refused.status)), "): ", refused.reason);
  // An answer that cannot be given stands in front of all that follow.
  const bool is_answer = c.next_response < c.responses->end_serial() &&
                         c.responses->at_serial(c.next_response).number == refused.number;
  if (is_answer)
    tell_refusal(ctx, c);
  else
    ctx.make_ready(c);
}

void tell_refusal(MessageContext& ctx, MessageConnection& c) {
  c.shows.fault_code = static_cast<std::uint32_t>(c.pending_fault);
  fail_connection(ctx, c, OpStatus::kFlushed, c.pending_reason);
}

void fail_connection(MessageContext& ctx, MessageConnection& c, OpStatus status,
                     std::string sentence) {
  if (is_over(c.phase)) return;
  c.error = std::move(sentence);
  ++ctx.counters.connections_failed;
  end_requests(c, status, status == OpStatus::kPeerGone ? status : OpStatus::kFlushed);
  end_connection(ctx, c, Phase::kFailed, Bulletin::kFailed);
}

void end_connection(MessageContext& ctx, MessageConnection& c, Phase phase, std::uint32_t flags) {
  if (is_over(c.phase)) return;
  if (c.phase == Phase::kRequested || c.phase == Phase::kAccepting) --ctx.half_open;
  ctx.set_phase(c, phase);
  if (c.settles) --ctx.settling;
  c.settles = false;
  if (c.has_peer) {
    // Before any buffer is given back: from here on the peer delivers nothing that it reads here.
    c.shows.flags |= flags;
    show(ctx, c);
    ctx.fabric.drop(c.peer);
    c.has_peer = false;
    forget_reads(ctx, c);
    if (c.arrivals) c.arrivals->clear();
  }
  end_requests(c, OpStatus::kFlushed, OpStatus::kFlushed);
  ctx.timers.arm(c.index, kNever);
  flush_receives(ctx, c);
  deliver_requests(ctx, c);
}

}  // namespace spindrift
