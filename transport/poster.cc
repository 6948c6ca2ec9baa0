#include "transport/poster.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/placement.h"

namespace spindrift {
namespace {

PostStatus refuse(std::string& error, std::string sentence) {
  error = std::move(sentence);
  return PostStatus::kInvalid;
}

std::string name_of(OpKind kind) {
  return std::string(to_string(kind));
}

// What a scatter/gather list comes to.
struct ListFacts {
  std::uint64_t bytes = 0;
  std::uint32_t line_ordered = 0;  // bit per piece
};

PostStatus refuse_piece(const WorkRequest& work, std::size_t piece, bool needs_write,
                        std::string& error) {
  return refuse(error, absl::StrCat(name_of(work.kind), ": scatter/gather entry ", piece, " (",
                                    work.local[piece].bytes,
                                    " bytes) does not lie in the region its key "
                                    "names, the region is gone",
                                    needs_write ? ", or it does not grant kLocalWrite" : ""));
}

// What holds for every kind: the scatter/gather list.
PostStatus check_list(const EngineContext& ctx, const WorkRequest& work, bool needs_write,
                      std::string& error, ListFacts& facts) {
  if (work.local.size() > kMaxSge)
    return refuse(error, absl::StrCat(name_of(work.kind), " with ", work.local.size(),
                                      " scatter/gather entries; at most ", kMaxSge));
  for (std::size_t i = 0; i < work.local.size(); ++i) {
    facts.bytes += work.local[i].bytes;
    if (work.is_inline) continue;
    const MemoryTable::Cover cover = ctx.memory.cover(work.local[i], needs_write);
    if (!cover.is_whole) return refuse_piece(work, i, needs_write, error);
    if (cover.is_line_ordered) facts.line_ordered |= 1U << i;
  }
  if (work.is_inline && facts.bytes > kMaxInlineBytes)
    return refuse(
        error, absl::StrCat("inline ", name_of(work.kind), " of ", facts.bytes, " bytes; at most ",
                            kMaxInlineBytes, ": register the memory instead"));
  if (facts.bytes > kMaxMessageBytes)
    return refuse(error, absl::StrCat(name_of(work.kind), " of ", facts.bytes, " bytes; at most ",
                                      kMaxMessageBytes, " (2^31) per message"));
  return PostStatus::kOk;
}

PostStatus check_request(const EngineContext& ctx, const WorkRequest& work, std::string& error,
                         ListFacts& facts) {
  const bool is_atomic = work.kind == OpKind::kFetchAdd || work.kind == OpKind::kCompareSwap;
  const bool writes_locally = is_atomic || work.kind == OpKind::kRead;
  if (work.is_inline && writes_locally)
    return refuse(error, absl::StrCat(name_of(work.kind),
                                      " cannot be inline: its result needs registered memory"));
  const PostStatus status = check_list(ctx, work, writes_locally, error, facts);
  if (status != PostStatus::kOk) return status;
  if (is_atomic && (work.local.size() != 1 || work.local[0].bytes != 8))
    return refuse(error, absl::StrCat(name_of(work.kind),
                                      " needs one local entry of 8 bytes for the old value"));
  if (work.timeout < Duration{})
    return refuse(error, absl::StrCat(name_of(work.kind), ": the timeout is negative"));
  return PostStatus::kOk;
}

void hold_all(EngineContext& ctx, std::span<const Sge> list) {
  for (const Sge& piece : list)
    ctx.memory.hold(piece.region);
}

Time deadline_of(const Connection& c, const WorkRequest& work, Time now) {
  const Duration timeout = work.timeout != Duration{} ? work.timeout : c.options.default_timeout;
  if (timeout == Duration{} || timeout > kNever - now) return kNever;
  return now + timeout;
}

void note_deadline(EngineContext& ctx, Connection& c, Time deadline) {
  if (deadline >= c.earliest_deadline) return;
  c.earliest_deadline = deadline;
  ctx.arm(c, deadline);
}

// `receive` is as new.
void fill(PostedReceive& receive, const WorkRequest& work, const ListFacts& facts) {
  receive.user_data = work.user_data;
  receive.capacity_bytes = facts.bytes;
  receive.line_ordered = facts.line_ordered;
  receive.sge_count = static_cast<std::uint8_t>(work.local.size());
  std::copy(work.local.begin(), work.local.end(), receive.sge.begin());
}

PostStatus post_receive(EngineContext& ctx, Connection& c, const WorkRequest& work, Time now) {
  if (c.receives->is_shared())
    return refuse(c.error, "this connection takes its RECEIVEs from a shared queue: post_shared()");
  if (work.is_inline) return refuse(c.error, "a RECEIVE cannot be inline");
  ListFacts facts;
  const PostStatus status = check_list(ctx, work, true, c.error, facts);
  if (status != PostStatus::kOk) return status;
  if (!c.receives->has_room()) return PostStatus::kQueueFull;
  PostedReceive& receive = c.receives->post();
  fill(receive, work, facts);
  receive.deadline = deadline_of(c, work, now);
  hold_all(ctx, work.local);
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
  std::byte* to = ctx.inline_bytes.data() + request.inline_buffer * kMaxInlineBytes;
  for (const Sge& piece : list) {
    if (piece.bytes == 0) continue;
    std::memcpy(to, piece.data, piece.bytes);
    to += piece.bytes;
  }
}

PostStatus post_request(EngineContext& ctx, Connection& c, const WorkRequest& work, Time now) {
  if (c.phase != Phase::kOpen || !c.send) return PostStatus::kNotConnected;
  ListFacts facts;
  const PostStatus status = check_request(ctx, work, c.error, facts);
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
  request.deadline = deadline_of(c, work, now);
  request.length = static_cast<std::uint32_t>(facts.bytes);
  if (work.is_inline) {
    copy_inline(ctx, request, work.local);
  } else {
    request.sge_count = static_cast<std::uint8_t>(work.local.size());
    request.line_ordered = facts.line_ordered;
    std::copy(work.local.begin(), work.local.end(), request.sge.begin());
    hold_all(ctx, work.local);
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
    if (one.kind != OpKind::kReceive || one.is_inline || one.timeout != Duration{}) {
      result.status = refuse(ctx.last_error,
                             "a shared receive queue takes RECEIVEs only, without inline and "
                             "without timeout (nobody waits for a particular one)");
      return result;
    }
    ListFacts facts;
    result.status = check_list(ctx, one, true, ctx.last_error, facts);
    if (result.status != PostStatus::kOk) return result;
    if (queue.posted.is_full()) {
      result.status = PostStatus::kQueueFull;
      break;
    }
    PostedReceive& receive = queue.posted.push_back();
    receive = PostedReceive{};
    receive.is_shared = true;
    fill(receive, one, facts);
    hold_all(ctx, one.local);
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
