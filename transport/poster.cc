#include "transport/poster.h"

#include <algorithm>

#include "transport/work_check.h"

namespace spindrift {
namespace {

void note_deadline(EngineContext& ctx, Connection& c, Time deadline) {
  if (deadline >= c.earliest_deadline) return;
  c.earliest_deadline = deadline;
  ctx.arm(c, deadline);
}

PostStatus post_receive(EngineContext& ctx, Connection& c, const WorkRequest& work, Time now) {
  if (c.receives->is_shared())
    return refuse_work(c.error,
                       "this connection takes its RECEIVEs from a shared queue: post_shared()");
  ListFacts facts;
  const PostStatus status = check_receive(ctx.memory, work, c.error, facts);
  if (status != PostStatus::kOk) return status;
  if (!c.receives->has_room()) return PostStatus::kQueueFull;
  PostedReceive& receive = c.receives->post();
  fill_receive(receive, work, facts);
  receive.deadline = deadline_of(c.options, work, now);
  hold_all(ctx.memory, work.local);
  note_deadline(ctx, c, receive.deadline);
  if (!c.receive) return PostStatus::kOk;
  // The peer spends credits as it starts messages; when all it knows of are spent it may be
  // waiting.
  const auto consumed = static_cast<std::uint32_t>(c.receives->consumed());
  const auto known_left = static_cast<std::int32_t>(c.receive->ack.told_credits - consumed);
  if (known_left <= static_cast<std::int32_t>(c.receives->size() / 2)) {
    c.receive->ack.owes_update = true;
    ctx.make_ready(c);
  }
  return PostStatus::kOk;
}

void copy_inline(EngineContext& ctx, Request& request, std::span<const Sge> list) {
  request.inline_buffer = ctx.free_inline.back();
  ctx.free_inline.pop_back();
  gather_inline(list, ctx.inline_bytes.data() + request.inline_buffer * kMaxInlineBytes);
}

PostStatus post_request(EngineContext& ctx, Connection& c, const WorkRequest& work, Time now) {
  if (c.phase != Phase::kOpen || !c.send) return PostStatus::kNotConnected;
  ListFacts facts;
  const PostStatus status = check_request(ctx.memory, work, c.error, facts);
  if (status != PostStatus::kOk) return status;
  SendQueue& queue = c.send->queue;
  if (queue.requests.is_full() || (work.is_inline && ctx.free_inline.empty()))
    return PostStatus::kQueueFull;
  if (queue.requests.is_empty()) c.waiting_since = now;
  Request& request = queue.requests.push_back();
  request = Request{};
  request.user_data = work.user_data;
  request.kind = work.kind;
  request.is_unsignaled = work.is_unsignaled;
  request.has_fence = work.has_fence;
  request.remote_key = work.remote_key;
  request.remote_offset = work.remote_offset;
  request.operand = work.operand;
  request.compare = work.compare;
  request.immediate = work.immediate;
  request.deadline = deadline_of(c.options, work, now);
  request.length = static_cast<std::uint32_t>(facts.bytes);
  if (work.is_inline) {
    copy_inline(ctx, request, work.local);
  } else {
    request.sge_count = static_cast<std::uint8_t>(work.local.size());
    request.line_ordered = facts.line_ordered;
    std::copy(work.local.begin(), work.local.end(), request.sge.begin());
    hold_all(ctx.memory, work.local);
  }
  note_deadline(ctx, c, request.deadline);
  ctx.make_ready(c);
  return PostStatus::kOk;
}

}  // namespace

PostResult post_work(EngineContext& ctx, std::span<const WorkRequest> work, Time now) {
  PostResult result;
  for (const WorkRequest& one : work) {
    Connection* c = ctx.find(one.conn);
    if (c == nullptr) {
      ctx.last_error = "post: no such connection (released, or an id of another endpoint)";
      result.status = PostStatus::kNotConnected;
      return result;
    }
    if (one.kind == OpKind::kReceive)
      result.status = c->phase == Phase::kClosing || c->phase == Phase::kClosed ||
                              c->phase == Phase::kFailed || c->phase == Phase::kDraining
                          ? PostStatus::kNotConnected
                          : post_receive(ctx, *c, one, now);
    else
      result.status = post_request(ctx, *c, one, now);
    if (result.status != PostStatus::kOk) return result;
    ++result.accepted;
  }
  return result;
}

PostResult post_shared_receives(EngineContext& ctx, SharedReceiveQueue& queue,
                                std::span<const WorkRequest> receives) {
  PostResult result;
  for (const WorkRequest& one : receives) {
    ListFacts facts;
    result.status = check_shared_receive(ctx.memory, one, ctx.last_error, facts);
    if (result.status != PostStatus::kOk) return result;
    if (queue.posted.is_full()) {
      result.status = PostStatus::kQueueFull;
      break;
    }
    PostedReceive& receive = queue.posted.push_back();
    receive = PostedReceive{};
    receive.is_shared = true;
    fill_receive(receive, one, facts);
    hold_all(ctx.memory, one.local);
    ++result.accepted;
  }
  // Any connection of the queue may have a peer that waits for credits.
  for (auto& holder : ctx.connections) {
    if (!holder || !holder->receive || !holder->receives || !holder->receives->is_shared())
      continue;
    AckState& ack = holder->receive->ack;
    if (ack.told_credits == static_cast<std::uint32_t>(holder->receives->consumed()) ||
        ack.told_credits < holder->receives->credits()) {
      ack.owes_update = true;
      ctx.make_ready(*holder);
    }
  }
  return result;
}

}  // namespace spindrift
