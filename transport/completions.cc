#include "transport/completions.h"

#include <utility>

#include "transport/describe.h"
#include "transport/endpoint_queues.h"

namespace spindrift {
namespace {

void let_go(EngineContext& ctx, Request& request) {
  for (const Sge& piece : request.list())
    ctx.memory.drop(piece.region);
  if (request.inline_buffer != kNoInlineBuffer) ctx.free_inline.push_back(request.inline_buffer);
}

// False when the queue is full: the error is the connection's, its work waits for room.
bool push(EngineContext& ctx, Connection& c, const Completion& completion) {
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

void report_overflow(EngineContext& ctx, Connection& c) {
  ++ctx.counters.completion_queue_overflows;
  fail_connection(ctx, c, OpStatus::kFlushed,
                  "completion queue overflow: " + std::to_string(ctx.completions.capacity()) +
                      " completions wait and none was polled in time; poll more often or raise "
                      "EndpointConfig::completion_queue");
}

void announce_end(EngineContext& ctx, Connection& c) {
  if (!is_over(c.phase) || c.close_event_sent || c.is_blocked_on_queue) return;
  if (c.send && !c.send->queue.requests.is_empty()) return;
  if (c.receives && !c.receives->is_empty()) return;
  c.close_event_sent = true;
  ctx.push_event(c.phase == Phase::kFailed ? ConnEvent::Kind::kFailed : ConnEvent::Kind::kClosed,
                 c);
}

Completion completion_of(const Connection& c, const Request& request) {
  Completion done;
  done.user_data = request.user_data;
  done.bytes = request.status == OpStatus::kOk ? request.length : 0;
  done.conn = c.id;
  done.kind = request.kind;
  done.status = request.status;
  return done;
}

bool deliver_slot(EngineContext& ctx, Connection& c, const ReceiveSlot& slot, OpStatus status) {
  Completion done;
  done.user_data = slot.posted.user_data;
  done.bytes = status == OpStatus::kOk ? slot.message_bytes : 0;
  done.conn = c.id;
  done.kind = OpKind::kReceive;
  done.status = status;
  done.is_shared = slot.posted.is_shared;
  if (status == OpStatus::kOk && slot.is_write) {
    done.has_immediate = true;
    done.immediate = slot.immediate;
  }
  if (!push(ctx, c, done)) return false;
  for (const Sge& piece : slot.posted.list())
    ctx.memory.drop(piece.region);
  ++c.counters.receives_completed;
  return true;
}

// What becomes of a RECEIVE when its connection is over. A message that was complete and only
// waited for room in the completion queue has arrived all the same.
OpStatus final_status(const Connection& c, const ReceiveSlot& slot) {
  if (!c.receive || slot.state != ReceiveSlot::State::kArriving || !slot.has_end)
    return OpStatus::kFlushed;
  if (c.receive->fault_code == wire::ReturnCode::kTooLong &&
      slot.message_bytes > slot.posted.capacity_bytes)
    return OpStatus::kLocalLength;
  const bool is_complete =
      slot.last_psn <= c.receive->log.cumulative() && slot.received_bytes == slot.message_bytes;
  return is_complete ? OpStatus::kOk : OpStatus::kFlushed;
}

// RECEIVEs of a connection that is over.
void flush_receives(EngineContext& ctx, Connection& c) {
  while (!c.receives->is_empty()) {
    const ReceiveSlot& slot = c.receives->front();
    if (slot.state != ReceiveSlot::State::kVacant &&
        !deliver_slot(ctx, c, slot, final_status(c, slot)))
      return;
    c.receives->pop();
  }
}

// Ends all work in order: `first` for the first request that did not succeed, `rest` for those
// behind it. What was acknowledged beyond a hole has arrived, but the peer, too, will not deliver
// it.
void end_requests(SendState& send, OpStatus first, OpStatus rest) {
  Ring<Request>& requests = send.queue.requests;
  bool is_broken = false;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Request& request = requests[i];
    const bool has_failed =
        request.state == Request::State::kFinished && request.status != OpStatus::kOk;
    if (has_failed) {
      const bool was_never_sent =
          request.sent_bytes == 0 && request.unacked_packets == 0 &&
          (request.status == OpStatus::kTimedOut || request.status == OpStatus::kFlushed);
      is_broken = is_broken || !was_never_sent;
      continue;
    }
    const bool was_delivered =
        request.state == Request::State::kFinished && request.last_psn < send.log.oldest();
    if (was_delivered && !is_broken) continue;
    request.status = is_broken ? rest : first;
    request.state = Request::State::kFinished;
    is_broken = true;
  }
}

}  // namespace

void deliver_requests(EngineContext& ctx, Connection& c) {
  if (!c.send) {
    announce_end(ctx, c);
    return;
  }
  SendQueue& queue = c.send->queue;
  while (!queue.requests.is_empty()) {
    Request& request = queue.requests.front();
    if (request.state != Request::State::kFinished) break;
    // The peer delivers it when everything before it has arrived, responses of ours included.
    if (request.status == OpStatus::kOk && request.last_psn >= c.send->log.oldest()) break;
    if (request.last_transmission > ctx.released) {  // the provider may still read the buffer
      ctx.is_release_awaited = true;
      break;
    }
    if (!request.is_unsignaled || request.status != OpStatus::kOk) {
      if (!push(ctx, c, completion_of(c, request))) {
        if (!is_over(c.phase)) report_overflow(ctx, c);
        return;
      }
    }
    ++c.counters.requests_completed;
    let_go(ctx, request);
    queue.requests.pop_front();
    while (!queue.reads.is_empty() && queue.reads.front() < queue.requests.front_serial()) {
      queue.reads.pop_front();
      ++queue.read_serial_base;
      ctx.make_ready(c);  // what waited for it, behind a fence or for room, may go
    }
    queue.next_request = std::max(queue.next_request, queue.requests.front_serial());
  }
  announce_end(ctx, c);
}

void deliver_receives(EngineContext& ctx, Connection& c) {
  if (!c.receives) return;
  if (is_over(c.phase)) {
    flush_receives(ctx, c);
    announce_end(ctx, c);
    return;
  }
  if (!c.receive) return;
  const Psn edge = c.receive->log.cumulative();
  while (!c.receives->is_empty()) {
    const ReceiveSlot& slot = c.receives->front();
    if (slot.state != ReceiveSlot::State::kArriving || !slot.has_end || slot.last_psn > edge)
      return;
    if (slot.received_bytes != slot.message_bytes) {
      fail_connection(ctx, c, OpStatus::kFlushed,
                      describe_peer(c) + " ended a message of which it had not sent every byte");
      return;
    }
    if (!deliver_slot(ctx, c, slot, OpStatus::kOk)) {
      report_overflow(ctx, c);
      return;
    }
    c.receives->pop();
  }
}

bool take_back(EngineContext& ctx, Connection& c, ReceiveSlot& slot) {
  if (!deliver_slot(ctx, c, slot, OpStatus::kTimedOut)) {
    report_overflow(ctx, c);
    return false;
  }
  c.receives->vacate(slot);
  return true;
}

void resume_blocked(EngineContext& ctx) {
  for (auto& holder : ctx.connections) {
    if (!holder || !holder->is_blocked_on_queue) continue;
    if (ctx.completions.is_full()) return;
    Connection& c = *holder;
    c.is_blocked_on_queue = false;
    --ctx.blocked_on_queue;
    deliver_receives(ctx, c);
    if (!c.is_blocked_on_queue) deliver_requests(ctx, c);
  }
}

void orphan(EngineContext& ctx, const Request& request) {
  for (const Sge& piece : request.list()) {
    ctx.memory.read_by(piece.region, request.last_transmission);
    ctx.memory.drop(piece.region);
  }
  if (request.inline_buffer == kNoInlineBuffer) return;
  if (request.last_transmission <= ctx.released) {
    ctx.free_inline.push_back(request.inline_buffer);
    return;
  }
  ctx.orphaned_inline.push_back(
      {.last_transmission = request.last_transmission, .buffer = request.inline_buffer});
  ctx.is_release_awaited = true;
}

void on_released(EngineContext& ctx, std::uint64_t released) {
  ctx.released = released;
  // Rare: every turn comes here, and there may be many connections.
  if (!ctx.is_release_awaited) return;
  ctx.is_release_awaited = false;
  std::erase_if(ctx.orphaned_inline, [&ctx](const OrphanedInline& one) {
    if (one.last_transmission > ctx.released) return false;
    ctx.free_inline.push_back(one.buffer);
    return true;
  });
  std::erase_if(ctx.orphaned_hellos,
                [&ctx](const OrphanedHello& one) { return one.last_transmission <= ctx.released; });
  if (!ctx.orphaned_inline.empty() || !ctx.orphaned_hellos.empty()) ctx.is_release_awaited = true;
  for (auto& holder : ctx.connections)
    if (holder && holder->send && !holder->send->queue.requests.is_empty())
      deliver_requests(ctx, *holder);
}

void fail_connection(EngineContext& ctx, Connection& c, OpStatus status, std::string sentence) {
  if (is_over(c.phase)) return;
  c.error = std::move(sentence);
  ++ctx.counters.connections_failed;
  if (c.send)
    end_requests(*c.send, status, status == OpStatus::kPeerGone ? status : OpStatus::kFlushed);
  end_connection(ctx, c, Phase::kFailed);
}

void end_connection(EngineContext& ctx, Connection& c, Phase phase) {
  if (is_over(c.phase)) return;
  if (c.phase == Phase::kRequested || c.phase == Phase::kAccepting) --ctx.half_open;
  if (carries_data(c.phase)) --ctx.open_connections;
  c.phase = phase;
  ctx.trace_phase(c);
  if (c.send) end_requests(*c.send, OpStatus::kFlushed, OpStatus::kFlushed);
  ctx.timers.arm(c.index, kNever);
  deliver_receives(ctx, c);
  deliver_requests(ctx, c);
}

}  // namespace spindrift
