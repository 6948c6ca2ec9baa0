#include "transport/message/message_poster.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "transport/message/message_receiver.h"
#include "transport/message/message_sender.h"
#include "transport/message/message_timers.h"
#include "transport/work_check.h"

namespace spindrift {
namespace {

// Only work with a deadline needs to know the time.
Time deadline_at_post(MessageContext& ctx, const MessageConnection& c, const WorkRequest& work) {
  if (work.timeout == Duration{} && c.options.default_timeout == Duration{}) return kNever;
  ctx.now = ctx.fabric.now();
  return deadline_of(c.options, work, ctx.now);
}

// Whether the peer knows of no more than half of the RECEIVEs that it may still use. It hears of
// the others with the next record, or when one of its messages has come.
bool owes_credits(const MessageConnection& c) {
  const auto has = static_cast<std::int32_t>(c.receives->credits() - c.next_message);
  const auto knows = static_cast<std::int32_t>(c.told_credits - c.next_message);
  return 2 * knows <= has;
}

PostStatus post_receive(MessageContext& ctx, MessageConnection& c, const WorkRequest& work) {
  if (c.receives->is_shared())
    return refuse_work(c.error,
                       "this connection takes its RECEIVEs from a shared queue: post_shared()");
  ListFacts facts;
  const PostStatus status = check_receive(ctx.memory, work, c.error, facts);
  if (status != PostStatus::kOk) return status;
  if (!c.receives->has_room()) return PostStatus::kQueueFull;
  PostedReceive& receive = c.receives->post();
  fill_receive(receive, work, facts);
  receive.deadline = deadline_at_post(ctx, c, work);
  hold_all(ctx.memory, work.local);
  note_deadline(ctx, c, receive.deadline);
  if (!carries_data(c.phase)) return PostStatus::kOk;
  if (c.shows.invitations != c.shows.refusals) invite(ctx, c);
  if (!owes_credits(c)) return PostStatus::kOk;
  c.owes_bulletin = true;
  ctx.make_ready(c);
  return PostStatus::kOk;
}

// Processors copy nothing from or to a device's memory: one side has to read from the other.
bool is_of_device(const WorkRequest& work, const ListFacts& facts) {
  const bool writes = work.kind == OpKind::kWrite || work.kind == OpKind::kWriteImm;
  return facts.bytes != 0 &&
         (facts.has_device || (writes && (work.remote_key & MemoryTable::kDeviceBit) != 0));
}

PostStatus check_device(MessageConnection& c, const WorkRequest& work) {
  if (work.is_inline)
    return refuse_work(c.error, "inline data cannot go to device memory: register the memory");
  const bool is_read = work.kind == OpKind::kRead;
  if (is_read ? c.fetching.has_value() : c.may_offer) return PostStatus::kOk;
  return refuse_work(
      c.error, absl::StrCat(std::string(to_string(work.kind)), " with device memory: ",
                            is_read ? "this side cannot read from the peer"
                                    : "the peer cannot read from this side",
                            c.has_crc ? ", because messages are checked by CRC; set crc=off" : ""));
}

PostStatus post_request(MessageContext& ctx, MessageConnection& c, const WorkRequest& work) {
  if (c.phase != Phase::kOpen) return PostStatus::kNotConnected;
  ListFacts facts;
  const PostStatus status = check_request(ctx.memory, work, c.error, facts);
  if (status != PostStatus::kOk) return status;
  const bool touches_device = is_of_device(work, facts);
  if (touches_device)
    if (const PostStatus fit = check_device(c, work); fit != PostStatus::kOk) return fit;
  if (c.requests->is_full() || (work.is_inline && ctx.free_inline.empty()))
    return PostStatus::kQueueFull;
  MessageRequest& request = c.requests->push_back();
  request.user_data = work.user_data;
  request.remote_key = work.remote_key;
  request.remote_offset = work.remote_offset;
  request.operand = work.operand;
  request.compare = work.compare;
  request.deadline = deadline_at_post(ctx, c, work);
  request.length = static_cast<std::uint32_t>(facts.bytes);
  request.sent_bytes = 0;
  request.answered_bytes = 0;
  request.number = 0;
  request.last_number = 0;
  request.immediate = work.immediate;
  request.inline_buffer = kNoInlineBuffer;
  request.line_ordered = facts.line_ordered;
  request.kind = work.kind;
  request.status = OpStatus::kOk;
  request.state = MessageRequest::State::kQueued;
  request.sge_count = 0;
  request.is_unsignaled = work.is_unsignaled;
  request.has_fence = work.has_fence;
  request.is_answered = false;
  request.is_being_fetched = false;
  request.is_of_device = touches_device;
  if (work.is_inline) {
    request.inline_buffer = ctx.free_inline.back();
    ctx.free_inline.pop_back();
    gather_inline(work.local,
                  ctx.inline_bytes.data() + std::size_t{request.inline_buffer} * kMaxInlineBytes);
  } else {
    request.sge_count = static_cast<std::uint8_t>(work.local.size());
    std::copy(work.local.begin(), work.local.end(), request.sge.begin());
    hold_all(ctx.memory, work.local);
  }
  note_deadline(ctx, c, request.deadline);
  return PostStatus::kOk;
}

bool takes_receives(const MessageConnection& c) {
  return !is_over(c.phase) && c.phase != Phase::kDraining && c.phase != Phase::kClosing;
}

// Work that was accepted leaves at once.
void send_posted(MessageContext& ctx, MessageConnection& c) {
  send_requests(ctx, c);
  flush_hopeless(ctx, c);
  if (c.next_silence_check == kNever && c.acked != c.begun) {
    ctx.now = ctx.fabric.now();
    watch_silence(ctx, c);
  }
}

}  // namespace

PostResult post_work(MessageContext& ctx, std::span<const WorkRequest> work) {
  PostResult result;
  MessageConnection* sending = nullptr;
  for (const WorkRequest& one : work) {
    MessageConnection* c =
        sending != nullptr && sending->id == one.conn ? sending : ctx.find(one.conn);
    if (c == nullptr) {
      ctx.last_error = "post: no such connection (released, or an id of another endpoint)";
      result.status = PostStatus::kNotConnected;
      break;
    }
    if (one.kind == OpKind::kReceive) {
      result.status = takes_receives(*c) ? post_receive(ctx, *c, one) : PostStatus::kNotConnected;
    } else {
      if (sending != nullptr && sending != c) send_posted(ctx, *sending);
      sending = c;
      result.status = post_request(ctx, *c, one);
    }
    if (result.status != PostStatus::kOk) break;
    ++result.accepted;
  }
  if (sending != nullptr && carries_data(sending->phase)) send_posted(ctx, *sending);
  return result;
}

PostResult post_shared_receives(MessageContext& ctx, SharedReceiveQueue& queue,
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
    if (!holder || !holder->receives || !holder->receives->is_shared() ||
        !carries_data(holder->phase))
      continue;
    invite(ctx, *holder);
    holder->owes_bulletin = true;
    ctx.make_ready(*holder);
  }
  return result;
}

}  // namespace spindrift
