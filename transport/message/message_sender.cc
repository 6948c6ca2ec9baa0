#include "transport/message/message_sender.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "transport/base/crc32c.h"
#include "transport/message/message_completions.h"
#include "transport/message/message_fetch.h"

namespace spindrift {
namespace {

// One record offers so much of a message. The other side cuts it into reads as it likes.
constexpr std::uint32_t kOfferBytes = 1U << 20U;
// What it counts for on its path and towards the window: nothing but the record travels with it.
constexpr std::uint32_t kOfferCost = 128;

RecordKind kind_of(OpKind kind) {
  switch (kind) {
    case OpKind::kSend:
    case OpKind::kReceive:
      return RecordKind::kSend;
    case OpKind::kWrite:
      return RecordKind::kWrite;
    case OpKind::kWriteImm:
      return RecordKind::kWriteImm;
    case OpKind::kRead:
      return RecordKind::kRead;
    case OpKind::kFetchAdd:
      return RecordKind::kFetchAdd;
    case OpKind::kCompareSwap:
      return RecordKind::kCompareSwap;
  }
  return RecordKind::kSend;
}

// Whether the peer has a RECEIVE for the message that comes next, `begun` before it.
bool finds_receive(const MessageConnection& c, std::uint32_t begun) {
  return !c.has_flushed_messages && !c.is_turned_away &&
         static_cast<std::int32_t>(c.peer_credits - begun) > 0;
}

// False: too many bursts are under way.
bool close_burst(MessageContext& ctx, MessageConnection& c) {
  if (c.burst.packets == 0) return true;
  if (c.bursts->is_full()) return false;
  if (c.sprays_messages) c.paths->on_sent(c.burst.path, c.burst.packets, c.burst.bytes);
  c.flow->on_sent(c.burst.bytes, ctx.now);
  c.bursts->push_back(c.burst);
  c.burst.packets = 0;
  c.burst.bytes = 0;
  return true;
}

// Bursts that have arrived: the path policy and congestion control hear of them.
void take_bursts(MessageContext& ctx, MessageConnection& c) {
  while (!c.bursts->is_empty()) {
    const PathBurst& burst = c.bursts->front();
    if (static_cast<std::int32_t>(c.acked - burst.last_number) <= 0) return;
    const PathFeedback feedback{.path = burst.path, .packets = burst.packets};
    if (c.sprays_messages) c.paths->on_feedback({&feedback, 1}, ctx.now, c.rtt.smoothed());
    AckEvent event;
    event.now = ctx.now;
    event.sent_time = ctx.now - c.rtt.min();
    event.rtt = c.rtt.min();
    event.acked_bytes = burst.bytes;
    event.received_bytes = burst.bytes;
    event.acked_packets = burst.packets;
    c.flow->on_ack(event);
    c.bursts->pop_front();
  }
}

// The length from which messages are offered to be fetched.
std::uint32_t offers_from(const MessageContext& ctx, const MessageConnection& c) {
  return c.may_offer ? ctx.fabric.reads_from(c.peer) : UINT32_MAX;
}

// Requests in the order of sending, as far as they may go now. Nothing is changed before the fabric
// has taken a message.
class Batch {
 public:
  Batch(MessageContext& ctx, MessageConnection& c)
      : ctx_(ctx),
        c_(c),
        scratch_(ctx.sending),
        offers_from_(offers_from(ctx, c)),
        serial_(c.next_request),
        messages_begun_(c.messages_begun),
        reads_waiting_(c.reads_waiting),
        burst_left_(c.burst_left) {}

  // Fills the batch; false: nothing may be sent now.
  bool fill() {
    while (count_ < kSendBatch && serial_ < c_.requests->end_serial()) {
      const MessageRequest& request = c_.requests->at_serial(serial_);
      if (request.state == MessageRequest::State::kFinished) {  // ended before it was begun
        if (count_ != 0) break;
        c_.next_request = ++serial_;
        continue;
      }
      if (count_ == 0 || sent_bytes_ == 0) sent_bytes_ = request.sent_bytes;
      if (!may_go(request) || !take_path(cost_of(request)) || !add(request)) break;
    }
    return count_ != 0;
  }
  // The fabric cannot offer the memory of the next one now.
  bool is_unoffered() const { return is_unoffered_; }
  // Sends; false: the fabric took only some of it.
  bool send() {
    const std::size_t taken =
        ctx_.fabric.post(std::span<const FabricOp>(scratch_.ops).first(count_));
    for (std::size_t i = 0; i < taken; ++i)
      commit(scratch_.out[i]);
    if (taken != 0) {
      c_.owes_bulletin = false;
      c_.told_credits = scratch_.out[0].record.credits;
    }
    return taken == count_;
  }

