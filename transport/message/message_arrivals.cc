#include "transport/message/message_arrivals.h"

#include "transport/message/message_completions.h"
#include "transport/message/message_fetch.h"
#include "transport/message/message_lanes.h"
#include "transport/message/message_reads.h"
#include "transport/message/message_receiver.h"
#include "transport/message/message_sender.h"
#include "transport/message/message_timers.h"
#include "transport/placement.h"

namespace spindrift {
namespace {

// The message met no RECEIVE: the peer starts again from there once it is invited.
void turn_away(MessageContext& ctx, MessageConnection& c) {
  ++c.counters.receiver_not_ready;
  ++c.shows.refusals;
  c.shows.refused_number = c.executed;
  show(ctx, c);
}

// Whether a record may begin: not before its turn, or not at all, and it was dealt with.
enum class Beginning : std::uint8_t { kBegun, kTooEarly, kOver };

// A SEND or WRITE that begins; false: there is no RECEIVE for it.
bool open_message(MessageConnection& c, const Record& record, IncomingMessage& in,
                  ReceiveSlot*& slot) {
  in = {.kind = record.kind,
        .is_open = true,
        .length = record.length,
        .key = record.kind == RecordKind::kSend ? 0 : record.key,
        .offset = record.offset};
  if (record.kind == RecordKind::kWrite) return true;
  in.receive = c.next_message;
  slot = c.receives->find(in.receive);
  return slot != nullptr;
}

void note_arriving(ReceiveSlot& slot, const Record& record) {
  slot.state = ReceiveSlot::State::kArriving;
  slot.message_bytes = record.length;
  slot.is_write = record.kind == RecordKind::kWriteImm;
  slot.immediate = record.immediate;
}

// kOk, or why the message may not be.
OpStatus judge_message(const MessageContext& ctx, const IncomingMessage& in,
                       const ReceiveSlot* slot) {
  if (in.kind != RecordKind::kSend)
    return status_of(ctx.memory.find(in.key, in.offset, in.length, Access::kRemoteWrite).code);
  const bool is_too_long = slot != nullptr && in.length > slot->posted.capacity_bytes;
  return is_too_long ? OpStatus::kRemoteLength : OpStatus::kOk;
}

struct Begun {
  Beginning outcome = Beginning::kOver;
  Place place{};  // once begun
};

// Finds the place of `bytes` more bytes of the peer's messages. Before the record's turn
// (`is_turn`) only what cannot fail is done.
Begun begin_bytes(MessageContext& ctx, MessageConnection& c, const Record& record,
                  std::uint64_t bytes, bool is_turn) {
  IncomingMessage in = c.incoming;
  ReceiveSlot* slot = nullptr;
  const char* nonsense = nullptr;
  if ((record.kind == RecordKind::kMore) != in.is_open)
    nonsense = "a message that begins in the middle of another";
  else if (!in.is_open && record.length > kMaxMessageBytes)
    nonsense = "a message longer than any may be";
  else if (!in.is_open && !open_message(c, record, in, slot)) {
    if (!is_turn) return {.outcome = Beginning::kTooEarly};
    turn_away(ctx, c);
    return {.outcome = Beginning::kOver};
  } else if (bytes > in.length - in.begun || (bytes == 0 && in.length != 0))
    nonsense = "more bytes than the message has";
  const OpStatus status = nonsense == nullptr ? judge_message(ctx, in, slot) : OpStatus::kOk;
  if (!is_turn && (nonsense != nullptr || status != OpStatus::kOk))
    return {.outcome = Beginning::kTooEarly};
  if (nonsense != nullptr) {
    fail_on_nonsense(ctx, c, nonsense);
    return {.outcome = Beginning::kOver};
  }
  if (slot != nullptr) note_arriving(*slot, record);
  if (status != OpStatus::kOk) {
    refuse_at(ctx, c, status);
    return {.outcome = Beginning::kOver};
  }
  Place place{.kind = in.kind,
              .length = in.length,
              .at = in.begun,
              .receive = in.receive,
              .key = in.key,
              .offset = in.offset};
  in.begun += static_cast<std::uint32_t>(bytes);
  place.ends = in.begun == in.length;
  in.is_open = !place.ends;
  if (place.ends && in.kind != RecordKind::kWrite) ++c.next_message;
  c.incoming = in;
  return {.outcome = Beginning::kBegun, .place = place};
}

// The bytes that a record carries; its turn has come.
void take_bytes(MessageContext& ctx, MessageConnection& c, const Place& place,
                std::span<const std::byte> payload) {
  OpStatus status = find_landing(ctx, c, place, 0, payload.size());
  if (status == OpStatus::kOk && ctx.landing.is_device && !payload.empty())
    status = OpStatus::kRemoteUnsupported;
  if (status != OpStatus::kOk) {
    refuse_at(ctx, c, status);
    return;
  }
  scatter(ctx.landing.list(), 0, payload, ctx.landing.line_ordered);
  finish_record(ctx, c, place, static_cast<std::uint32_t>(payload.size()));
}

// Sent before the peer heard that one of its messages met no RECEIVE, or refused one before.
bool is_void(const MessageConnection& c, const Record& record) {
  return is_request(record.kind) &&
         (record.epoch != c.shows.refusals || c.pending_fault != OpStatus::kOk);
}

bool carries_message(RecordKind kind) {
  return is_request(kind) && (kind <= RecordKind::kWriteImm || kind == RecordKind::kMore);
}

// The READ that is offered next; null: none is, or an answer of another kind comes before.
MessageRequest* next_offered(MessageConnection& c) {
  c.next_offered = std::max(c.next_offered, c.requests->front_serial());
  for (; c.next_offered < c.requests->end_serial(); ++c.next_offered) {
    MessageRequest& request = c.requests->at_serial(c.next_offered);
    if (request.state == MessageRequest::State::kQueued) return nullptr;
    if (request.wants_response() && request.state == MessageRequest::State::kSent &&
        !request.is_answered && !request.is_being_fetched)
      return request.kind == OpKind::kRead ? &request : nullptr;
  }
  return nullptr;
}

Beginning begin_read_offer(MessageContext& ctx, MessageConnection& c, Arrival& arrival,
                           bool is_turn) {
  MessageRequest* request = next_offered(c);
  if (request == nullptr || request->number != arrival.record.immediate ||
      request->answered_bytes != 0 || request->length != arrival.offer.bytes) {
    if (!is_turn) return Beginning::kTooEarly;
    fail_on_nonsense(ctx, c, "an offer of what no READ asked for");
    return Beginning::kOver;
  }
  request->is_being_fetched = true;
  arrival.place = {.kind = RecordKind::kReadOffer,
                   .ends = true,
                   .length = request->length,
                   .request = c.next_offered};
  return Beginning::kBegun;
}

}  // namespace

bool is_offer(const Record& record) {
  return record.kind == RecordKind::kReadOffer ||
         (carries_message(record.kind) && (record.flags & kRecordIsOffered) != 0);
}

void take_record(MessageContext& ctx, MessageConnection& c, const Record& record,
                 std::span<const std::byte> payload) {
  if (is_void(c, record)) return;
  if (!carries_message(record.kind)) {
    if (is_request(record.kind) && c.incoming.is_open)
      fail_on_nonsense(ctx, c, "a message that begins in the middle of another");
    else
      take_at_once(ctx, c, record, payload);
    return;
  }
  const Begun begun = begin_bytes(ctx, c, record, payload.size(), true);
  if (begun.outcome != Beginning::kBegun) return;
  ++c.counters.packets_received;
  take_bytes(ctx, c, begun.place, payload);
}

namespace {

// Begins a record of the queue. What is executed waits for its turn, and so does
// what stands behind it.
Beginning begin(MessageContext& ctx, MessageConnection& c, Arrival& arrival, bool is_turn) {
  const Record& record = arrival.record;
  const auto too_early_or = [is_turn](auto&& act) {
    if (!is_turn) return Beginning::kTooEarly;
    act();
    return Beginning::kOver;
  };
  if (is_void(c, record)) return too_early_or([] {});
  if (is_offer(record) && (!c.fetching || !read_offer(arrival.message.payload, arrival.offer)))
    return too_early_or([&] { fail_on_nonsense(ctx, c, "an offer that is none"); });
  if (record.kind == RecordKind::kReadOffer) return begin_read_offer(ctx, c, arrival, is_turn);
  if (!carries_message(record.kind)) {
    const bool is_passive =
        record.kind == RecordKind::kReadDone || record.kind == RecordKind::kLaneNote;
    if (!is_turn && is_passive) return Beginning::kBegun;
    return too_early_or([&] { take_record(ctx, c, record, arrival.message.payload); });
  }
  const std::uint64_t bytes =
      is_offer(record) ? arrival.offer.bytes : arrival.message.payload.size();
  const Begun begun = begin_bytes(ctx, c, record, bytes, is_turn);
  arrival.place = begun.place;
  return begun.outcome;
}

// Begins what may begin now. False: the connection is over.
bool begin_arrivals(MessageContext& ctx, MessageConnection& c) {
  while (c.next_begin < c.arrivals->end_serial()) {
    const bool is_turn = c.next_begin == c.arrivals->front_serial();
    Arrival& arrival = c.arrivals->at_serial(c.next_begin);
    const Beginning beginning = begin(ctx, c, arrival, is_turn);
    if (!c.has_peer) return false;
    if (beginning == Beginning::kTooEarly) return true;
    ++c.next_begin;
    if (beginning == Beginning::kBegun) {
      arrival.is_begun = true;
      continue;
    }
    ctx.fabric.release(arrival.message);
    c.arrivals->pop_front();
  }
  return true;
}

// A READ of ours has all its bytes.
void finish_offered_read(MessageContext& ctx, MessageConnection& c, const Arrival& arrival) {
  MessageRequest& request = c.requests->at_serial(arrival.place.request);
  if (oldest_read(c) != &request) {
    fail_on_nonsense(ctx, c, "an answer to what was not asked");
    return;
  }
  ++c.counters.packets_received;
  request.answered_bytes = request.length;
  c.counters.bytes_received += request.length;
  ++c.read_dones_owed;
  send_read_dones(ctx, c);
  finish_read(ctx, c, request);
}

// The first in the queue is whole.
void finish_arrival(MessageContext& ctx, MessageConnection& c, const Arrival& arrival) {
  const Record& record = arrival.record;
  if (is_void(c, record)) return;
  // Bytes that were read from memory which its owner had given up by then are nobody's message. The
  // owner shows that it gives up before it does.
  if (arrival.offer.count != 0 && Bulletin::unpack(ctx.fabric.status(c.peer)).is_over()) {
    c.ignores_rest = true;
    return;
  }
  if (record.kind == RecordKind::kReadOffer) {
    finish_offered_read(ctx, c, arrival);
    return;
  }
  if (!carries_message(record.kind)) {
    take_at_once(ctx, c, record, arrival.message.payload);
    return;
  }
  ++c.counters.packets_received;
  if (arrival.fault != OpStatus::kOk)
    refuse_at(ctx, c, arrival.fault);
  else if (arrival.offer.count == 0)
    take_bytes(ctx, c, arrival.place, arrival.message.payload);
  else
    finish_record(ctx, c, arrival.place, static_cast<std::uint32_t>(arrival.offer.bytes));
}

}  // namespace

void wait_for_turn(MessageContext& ctx, MessageConnection& c, const Record& record,
                   const FabricCompletion& message) {
  if (c.arrivals->is_empty()) {
    if (c.fetching) c.fetching->came = ctx.now;
    watch_silence(ctx, c);
  }
  Arrival& arrival = c.arrivals->push_back();
  arrival.message = message;
  arrival.record = record;
  arrival.offer.count = 0;
  arrival.offer.bytes = 0;
  arrival.asked_bytes = 0;
  arrival.fetched_bytes = 0;
  arrival.fault = OpStatus::kOk;
  arrival.is_begun = false;
  stir(ctx, c);
}

void look_at_arrivals(MessageContext& ctx, MessageConnection& c) {
  if (!carries_data(c.phase)) return;
  for (bool is_changed = true; is_changed && !c.arrivals->is_empty();) {
    is_changed = false;
    if (!begin_arrivals(ctx, c)) return;
    while (!c.arrivals->is_empty() && c.arrivals->front().is_whole()) {
      finish_arrival(ctx, c, c.arrivals->front());
      if (!c.has_peer) return;
      if (c.ignores_rest) {
        drop_arrivals(ctx, c);
        return;
      }
      ctx.fabric.release(c.arrivals->front().message);
      c.arrivals->pop_front();
      is_changed = true;
    }
    if (is_changed) continue;  // what stood behind may begin
    is_changed = !post_reads(ctx, c);
  }
}

}  // namespace spindrift
