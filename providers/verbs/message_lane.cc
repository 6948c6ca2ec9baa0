#include "providers/verbs/message_lane.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "transport/base/scratch.h"

namespace spindrift {
namespace {

constexpr std::size_t kChain = 16;
// A record finds a buffer of the peer, and so wakes it, also when messages have taken the others.
constexpr std::uint32_t kBuffersForRecords = 1;
constexpr std::uint32_t kSignalsPerRound = 8;
constexpr std::uint32_t kInlineWish = 220;

// Zero: of a page that nobody has written yet.
constexpr std::uint64_t kNoSerial = 0;

}  // namespace

Status MessageLane::open(const VerbsPorts& ports, std::uint32_t buffers) {
  buffers_ = buffers;
  const std::size_t buffer_bytes = std::size_t{buffers} * kBufferBytes;
  auto pages = map_own_pages(sizeof(VerbsPage) + 2 * buffer_bytes);
  if (!pages.ok()) return pages.error();
  memory_ = std::move(pages).value();
  page_ = new (memory_.bytes().data()) VerbsPage;
  const std::span<std::byte> buffers_at = memory_.bytes().subspan(sizeof(VerbsPage));
  out_ = buffers_at.data();
  in_ = out_ + buffer_bytes;
  auto page_keys = Registrations::make(
      ports, memory_.bytes().first(sizeof(VerbsPage)),
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  if (!page_keys.ok()) return page_keys.error();
  page_keys_ = std::move(page_keys).value();
  auto buffer_keys = Registrations::make(ports, buffers_at, IBV_ACCESS_LOCAL_WRITE);
  if (!buffer_keys.ok()) return buffer_keys.error();
  buffer_keys_ = std::move(buffer_keys).value();
  lengths_.resize(buffers);
  is_held_.resize(buffers);
  arrived_ = std::make_unique<Ring<Arrived>>(buffers);
  for (std::uint32_t i = buffers; i != 0; --i)
    idle_.push_back(i - 1);
  return ok_status();
}

QueuePairNeeds MessageLane::needs() const {
  return {.sends = buffers_ + 2 * kRecordsUnderWay,
          .receives = buffers_,
          .inline_bytes = kInlineWish,
          .pieces = 1,
          .reads_answered = 1};
}

void MessageLane::begin(VerbsLane& made) {
  made.state = VerbsLane::State::kTrying;
  posted_ = 0;
  told_ = 0;
  records_ = 0;
  post_buffers();
  told_ = posted_;  // the card says so
}

void MessageLane::start(std::uint32_t room) {
  consumed_ = 0;
  room_ = room;
  repeated_ += unsent_ - oldest_;
  unsent_ = oldest_;
  sent_since_signal_ = 0;
  lane.state = VerbsLane::State::kUp;
  // Whatever the last one was, it may have been lost.
  if (lane.generation != 0) owes_record_ = owes_wake_ = true;
  pump();
  send_record();
}

bool MessageLane::can_write() const {
  const auto waiting = static_cast<std::uint32_t>(next_ - unsent_);
  return lane.is_up() && next_ - oldest_ < buffers_ && has_credit(kBuffersForRecords + waiting) &&
         lane.pair.room() > waiting + kRecordsUnderWay;
}

void MessageLane::write(const FabricOp& op) {
  std::byte* const to = out_buffer(next_);
  VerbsMessageHead head{.number = static_cast<std::uint32_t>(next_), .lane = op.lane};
  head.header_bytes = static_cast<std::uint8_t>(op.header.size());
  std::byte* at = to + sizeof(head);
  std::memcpy(at, op.header.data(), op.header.size());
  at += op.header.size();
  for (const Sge& piece : op.local) {
    if (piece.bytes != 0) std::memcpy(at, piece.data, piece.bytes);
    at += piece.bytes;
    head.payload_bytes += piece.bytes;
  }
  std::memcpy(to, &head, sizeof(head));
  lengths_[next_ % buffers_] = static_cast<std::uint32_t>(at - to);
  ++next_;
}

void MessageLane::pump() {
  Scratch<ibv_send_wr, kChain> requests;
  Scratch<ibv_sge, kChain> pieces;
  while (lane.is_up() && unsent_ < next_) {
    std::size_t count = 0;
    while (count < kChain && unsent_ + count < next_ && has_credit(kBuffersForRecords) &&
           lane.pair.room() > kRecordsUnderWay) {
      const std::uint64_t message = unsent_ + count;
      const std::uint32_t length = lengths_[message % buffers_];
      std::memcpy(out_buffer(message) + offsetof(VerbsMessageHead, room), &posted_,
                  sizeof(posted_));
      pieces[count] = {.addr = reinterpret_cast<std::uintptr_t>(out_buffer(message)),
                       .length = length,
                       .lkey = buffer_keys_.local_key(lane.port)};
      ibv_send_wr& one = requests[count];
      one = {};
      one.wr_id = lane.pair.id_of(0);
      one.sg_list = &pieces[count];
      one.num_sge = 1;
      one.opcode = IBV_WR_SEND;
      if (length <= lane.pair.inline_bytes()) one.send_flags |= IBV_SEND_INLINE;
      if (++sent_since_signal_ >= buffers_ / kSignalsPerRound) {
        one.send_flags |= IBV_SEND_SIGNALED;
        sent_since_signal_ = 0;
      }
      if (count != 0) requests[count - 1].next = &one;
      lane.pair.note({.kind = PostedWork::Kind::kMessage, .tag = message});
      ++consumed_;
      ++count;
    }
    if (count == 0) return;
    told_ = posted_;
    unsent_ += count;
    ++doorbells_;
    requests_ += count;
    if (lane.pair.post(requests.data()) == 0) continue;
    lane.pair.fail();  // what was not taken is sent again over the next one
    return;
  }
}

void MessageLane::flush() {
  owes_record_ = true;
  send_record();
}

void MessageLane::show(const FabricStatus& status) {
  shows_ = status;
  owes_record_ = owes_wake_ = true;
  send_record();
}

void MessageLane::send_record() {
  const bool wakes = owes_wake_ && has_credit(0);
  if (!lane.is_up() || records_ == kRecordsUnderWay || lane.pair.room() == 0) return;
  if (!owes_record_ && !wakes) return;
  VerbsRecord& record = page_->outgoing[++serial_ % page_->outgoing.size()];
  record.words = shows_.words;
  record.room = posted_;
  record.generation = lane.generation;
  record.serial = serial_;
  record.sum = record.right_sum();
  ibv_sge piece{.addr = reinterpret_cast<std::uintptr_t>(&record),
                .length = sizeof(record),
                .lkey = page_keys_.local_key(lane.port)};
  ibv_send_wr one{};
  one.wr_id = lane.pair.id_of(0);
  one.sg_list = &piece;
  one.num_sge = 1;
  one.send_flags = IBV_SEND_SIGNALED;
  if (sizeof(record) <= lane.pair.inline_bytes()) one.send_flags |= IBV_SEND_INLINE;
  // Without a buffer there it lands all the same, and wakes nobody.
  one.opcode = wakes ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
  one.wr.rdma.remote_addr = peer_page_;
  one.wr.rdma.rkey = peer_page_key_;
  if (wakes) ++consumed_;
  owes_wake_ = owes_wake_ && !wakes;
  owes_record_ = false;
  told_ = posted_;
  ++records_;
  ++doorbells_;
  ++requests_;
  lane.pair.note({.kind = PostedWork::Kind::kRecord});
  if (lane.pair.post(&one) != 0) lane.pair.fail();
}

void MessageLane::take_room(std::uint32_t room, std::uint32_t generation) {
  if (generation != lane.generation) return;
  // Never back, and never more than the peer can have said.
  const auto more = static_cast<std::int32_t>(room - room_);
  if (more > 0) room_ = room;
}

FabricStatus MessageLane::seen() {
  const std::uint64_t serial = __atomic_load_n(&page_->shown.serial, __ATOMIC_RELAXED);
  if (serial == seen_serial_ || serial == kNoSerial) return seen_;
  VerbsRecord record;
  if (!read_record(page_->shown, record)) return seen_;
  seen_serial_ = record.serial;
  seen_.words = record.words;
  take_room(record.room, record.generation);
  return seen_;
}

void MessageLane::on_ended(PostedWork work, bool is_ok) {
  if (work.kind == PostedWork::Kind::kMessage) {
    if (is_ok) oldest_ = std::max(oldest_, work.tag + 1);
    return;
  }
  if (work.kind != PostedWork::Kind::kRecord) return;
  --records_;
  if (!is_ok) owes_record_ = owes_wake_ = true;
}

MessageLane::Got MessageLane::on_received(std::uint32_t buffer, const ibv_wc& done) {
  if (done.opcode != IBV_WC_RECV) {  // the peer shows something
    idle_.push_back(buffer);
    return Got::kFine;
  }
  Arrived one{.buffer = buffer};
  if (done.byte_len < sizeof(one.head)) return Got::kNonsense;
  std::memcpy(&one.head, in_buffer(buffer), sizeof(one.head));
  if (one.head.header_bytes > kFabricHeaderBytes ||
      done.byte_len - sizeof(one.head) !=
          std::uint64_t{one.head.header_bytes} + one.head.payload_bytes)
    return Got::kNonsense;
  take_room(one.head.room, lane.generation);
  const auto early = static_cast<std::int32_t>(one.head.number - expected_);
  if (early > 0) return Got::kNonsense;
  if (early < 0) {  // it came over the queue pair that failed
    idle_.push_back(buffer);
    return Got::kFine;
  }
  ++expected_;
  arrived_->push_back(one);
  return Got::kFine;
}

void MessageLane::on_unused(std::uint32_t buffer) {
  idle_.push_back(buffer);
}

// All that neither hold a message nor lie idle already.
void MessageLane::take_back_buffers() {
  std::vector<bool> is_used(buffers_);
  for (const std::uint32_t buffer : idle_)
    is_used[buffer] = true;
  for (std::size_t i = 0; i < arrived_->size(); ++i)
    is_used[(*arrived_)[i].buffer] = true;
  for (std::uint32_t buffer = 0; buffer < buffers_; ++buffer)
    if (!is_used[buffer] && !is_held_[buffer]) idle_.push_back(buffer);
}

void MessageLane::take(FabricCompletion& out) {
  const Arrived& one = arrived_->front();
  const std::byte* const at = in_buffer(one.buffer) + sizeof(one.head);
  std::memcpy(out.header.data(), at, kFabricHeaderBytes);
  out.kind = FabricCompletion::Kind::kMessage;
  out.is_ok = true;
  out.fault = FabricCompletion::Fault::kNone;
  out.lane = one.head.lane;
  out.payload = {at + one.head.header_bytes, one.head.payload_bytes};
  out.position = one.buffer;
  ++held_;
  is_held_[one.buffer] = true;
  arrived_->pop_front();
}

void MessageLane::release(const FabricCompletion& message) {
  const auto buffer = static_cast<std::uint32_t>(message.position);
  --held_;
  is_held_[buffer] = false;
  idle_.push_back(buffer);
}

void MessageLane::post_buffers() {
  Scratch<ibv_recv_wr, kChain> requests;
  Scratch<ibv_sge, kChain> pieces;
  while (!idle_.empty()) {
    std::size_t count = 0;
    for (; count < kChain && !idle_.empty(); ++count) {
      const std::uint32_t buffer = idle_.back();
      idle_.pop_back();
      pieces[count] = {.addr = reinterpret_cast<std::uintptr_t>(in_buffer(buffer)),
                       .length = kBufferBytes,
                       .lkey = buffer_keys_.local_key(lane.port)};
      requests[count] = {.wr_id = lane.pair.receive_id(buffer),
                         .next = nullptr,
                         .sg_list = &pieces[count],
                         .num_sge = 1};
      if (count != 0) requests[count - 1].next = &requests[count];
    }
    posted_ += static_cast<std::uint32_t>(count);
    ++doorbells_;
    requests_ += count;
    if (lane.pair.post(requests.data(), static_cast<std::uint32_t>(count)) == 0) continue;
    lane.pair.fail();
    return;
  }
}

void MessageLane::tend() {
  if (!lane.is_up()) return;
  if (idle_.size() >= buffers_ / kSignalsPerRound) post_buffers();
  // A peer that has room enough is told with the next message.
  if (posted_ - told_ >= buffers_ / 4) owes_record_ = true;
  seen();
  pump();
  send_record();
}

}  // namespace spindrift