 private:
  bool may_go(const MessageRequest& request) {
    if (sent_bytes_ != 0) return true;
    if (request.has_fence && reads_waiting_ != 0) return false;
    if (request.wants_response() && reads_waiting_ >= c_.peer_max_reads) return false;
    return !request.wants_receive() || finds_receive(c_, messages_begun_);
  }
  bool is_offered(const MessageRequest& request) const {
    if (request.sent_bytes != 0) return request.is_offered;  // as it was begun
    return (request.length >= offers_from_ || request.is_of_device) &&
           request.kind != OpKind::kRead && request.inline_buffer == kNoInlineBuffer;
  }
  std::uint32_t chunk_of(const MessageRequest& request) const {
    if (request.kind == OpKind::kRead) return 0;
    const std::uint32_t left = request.length - sent_bytes_;
    if (left <= c_.payload_mtu) return left;
    if (!is_offered(request)) return c_.payload_mtu;
    return std::min(left, kOfferBytes);
  }
  std::uint32_t cost_of(const MessageRequest& request) const {
    return is_offered(request) ? kOfferCost : chunk_of(request);
  }
  // The path of the next chunk: the one that is being used, until its share is spent.
  bool take_path(std::uint32_t bytes) {
    if (burst_left_ >= std::max<std::uint64_t>(bytes, 1)) {
      burst_left_ -= std::max<std::uint64_t>(bytes, 1);
      return true;
    }
    if (count_ != 0) return false;  // what is in the batch goes first
    if (!close_burst(ctx_, c_)) return false;
    take_bursts(ctx_, c_);
    const std::uint64_t share = std::max({c_.options.burst_bytes, c_.payload_mtu, bytes});
    if (!c_.flow->has_room(static_cast<std::uint32_t>(share))) return false;
    if (c_.sprays_messages) {
      const std::optional<PathId> path = c_.paths->pick(ctx_.now);
      if (!path) return false;
      c_.burst.path = *path;
    } else if (c_.denied_paths == c_.paths->size()) {
      return false;
    }
    // With bursts of a single packet each packet takes the next path.
    c_.burst_left = c_.options.burst_bytes == 0 ? std::max(bytes, 1U) : share;
    burst_left_ = c_.burst_left - std::max(bytes, 1U);
    return true;
  }
  // False: the fabric cannot offer the memory now.
  bool add(const MessageRequest& request) {
    OutgoingRecord& out = scratch_.out[count_];
    FabricOp& op = scratch_.ops[count_];
    out.begins = sent_bytes_ == 0;
    out.bytes = chunk_of(request);
    out.cost = is_offered(request) ? kOfferCost : std::max(out.bytes, 1U);
    out.ends = request.kind == OpKind::kRead || sent_bytes_ + out.bytes == request.length;
    Record& record = out.record;
    record.kind = out.begins ? kind_of(request.kind) : RecordKind::kMore;
    record.flags = request.is_of_device && request.kind == OpKind::kRead ? kReadWantsOffer : 0;
    record.epoch = c_.refusals_heard;
    record.done = c_.executed;
    record.credits = c_.receives->credits();
    record.length = request.length;
    record.immediate = request.immediate;
    record.crc = 0;
    record.key = request.remote_key;
    record.offset = request.remote_offset;
    record.operand = request.operand;
    op.kind = FabricOp::Kind::kSend;
    op.peer = c_.peer;
    op.lane = c_.burst.path.value;
    op.local = payload_of(request, out);
    if (is_unoffered_) return false;
    if (c_.has_crc) record.crc = record_crc(record, op.local);
    op.header = std::as_bytes(std::span(&record, 1)).first(record_bytes(record.kind));
    ++count_;
    advance(request, out);
    return true;
  }
  void advance(const MessageRequest& request, const OutgoingRecord& out) {
    sent_bytes_ += out.bytes;
    if (out.begins) {
      if (request.wants_receive()) ++messages_begun_;
      if (request.wants_response()) ++reads_waiting_;
    }
    if (!out.ends) return;
    ++serial_;
    sent_bytes_ = 0;
  }
  std::span<const Sge> payload_of(const MessageRequest& request, OutgoingRecord& out) {
    if (request.kind == OpKind::kRead || request.kind == OpKind::kFetchAdd) return {};
    if (request.kind == OpKind::kCompareSwap) {
      out.compare = request.compare;
      return out.alone(&out.compare, sizeof(out.compare));
    }
    if (request.inline_buffer != kNoInlineBuffer) {
      return out.alone(
          ctx_.inline_bytes.data() + std::size_t{request.inline_buffer} * kMaxInlineBytes,
          request.length);
    }
    if (out.bytes == request.length && !is_offered(request)) return request.list();
    cut(request.list(), 0, sent_bytes_, out.bytes, out.part);
    if (!is_offered(request)) return out.part.list();
    out.record.flags = kRecordIsOffered;
    for (std::uint8_t i = 0; i < out.part.count; ++i) {
      const RemoteSpan span = ctx_.fabric.offer(c_.peer, out.part.pieces[i]);
      is_unoffered_ = is_unoffered_ || span.bytes == 0;
      out.offered[i] = {.address = span.address, .key = span.key, .bytes = span.bytes};
    }
    return out.alone(out.offered.data(), out.part.count * sizeof(OfferedPiece));
  }
  void commit(const OutgoingRecord& out) {
    MessageRequest& request = c_.requests->at_serial(c_.next_request);
    request.last_number = c_.begun++;
    if (out.begins) {
      request.is_offered = is_offered(request);
      request.number = request.last_number;
      request.state = MessageRequest::State::kSending;
      if (request.wants_receive()) ++c_.messages_begun;
      if (request.wants_response()) ++c_.reads_waiting;
    }
    request.sent_bytes += out.bytes;
    c_.counters.packets_sent += c_.packets_of(out.bytes);
    c_.counters.bytes_sent += out.bytes;
    c_.burst.packets += c_.packets_of(out.cost);
    c_.burst.bytes += out.cost;
    c_.burst_left -= std::min<std::uint64_t>(c_.burst_left, out.cost);
    c_.burst.last_number = request.last_number;
    if (!out.ends) return;
    request.state = MessageRequest::State::kSent;
    ++c_.next_request;
  }

