#include "transport/message/message_receiver.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "transport/message/message_completions.h"
#include "transport/message/message_fetch.h"
#include "transport/message/message_sender.h"
#include "transport/placement.h"

namespace spindrift {
namespace {

constexpr std::uint32_t kAtomicBytes = 8;

void fail_on_nonsense(MessageContext& ctx, MessageConnection& c, std::string_view what) {
  ++c.counters.malformed_received;
  fail_connection(
      ctx, c, OpStatus::kPeerGone,
      absl::StrCat(describe_peer(ctx, c), " sent what no honest peer sends: ", std::string(what)));
}

// The message met no RECEIVE: the peer starts again from there once it is invited.
void turn_away(MessageContext& ctx, MessageConnection& c) {
  ++c.counters.receiver_not_ready;
  ++c.shows.refusals;
  c.shows.refused_number = c.executed;
  show(ctx, c);
}

// A message that begins: false when it may not.
bool begin_message(MessageContext& ctx, MessageConnection& c, const Record& record) {
  const bool needs_receive = record.kind != RecordKind::kWrite;
  IncomingMessage& in = c.incoming;
  if (record.length > kMaxMessageBytes) {
    fail_on_nonsense(ctx, c, "a message longer than any may be");
    return false;
  }
  ReceiveSlot* slot = nullptr;
  if (needs_receive) {
    slot = c.receives->find(c.next_message);
    if (slot == nullptr) {
      turn_away(ctx, c);
      return false;
    }
  }
  in = {.kind = record.kind,
        .is_open = true,
        .length = record.length,
        .received = 0,
        .key = record.key,
        .offset = record.offset};
  if (slot != nullptr) {
    slot->state = ReceiveSlot::State::kArriving;
    slot->message_bytes = record.length;
    slot->is_write = record.kind == RecordKind::kWriteImm;
    slot->immediate = record.immediate;
    if (!slot->is_write && record.length > slot->posted.capacity_bytes) {
      refuse_at(ctx, c, OpStatus::kRemoteLength);
      return false;
    }
  }
  return true;
}

// Some bytes of the message at hand: in the record itself, or offered.
void take_chunk(MessageContext& ctx, MessageConnection& c, const Record& record,
                const FabricCompletion& message) {
  IncomingMessage& in = c.incoming;
  const bool is_offered = (record.flags & kRecordIsOffered) != 0;
  Offer offer;
  if (is_offered && !read_offer(message.payload, offer)) {
    fail_on_nonsense(ctx, c, "an offer that is none");
    return;
  }
  const std::uint64_t bytes = is_offered ? offer.bytes : message.payload.size();
  if (bytes > in.length - in.received || (bytes == 0 && in.length != 0)) {
    fail_on_nonsense(ctx, c, "more bytes than the message has");
    return;
  }
  if (is_offered) {
    start_fetch(ctx, c, offer, message, false);
    return;
  }
  const OpStatus status = find_landing(ctx, c, in.received, bytes);
  if (status != OpStatus::kOk) {
    refuse_at(ctx, c, status);
    return;
  }
  scatter(ctx.landing.list(), 0, message.payload, ctx.landing.line_ordered);
  finish_chunk(ctx, c, static_cast<std::uint32_t>(bytes));
}

void queue_response(MessageContext& ctx, MessageConnection& c, const MessageResponse& response) {
  c.responses->push_back(response);
  ++c.executed;
  c.owes_bulletin = true;
  ctx.make_ready(c);
}

void take_read(MessageContext& ctx, MessageConnection& c, const Record& record) {
  if (c.responses->is_full() || record.length > kMaxMessageBytes) {
    fail_on_nonsense(ctx, c, "more READs or atomics at once than was agreed");
    return;
  }
  const MemoryTable::Target target =
      ctx.memory.find(record.key, record.offset, record.length, Access::kRemoteRead);
  if (target.code != wire::ReturnCode::kOk) {
    refuse_at(ctx, c, status_of(target.code));
    return;
  }
  queue_response(
      ctx, c,
      {.key = record.key, .offset = record.offset, .number = c.executed, .length = record.length});
}

void take_atomic(MessageContext& ctx, MessageConnection& c, const Record& record,
                 std::span<const std::byte> payload) {
  if (c.responses->is_full()) {
    fail_on_nonsense(ctx, c, "more READs or atomics at once than was agreed");
    return;
  }
  const MemoryTable::Target target =
      ctx.memory.find(record.key, record.offset, kAtomicBytes, Access::kRemoteAtomic);
  OpStatus status = status_of(target.code);
  if (status == OpStatus::kOk && reinterpret_cast<std::uintptr_t>(target.data) % kAtomicBytes != 0)
    status = OpStatus::kRemoteAlignment;
  if (status != OpStatus::kOk) {
    refuse_at(ctx, c, status);
    return;
  }
  std::atomic_ref<std::uint64_t> cell(*reinterpret_cast<std::uint64_t*>(target.data));
  std::uint64_t old = 0;
  if (record.kind == RecordKind::kFetchAdd) {
    old = cell.fetch_add(record.operand);
  } else {
    if (payload.size() != kAtomicBytes) {
      fail_on_nonsense(ctx, c, "a COMPARE_SWAP without a value to compare with");
      return;
    }
    std::memcpy(&old, payload.data(), kAtomicBytes);
    cell.compare_exchange_strong(old, record.operand);
  }
  queue_response(ctx, c,
                 {.result = old, .number = c.executed, .length = kAtomicBytes, .is_atomic = true});
}

void take_request(MessageContext& ctx, MessageConnection& c, const Record& record,
                  const FabricCompletion& message) {
  // Sent before the peer heard that one of its messages met no RECEIVE, or refused one before.
  if (record.epoch != c.shows.refusals || c.pending_fault != OpStatus::kOk) return;
  if ((record.kind == RecordKind::kMore) != c.incoming.is_open) {
    fail_on_nonsense(ctx, c, "a message that begins in the middle of another");
    return;
  }
  ++c.counters.packets_received;
  switch (record.kind) {
    case RecordKind::kSend:
    case RecordKind::kWrite:
    case RecordKind::kWriteImm:
      if (!begin_message(ctx, c, record)) return;
      [[fallthrough]];
    case RecordKind::kMore:
      take_chunk(ctx, c, record, message);
      return;
    case RecordKind::kRead:
      take_read(ctx, c, record);
      return;
    default:
      take_atomic(ctx, c, record, message.payload);
      return;
  }
}

// The oldest READ or atomic that waits for its answer; null: none.
MessageRequest* oldest_read(MessageConnection& c) {
  if (c.reads_waiting == 0) return nullptr;
  c.oldest_read = std::max(c.oldest_read, c.requests->front_serial());
  for (; c.oldest_read < c.requests->end_serial(); ++c.oldest_read) {
    MessageRequest& request = c.requests->at_serial(c.oldest_read);
    const bool is_under_way = request.state == MessageRequest::State::kSent;
    if (request.wants_response() && is_under_way && !request.is_answered) return &request;
    if (request.state == MessageRequest::State::kQueued) return nullptr;
  }
  return nullptr;
}

void take_response(MessageContext& ctx, MessageConnection& c, const Record& record,
                   const FabricCompletion& message) {
  if (record.kind == RecordKind::kReadDone) {
    if (c.responses->is_empty() || !c.responses->front().is_offered) {
      fail_on_nonsense(ctx, c, "thanks for an offer that was not made");
      return;
    }
    c.responses->pop_front();
    while (!c.responses->is_empty() && c.responses->front_serial() < c.next_response &&
           !c.responses->front().is_offered)
      c.responses->pop_front();
    ctx.make_ready(c);
    return;
  }
  MessageRequest* request = oldest_read(c);
  if (request == nullptr || request->number != record.immediate ||
      (request->kind == OpKind::kRead) == (record.kind == RecordKind::kAtomicResult)) {
    fail_on_nonsense(ctx, c, "an answer to what was not asked");
    return;
  }
  ++c.counters.packets_received;
  if (record.kind == RecordKind::kAtomicResult) {
    std::memcpy(request->sge[0].data, &record.operand, kAtomicBytes);
    request->answered_bytes = kAtomicBytes;
    finish_read(ctx, c, *request);
    return;
  }
  if (record.kind == RecordKind::kReadOffer) {
    Offer offer;
    if (!read_offer(message.payload, offer) || request->answered_bytes != 0 ||
        offer.bytes != request->length) {
      fail_on_nonsense(ctx, c, "an offer of another length than the READ");
      return;
    }
    start_fetch(ctx, c, offer, message, true);
    return;
  }
  const std::size_t bytes = message.payload.size();
  if (bytes > request->length - request->answered_bytes || (bytes == 0 && request->length != 0)) {
    fail_on_nonsense(ctx, c, "more bytes than the READ asked for");
    return;
  }
  scatter(request->list(), request->answered_bytes, message.payload, request->line_ordered);
  request->answered_bytes += static_cast<std::uint32_t>(bytes);
  c.counters.bytes_received += bytes;
  if (request->answered_bytes == request->length) finish_read(ctx, c, *request);
}

bool is_damaged(MessageContext& ctx, MessageConnection& c, const Record& record,
                std::span<const std::byte> payload) {
  if (!c.has_crc) return false;
  const Sge piece{.data = const_cast<std::byte*>(payload.data()),
                  .bytes = static_cast<std::uint32_t>(payload.size())};
  if (record_crc(record, {&piece, 1}) == record.crc) return false;
  ++c.counters.crc_errors;
  fail_connection(ctx, c, OpStatus::kPeerGone,
                  absl::StrCat("a message of ", describe_peer(ctx, c),
                               " was damaged on its way (CRC); this medium loses and repeats "
                               "nothing, so the connection ends"));
  return true;
}

void take_message(MessageContext& ctx, MessageConnection& c, const FabricCompletion& message) {
  Record record;
  std::memcpy(&record, message.header.data(), sizeof(record));
  const bool is_known = record.kind >= RecordKind::kSend && record.kind <= RecordKind::kReadDone;
  if (!is_known) {
    fail_on_nonsense(ctx, c, "a record of an unknown kind");
    return;
  }
  if (c.ignores_rest || is_damaged(ctx, c, record, message.payload)) return;
  on_told(ctx, c, record.done, record.credits);
  if (is_over(c.phase)) return;
  ctx.turn_bytes += message.payload.size();
  if (is_request(record.kind))
    take_request(ctx, c, record, message);
  else
    take_response(ctx, c, record, message);
}

// What came while bytes were being fetched, until the next fetch.
void take_deferred(MessageContext& ctx, MessageConnection& c) {
  while (!c.fetch.is_active && !c.deferred->is_empty()) {
    const FabricCompletion message = c.deferred->front();
    c.deferred->pop_front();
    take_message(ctx, c, message);
    if (!c.has_peer) return;
    if (!c.fetch.is_active) ctx.fabric.release(message);  // else with its last byte
  }
}

void on_shown(MessageContext& ctx, MessageConnection& c) {
  c.peer_shows = Bulletin::unpack(ctx.fabric.status(c.peer));
  const Bulletin& shows = c.peer_shows;
  on_told(ctx, c, shows.done, shows.credits);
  if (is_over(c.phase)) return;
  if (shows.refusals != c.refusals_heard) {
    c.refusals_heard = shows.refusals;
    on_turned_away(ctx, c, shows.refused_number);
    if (is_over(c.phase)) return;
  }
  if (c.is_turned_away && shows.invitations == shows.refusals) {
    c.is_turned_away = false;
    ctx.make_ready(c);
  }
  if ((shows.flags & Bulletin::kClosing) != 0) ctx.make_ready(c);
  if (shows.is_over() && !c.settles) {
    c.settles = true;
    c.has_drained = false;
    ++ctx.settling;
  }
}

// The fabric knows better than any probe whether a lane can be used.
void on_lane(MessageContext& ctx, MessageConnection& c, const FabricCompletion& news) {
  if (!c.paths || news.lane >= c.paths->size()) return;
  const PathId path{news.lane};
  if (news.is_ok)
    c.paths->on_probe_reply(path, Duration{});
  else
    c.paths->on_link_down(path, ctx.now, c.rtt.smoothed());
  ctx.make_ready(c);
}

}  // namespace

void on_completion(MessageContext& ctx, const FabricCompletion& done) {
  MessageConnection* c = ctx.find(done.peer);
  if (c == nullptr) return;  // it ended within this batch
  ++c->heard;
  c->has_drained = false;
  switch (done.kind) {
    case FabricCompletion::Kind::kStatus:
      on_shown(ctx, *c);
      return;
    case FabricCompletion::Kind::kRead:
      on_fetched(ctx, *c, done.is_ok);
      if (!c->fetch.is_active && c->has_peer) take_deferred(ctx, *c);
      return;
    case FabricCompletion::Kind::kLane:
      on_lane(ctx, *c, done);
      return;
    case FabricCompletion::Kind::kMessage:
      break;
  }
  if (c->fetch.is_active) {
    c->deferred->push_back(done);
    return;
  }
  take_message(ctx, *c, done);
  if (!c->has_peer) return;
  if (!c->fetch.is_active) ctx.fabric.release(done);  // else with its last byte
}

void settle(MessageContext& ctx, MessageConnection& c) {
  if (!c.has_drained) {  // one more look: it may have come between the two
    c.has_drained = true;
    return;
  }
  if (c.fetch.is_active) return;
  const Bulletin shows = c.peer_shows;
  if (shows.fault_code != 0) {
    OpStatus status = static_cast<OpStatus>(shows.fault_code);
    if (shows.fault_code > static_cast<std::uint32_t>(OpStatus::kRemoteUnsupported))
      status = OpStatus::kPeerGone;
    for (std::size_t i = 0; i < c.requests->size(); ++i) {
      MessageRequest& request = (*c.requests)[i];
      const bool is_begun = request.state == MessageRequest::State::kSending ||
                            request.state == MessageRequest::State::kSent;
      if (!is_begun || shows.fault_number - request.number > request.last_number - request.number)
        continue;
      fail_connection(
          ctx, c, status,
          absl::StrCat(describe_peer(ctx, c), " refused a ", std::string(to_string(request.kind)),
                       " (", std::string(to_string(status)),
                       "): ", std::string(reason_of(status))));
      return;
    }
  }
  if ((shows.flags & Bulletin::kAborted) != 0)
    fail_connection(ctx, c, OpStatus::kPeerGone,
                    absl::StrCat(describe_peer(ctx, c),
                                 (shows.flags & Bulletin::kUnopened) != 0
                                     ? " took its acceptance back: closed before it was open"
                                     : " aborted the connection"));
  else if ((shows.flags & Bulletin::kFailed) != 0 || shows.fault_code != 0)
    fail_connection(ctx, c, OpStatus::kPeerGone,
                    absl::StrCat("the connection failed at ", describe_peer(ctx, c),
                                 "; its last_error() says why"));
  else
    end_connection(ctx, c, Phase::kClosed, Bulletin::kClosed);
}

void stop_fetches_from(MessageContext& ctx, std::uint64_t key) {
  for (auto& holder : ctx.connections) {
    if (!holder || !holder->responses || !holder->has_peer) continue;
    for (std::size_t i = 0; i < holder->responses->size(); ++i) {
      const MessageResponse& response = (*holder->responses)[i];
      if (!response.is_offered || response.key != key) continue;
      holder->pending_fault = OpStatus::kRemoteKey;
      holder->shows.fault_number = response.number;
      holder->pending_reason =
          absl::StrCat("refused a READ of ", describe_peer(ctx, *holder),
                       ": the region was deregistered while the peer read from it");
      tell_refusal(ctx, *holder);
      break;
    }
  }
}

void invite(MessageContext& ctx, MessageConnection& c) {
  if (c.shows.invitations == c.shows.refusals || !c.has_peer) return;
  if (c.receives->find(c.next_message) == nullptr) return;
  c.shows.invitations = c.shows.refusals;
  show(ctx, c);
}

}  // namespace spindrift
