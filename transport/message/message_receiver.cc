#include "transport/message/message_receiver.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "transport/message/message_arrivals.h"
#include "transport/message/message_completions.h"
#include "transport/message/message_fetch.h"
#include "transport/message/message_lanes.h"
#include "transport/message/message_reads.h"
#include "transport/message/message_sender.h"
#include "transport/placement.h"

namespace spindrift {
namespace {

constexpr std::uint32_t kAtomicBytes = 8;

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
  const bool wants_offer = target.is_device || (record.flags & kReadWantsOffer) != 0;
  OpStatus status = status_of(target.code);
  if (status == OpStatus::kOk && wants_offer && record.length != 0 && !c.may_offer)
    status = OpStatus::kRemoteUnsupported;
  if (status != OpStatus::kOk) {
    refuse_at(ctx, c, status);
    return;
  }
  queue_response(ctx, c,
                 {.key = record.key,
                  .offset = record.offset,
                  .number = c.executed,
                  .length = record.length,
                  .wants_offer = wants_offer});
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
  // What was found has an address. NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker)
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

void on_read_done(MessageContext& ctx, MessageConnection& c) {
  if (c.responses->is_empty() || !c.responses->front().is_offered) {
    fail_on_nonsense(ctx, c, "thanks for an offer that was not made");
    return;
  }
  c.responses->pop_front();
  while (!c.responses->is_empty() && c.responses->front_serial() < c.next_response &&
         !c.responses->front().is_offered)
    c.responses->pop_front();
  ctx.make_ready(c);
}

// An answer that carries what was asked for; its turn has come.
void take_answer(MessageContext& ctx, MessageConnection& c, const Record& record,
                 std::span<const std::byte> payload) {
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
  const std::size_t bytes = payload.size();
  if (bytes > request->length - request->answered_bytes || (bytes == 0 && request->length != 0)) {
    fail_on_nonsense(ctx, c, "more bytes than the READ asked for");
    return;
  }
  if (bytes != 0 && request->is_of_device) {
    fail_on_nonsense(ctx, c, "bytes for a device that were to be offered");
    return;
  }
  scatter(request->list(), request->answered_bytes, payload, request->line_ordered);
  request->answered_bytes += static_cast<std::uint32_t>(bytes);
  c.counters.bytes_received += bytes;
  if (request->answered_bytes == request->length) finish_read(ctx, c, *request);
}

}  // namespace

void fail_on_nonsense(MessageContext& ctx, MessageConnection& c, std::string_view what) {
  ++c.counters.malformed_received;
  fail_connection(
      ctx, c, OpStatus::kPeerGone,
      absl::StrCat(describe_peer(ctx, c), " sent what no honest peer sends: ", std::string(what)));
}

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

void take_at_once(MessageContext& ctx, MessageConnection& c, const Record& record,
                  std::span<const std::byte> payload) {
  switch (record.kind) {
    case RecordKind::kReadDone:
      on_read_done(ctx, c);
      return;
    case RecordKind::kLaneNote:
      return;  // heeded when it came
    case RecordKind::kReadData:
    case RecordKind::kReadOffer:
    case RecordKind::kAtomicResult:
      take_answer(ctx, c, record, payload);
      return;
    default:
      break;
  }
  ++c.counters.packets_received;
  if (record.kind == RecordKind::kRead)
    take_read(ctx, c, record);
  else
    take_atomic(ctx, c, record, payload);
}

namespace {

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
  const bool is_known = record.kind >= RecordKind::kSend && record.kind <= RecordKind::kLaneNote;
  if (!is_known) {
    fail_on_nonsense(ctx, c, "a record of an unknown kind");
    return;
  }
  if (!c.ignores_rest && !is_damaged(ctx, c, record, message.payload)) {
    on_told(ctx, c, record.done, record.credits);
    if (is_over(c.phase)) return;
    if (record.kind == RecordKind::kLaneNote) take_lane_note(ctx, c, record);
    ctx.turn_bytes += message.payload.size();
    if (is_offer(record) || !c.arrivals->is_empty()) {
      wait_for_turn(ctx, c, record, message);
      return;
    }
    take_record(ctx, c, record, message.payload);
  }
  if (c.has_peer) ctx.fabric.release(message);
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

}  // namespace

void on_completion(MessageContext& ctx, const FabricCompletion& done) {
  MessageConnection* c = ctx.find(done.peer);
  if (c == nullptr) return;  // it ended within this batch
  c->has_drained = false;
  switch (done.kind) {
    case FabricCompletion::Kind::kStatus:
      ++c->heard;
      on_shown(ctx, *c);
      return;
    case FabricCompletion::Kind::kRead:
      if (done.is_ok) ++c->heard;
      on_read(ctx, *c, done);
      return;
    case FabricCompletion::Kind::kLane:
      on_lane(ctx, *c, done);
      return;
    case FabricCompletion::Kind::kMessage:
      ++c->heard;
      take_message(ctx, *c, done);
      return;
  }
}

void settle(MessageContext& ctx, MessageConnection& c) {
  if (!c.has_drained) {  // one more look: it may have come between the two
    c.has_drained = true;
    return;
  }
  if (!c.arrivals->is_empty()) {  // its memory is nobody's any more
    c.ignores_rest = true;
    drop_arrivals(ctx, c);
  }
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

namespace {

// Which of the peer's records is about to write into the region, by a read that is under way.
std::optional<std::uint32_t> record_landing_in(const MessageConnection& c, LocalKey region) {
  if (!c.fetching) return std::nullopt;
  for (const Chunk& chunk : c.fetching->chunks) {
    if (!chunk.is_posted || chunk.region != region) continue;
    std::uint32_t number = c.executed;
    for (std::uint64_t i = c.arrivals->front_serial(); i < chunk.arrival; ++i)
      if (is_request(c.arrivals->at_serial(i).record.kind)) ++number;
    return number;
  }
  return std::nullopt;
}

}  // namespace

void stop_using(MessageContext& ctx, const MemoryRegion& region) {
  for (auto& holder : ctx.connections) {
    if (!holder || !holder->responses || !holder->has_peer) continue;
    MessageConnection& c = *holder;
    std::optional<std::uint32_t> number = record_landing_in(c, region.local);
    std::string_view what = "a WRITE of ";
    std::string_view why = ": the region was deregistered while the peer wrote into it";
    for (std::size_t i = 0; i < c.responses->size() && !number; ++i) {
      const MessageResponse& response = (*c.responses)[i];
      if (!response.is_offered || response.key != region.remote.key) continue;
      number = response.number;
      what = "a READ of ";
      why = ": the region was deregistered while the peer read from it";
    }
    if (!number) continue;
    c.pending_fault = OpStatus::kRemoteKey;
    c.shows.fault_number = *number;
    c.pending_reason =
        absl::StrCat("refused ", std::string(what), describe_peer(ctx, c), std::string(why));
    tell_refusal(ctx, c);
  }
}

void invite(MessageContext& ctx, MessageConnection& c) {
  if (c.shows.invitations == c.shows.refusals || !c.has_peer) return;
  if (c.receives->find(c.next_message) == nullptr) return;
  c.shows.invitations = c.shows.refusals;
  show(ctx, c);
}

}  // namespace spindrift
