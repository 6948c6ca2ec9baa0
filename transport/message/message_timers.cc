#include "transport/message/message_timers.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "transport/describe.h"
#include "transport/message/message_completions.h"
#include "transport/message/message_handshake.h"
#include "transport/message/message_lanes.h"
#include "transport/message/message_reads.h"
#include "transport/message/message_sender.h"

namespace spindrift {
namespace {

constexpr int kLooksPerSilence = 4;

Duration silence_limit(const MessageConnection& c) {
  return c.peer_progresses_alone ? c.options.silence_limit : c.options.silence_limit_passive;
}

Duration look_interval(const MessageConnection& c) {
  return std::min(c.options.silence_limit, c.options.silence_limit_passive) / kLooksPerSilence;
}

// By an operator, at either end: then nothing is expected.
bool is_every_lane_denied(const MessageConnection& c) {
  for (std::uint32_t i = 0; i < c.paths->size(); ++i)
    if (c.paths->state(PathId{static_cast<std::uint16_t>(i)}) != PathState::kDenied &&
        !c.fetching->lanes[i].is_denied_by_peer)
      return false;
  return true;
}

bool is_unsent(const MessageRequest& request) {
  return request.state == MessageRequest::State::kQueued;
}

// False: the connection failed.
bool check_request_deadlines(MessageContext& ctx, MessageConnection& c, Time& earliest) {
  for (std::size_t i = 0; c.requests && i < c.requests->size(); ++i) {
    MessageRequest& request = (*c.requests)[i];
    if (request.state == MessageRequest::State::kFinished) continue;
    if (request.deadline > ctx.now) {
      earliest = std::min(earliest, request.deadline);
      continue;
    }
    const bool is_alone = is_unsent(request);
    request.state = MessageRequest::State::kFinished;
    request.status = OpStatus::kTimedOut;
    if (is_alone) continue;
    fail_connection(ctx, c, OpStatus::kFlushed,
                    absl::StrCat("the deadline of a ", std::string(to_string(request.kind)),
                                 " passed while it was under way to ", describe_peer(ctx, c),
                                 describe_lanes(ctx, c)));
    return false;
  }
  deliver_requests(ctx, c);
  if (is_over(c.phase)) return false;
  if (c.requests) ctx.make_ready(c);  // what stood behind them may go
  return true;
}

bool check_receive_deadlines(MessageContext& ctx, MessageConnection& c, Time& earliest) {
  for (std::size_t i = 0; c.receives && i < c.receives->size(); ++i) {
    ReceiveSlot& slot = c.receives->at(i);
    if (slot.state != ReceiveSlot::State::kPosted) continue;
    if (slot.posted.deadline > ctx.now)
      earliest = std::min(earliest, slot.posted.deadline);
    else if (!take_back(ctx, c, slot))
      return false;
  }
  return true;
}

void check_deadlines(MessageContext& ctx, MessageConnection& c) {
  if (c.earliest_deadline > ctx.now) return;
  c.earliest_deadline = kNever;
  Time earliest = kNever;
  if (check_request_deadlines(ctx, c, earliest) && check_receive_deadlines(ctx, c, earliest))
    c.earliest_deadline = earliest;
}

// Bytes that were offered and do not come. Where every lane is down, no guardian of the peer's can
// help. True: the connection failed.
bool check_fetching(MessageContext& ctx, MessageConnection& c) {
  if (!is_fetching(c)) return false;
  if (is_every_lane_denied(c)) c.fetching->came = ctx.now;
  const Duration limit = c.paths->usable() == 0 ? c.options.silence_limit : silence_limit(c);
  if (ctx.now - c.fetching->came < limit) return false;
  fail_connection(ctx, c, OpStatus::kPeerGone,
                  absl::StrCat("nothing of what ", describe_peer(ctx, c), " offered has come for ",
                               format_duration(ctx.now - c.fetching->came), ", ",
                               c.fetching->posted, " reads under way", describe_lanes(ctx, c)));
  return true;
}

// Only while something of ours is under way: a peer that has nothing to do may be silent.
void check_silence(MessageContext& ctx, MessageConnection& c) {
  if (c.next_silence_check > ctx.now) return;
  c.next_silence_check = kNever;
  if (check_fetching(ctx, c)) return;
  const bool is_waiting = c.acked != c.begun || c.reads_waiting != 0;
  if (!is_waiting && !is_fetching(c)) return;
  if (!is_waiting) {
    c.heard_since = ctx.now;
  } else if (c.heard != c.heard_before) {
    c.heard_before = c.heard;
    c.heard_since = ctx.now;
  } else if (ctx.now - c.heard_since >= silence_limit(c)) {
    fail_connection(
        ctx, c, OpStatus::kPeerGone,
        absl::StrCat(describe_peer(ctx, c), " is silent: last heard ",
                     format_duration(ctx.now - c.heard_since), " ago, ", c.begun - c.acked,
                     " messages under way. Its process exists, but is stopped or does "
                     "not call progress(); a guardian there would",
                     describe_lanes(ctx, c)));
    return;
  }
  c.next_silence_check = ctx.now + look_interval(c);
}

void check_opening(MessageContext& ctx, MessageConnection& c) {
  if (c.gives_up > ctx.now || carries_data(c.phase) || is_over(c.phase)) return;
  const bool is_ours = c.phase == Phase::kConnecting;
  fail_connection(ctx, c, OpStatus::kPeerGone,
                  absl::StrCat(describe_peer(ctx, c),
                               is_ours ? " did not accept the connection within "
                                       : " did not confirm the connection within ",
                               format_duration(c.options.connect_timeout)));
}

void check_close(MessageContext& ctx, MessageConnection& c) {
  if (c.phase != Phase::kClosing || c.close_gives_up > ctx.now) return;
  c.error = absl::StrCat(describe_peer(ctx, c), " did not answer the farewell; closed without it");
  end_connection(ctx, c, Phase::kClosed, Bulletin::kClosed);
}

Time next_timer(const MessageConnection& c) {
  Time next = std::min(c.earliest_deadline, c.next_silence_check);
  if (c.phase == Phase::kConnecting || c.phase == Phase::kAccepting)
    next = std::min(next, c.gives_up);
  if (c.phase == Phase::kClosing) next = std::min(next, c.close_gives_up);
  if (c.fetching) next = std::min(next, c.fetching->timer);
  return next;
}

}  // namespace

void note_deadline(MessageContext& ctx, MessageConnection& c, Time deadline) {
  if (deadline >= c.earliest_deadline) return;
  c.earliest_deadline = deadline;
  ctx.arm(c, deadline);
}

void watch_silence(MessageContext& ctx, MessageConnection& c) {
  if (c.next_silence_check != kNever) return;
  c.heard_before = c.heard;
  c.heard_since = ctx.now;
  c.next_silence_check = ctx.now + look_interval(c);
  ctx.arm(c, c.next_silence_check);
}

void flush_hopeless(MessageContext& ctx, MessageConnection& c) {
  if ((c.peer_shows.flags & Bulletin::kClosing) == 0 || !carries_data(c.phase)) return;
  std::uint32_t count = 0;
  for (std::uint64_t i = c.next_request; i < c.requests->end_serial(); ++i) {
    MessageRequest& request = c.requests->at_serial(i);
    if (!is_hopeless(c, request)) continue;
    request.state = MessageRequest::State::kFinished;
    request.status = OpStatus::kFlushed;
    ++count;
  }
  if (count == 0) return;
  c.has_flushed_messages = true;
  c.error = absl::StrCat(describe_peer(ctx, c), " has closed and posts no more RECEIVEs: ", count,
                         " operations that need one were flushed");
  deliver_requests(ctx, c);
  ctx.make_ready(c);  // what stood behind them may go
}

void run_timers(MessageContext& ctx) {
  std::uint32_t index = 0;
  while (ctx.timers.take_due(ctx.now, index)) {
    MessageConnection* c = ctx.connections[index].get();
    if (c == nullptr) continue;
    check_opening(ctx, *c);
    if (!is_over(c->phase)) check_deadlines(ctx, *c);
    if (carries_data(c->phase)) check_silence(ctx, *c);
    if (carries_data(c->phase)) run_fetch_timer(ctx, *c);
    if (!is_over(c->phase)) check_close(ctx, *c);
    if (!is_over(c->phase)) ctx.arm(*c, next_timer(*c));
  }
}

}  // namespace spindrift