  MessageContext& ctx_;
  MessageConnection& c_;
  SendScratch& scratch_;
  const std::uint32_t offers_from_;
  std::uint64_t serial_;
  std::uint32_t sent_bytes_ = 0;
  std::uint32_t messages_begun_;
  std::uint32_t reads_waiting_;
  std::uint64_t burst_left_;
  std::size_t count_ = 0;
  bool is_unoffered_ = false;
};

bool send_answer(MessageContext& ctx, MessageConnection& c, Record& record,
                 std::span<const Sge> payload) {
  record.done = c.executed;
  record.credits = c.receives->credits();
  if (c.has_crc) record.crc = record_crc(record, payload);
  const FabricOp op{.lane = c.burst.path.value,
                    .peer = c.peer,
                    .header = std::as_bytes(std::span(&record, 1)).first(record_bytes(record.kind)),
                    .local = payload};
  if (ctx.fabric.post({&op, 1}) != 1) return false;
  c.owes_bulletin = false;
  c.told_credits = record.credits;
  return true;
}

// The next record of a READ's answer; false: no room. A region that is gone becomes a fault.
bool answer_read(MessageContext& ctx, MessageConnection& c, MessageResponse& response) {
  const MemoryTable::Target target =
      ctx.memory.find(response.key, response.offset, response.length, Access::kRemoteRead);
  if (target.code != wire::ReturnCode::kOk) {
    refuse_request(ctx, c,
                   {.number = response.number,
                    .status = OpStatus::kRemoteKey,
                    .reason = "the region was deregistered while the peer read from it"});
    return false;
  }
  Record record;
  record.length = response.length;
  record.immediate = response.number;
  const bool is_offered =
      response.sent_bytes == 0 &&
      (response.length >= offers_from(ctx, c) || (response.wants_offer && response.length != 0));
  Sge piece{.data = target.data, .bytes = response.length, .region = target.region};
  OfferedPiece offered;
  if (is_offered) {
    record.kind = RecordKind::kReadOffer;
    const RemoteSpan span = ctx.fabric.offer(c.peer, piece);
    if (span.bytes == 0) return false;
    offered = {.address = span.address, .key = span.key, .bytes = span.bytes};
    piece = {.data = reinterpret_cast<std::byte*>(&offered), .bytes = sizeof(offered)};
  } else {
    record.kind = RecordKind::kReadData;
    piece.data += response.sent_bytes;
    piece.bytes = std::min(response.length - response.sent_bytes, c.payload_mtu);
  }
  if (!send_answer(ctx, c, record, {&piece, 1})) return false;
  response.is_offered = is_offered;
  response.sent_bytes += is_offered ? response.length : piece.bytes;
  c.counters.packets_sent += c.packets_of(is_offered ? response.length : piece.bytes);
  c.counters.bytes_sent += is_offered ? response.length : piece.bytes;
  return true;
}

bool answer_atomic(MessageContext& ctx, MessageConnection& c, MessageResponse& response) {
  Record record;
  record.kind = RecordKind::kAtomicResult;
  record.operand = response.result;
  record.length = 8;
  record.immediate = response.number;
  response.sent_bytes = 8;
  return send_answer(ctx, c, record, {});
}

}  // namespace

std::uint32_t record_crc(Record record, std::span<const Sge> payload) {
  record.crc = 0;
  std::uint32_t crc = crc32c(std::as_bytes(std::span(&record, 1)).first(record_bytes(record.kind)));
  for (const Sge& piece : payload)
    crc = crc32c({piece.data, piece.bytes}, crc);
  return crc;
}

void send_requests(MessageContext& ctx, MessageConnection& c) {
  while (carries_data(c.phase) && c.next_request < c.requests->end_serial()) {
    Batch batch(ctx, c);
    if (!batch.fill()) {
      if (batch.is_unoffered()) ctx.make_ready(c);
      break;
    }
    if (!batch.send()) {
      ctx.make_ready(c);  // the fabric is full: with the next turn
      break;
    }
  }
}

bool is_hopeless(const MessageConnection& c, const MessageRequest& request) {
  return request.wants_receive() && request.state == MessageRequest::State::kQueued &&
         (c.peer_shows.flags & Bulletin::kClosing) != 0 && !finds_receive(c, c.messages_begun);
}

void send_responses(MessageContext& ctx, MessageConnection& c) {
  while (carries_data(c.phase) && c.next_response < c.responses->end_serial()) {
    MessageResponse& response = c.responses->at_serial(c.next_response);
    const bool is_sent =
        response.is_atomic ? answer_atomic(ctx, c, response) : answer_read(ctx, c, response);
    if (!is_sent) {
      if (carries_data(c.phase)) ctx.make_ready(c);
      return;
    }
    if (response.sent_bytes < response.length) continue;
    ++c.next_response;
    // What was offered stays until the peer has fetched it.
    while (!c.responses->is_empty() && c.responses->front_serial() < c.next_response &&
           !c.responses->front().is_offered)
      c.responses->pop_front();
  }
}

bool send_note(MessageContext& ctx, MessageConnection& c, Record& note) {
  return send_answer(ctx, c, note, {});
}

void send_read_dones(MessageContext& ctx, MessageConnection& c) {
  for (; c.read_dones_owed != 0; --c.read_dones_owed) {
    Record record;
    record.kind = RecordKind::kReadDone;
    if (send_note(ctx, c, record)) continue;
    ctx.make_ready(c);
    return;
  }
}

void show(MessageContext& ctx, MessageConnection& c) {
  c.owes_bulletin = false;
  if (!c.has_peer) return;
  c.shows.done = c.executed;
  c.shows.credits = c.receives ? c.receives->credits() : 0;
  c.told_credits = c.shows.credits;
  ctx.fabric.set_status(c.peer, c.shows.pack());
}

void on_told(MessageContext& ctx, MessageConnection& c, std::uint32_t done, std::uint32_t credits) {
  const std::uint32_t newly = done - c.acked;
  if (newly != 0 && newly <= c.begun - c.acked) {
    c.acked = done;
    deliver_requests(ctx, c);
    if (!c.bursts->is_empty()) take_bursts(ctx, c);
    if (c.next_request < c.requests->end_serial()) ctx.make_ready(c);
  }
  // Records and bulletins overtake each other: a lower count is an old one. (A shared queue may
  // have less to offer than it had; whoever comes too late is turned away.)
  if (static_cast<std::int32_t>(credits - c.peer_credits) <= 0) return;
  c.peer_credits = credits;
  if (c.next_request < c.requests->end_serial()) ctx.make_ready(c);
}

void on_turned_away(MessageContext& ctx, MessageConnection& c, std::uint32_t number) {
  if (c.begun == number || c.begun - number > c.begun - c.acked) return;  // not under way
  std::uint64_t serial = c.requests->front_serial();
  while (serial < c.requests->end_serial()) {
    const MessageRequest& request = c.requests->at_serial(serial);
    if (request.state != MessageRequest::State::kFinished &&
        (request.state == MessageRequest::State::kQueued || request.number == number))
      break;
    ++serial;
  }
  for (std::uint64_t i = serial; i < c.requests->end_serial(); ++i) {
    MessageRequest& request = c.requests->at_serial(i);
    if (request.state == MessageRequest::State::kQueued) break;
    if (request.state == MessageRequest::State::kFinished) continue;
    const bool is_being_answered =
        request.is_answered || request.answered_bytes != 0 || request.is_being_fetched;
    if (is_being_answered) {
      fail_connection(ctx, c, OpStatus::kPeerGone,
                      absl::StrCat(describe_peer(ctx, c), " took back what it had executed"));
      return;
    }
    if (request.wants_receive()) --c.messages_begun;
    if (request.wants_response()) --c.reads_waiting;
    request.state = MessageRequest::State::kQueued;
    request.sent_bytes = 0;
  }
  c.next_offered = std::min(c.next_offered, serial);
  c.next_request = std::min(c.next_request, serial);
  c.begun = number;
  c.is_turned_away = true;
  ++c.counters.retransmits_not_ready;
  ctx.make_ready(c);
}

}  // namespace spindrift
