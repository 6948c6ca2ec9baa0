// Messages of the libfabric fabric, and what the two sides show each other.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <rdma/fi_errno.h>

#include "providers/libfabric/ofi_host.h"
#include "transport/base/scratch.h"

namespace spindrift {
namespace {

constexpr std::size_t kCompletionsAtOnce = 32;
constexpr std::size_t kSendSlab = 64;
// Injected from the stack: what is longer is copied to registered memory first.
constexpr std::size_t kLongestInjected = 512;

std::size_t payload_of(const FabricOp& op) {
  std::size_t bytes = 0;
  for (const Sge& piece : op.local)
    bytes += piece.bytes;
  return bytes;
}

void write_message(std::byte* to, const OfiHead& head, const FabricOp& op) {
  std::memcpy(to, &head, sizeof(head));
  to += sizeof(head);
  std::memcpy(to, op.header.data(), op.header.size());
  to += op.header.size();
  for (const Sge& piece : op.local) {
    if (piece.bytes != 0) std::memcpy(to, piece.data, piece.bytes);
    to += piece.bytes;
  }
}

}  // namespace

OfiPeer* OfiFabric::find(std::uint64_t name) {
  const auto index = static_cast<std::uint32_t>(name);
  if (index >= peers_.size() || peers_[index] == nullptr) return nullptr;
  OfiPeer* const peer = peers_[index].get();
  return peer->own_name == name && peer->phase != OfiPeer::Phase::kLeaving ? peer : nullptr;
}

void OfiFabric::make_ready(OfiPeer& peer) {
  if (peer.is_ready) return;
  peer.is_ready = true;
  ready_.push_back(&peer);
}

void OfiFabric::make_owing(OfiPeer& peer) {
  if (peer.is_owing) return;
  peer.is_owing = true;
  owing_.push_back(&peer);
}

// --- sending ---

OfiHead OfiFabric::head_for(OfiPeer& peer, OfiKind kind) {
  const std::uint32_t released = peer.arrivals->released();
  return {.connection = peer.their_name,
          .number = peer.room.sent(),
          .released = released,
          .heard = peer.room.heard(),
          .serial = peer.room.shown(),
          .kind = kind};
}

OfiBuffer* OfiFabric::take_send_buffer() {
  OfiBuffer* buffer = send_pool_.take();
  if (buffer != nullptr) return buffer;
  // It grows to what libfabric can have under way, and to what is kept for peers.
  std::size_t most = first_device().traits().send_depth;
  if (rails_.size() > 1) most = most * rails_.size() + peers_.size() * options_.buffers;
  if (send_pool_.total() >= most) return nullptr;
  if (const Status added = send_pool_.add(kSendSlab, rails_); !added.ok()) return nullptr;
  return send_pool_.take();
}

// Zero: libfabric has it. Without a buffer it is copied by libfabric.
long OfiFabric::hand_over(OfiPeer& peer, std::byte* bytes, std::size_t count, OfiBuffer* buffer) {
  OfiLane& lane = peer.lanes[peer.message_lane];
  fid_ep* const endpoint = rails_[peer.message_lane].device->endpoint();
  long code = 0;
  if (buffer == nullptr) {
    code = fi_inject(endpoint, bytes, count, lane.to);
  } else {
    buffer->peer = &peer;
    buffer->rail = static_cast<std::uint8_t>(peer.message_lane);
    code = fi_send(endpoint, bytes, count, buffer->descriptor(), lane.to, &buffer->context);
    if (code == 0) {
      buffer->is_under_way = true;
      ++peer.sends_under_way;
    } else if (!buffer->is_kept) {
      send_pool_.give_back(buffer);
    }
  }
  if (code == -FI_EAGAIN) ++refusals_;
  if (code != 0 && code != -FI_EAGAIN) {
    const std::string why = fi_refused(buffer == nullptr ? "fi_inject" : "fi_send", code).message();
    if (peer.has_several_lanes())
      fail_lane(peer, lane, why);
    else
      lose(peer, why);
  }
  return code;
}

bool OfiFabric::send(OfiPeer& peer, const FabricOp& op) {
  if (peer.is_gone || !broken_.empty()) return true;  // into the void: the engine is about to hear
  if (!peer.room.has_room()) return false;
  OfiHead head = head_for(peer, OfiKind::kMessage);
  head.header_bytes = static_cast<std::uint8_t>(op.header.size());
  const std::size_t bytes = sizeof(head) + op.header.size() + payload_of(op);
  if (peer.has_several_lanes()) {
    OfiBuffer* const kept = take_send_buffer();
    if (kept == nullptr) return false;
    write_message(kept->bytes, head, op);
    return keep(peer, head, *kept, bytes);
  }
  Scratch<std::byte, kLongestInjected> short_message;
  std::byte* to = short_message.data();
  OfiBuffer* buffer = nullptr;
  if (bytes > std::min(first_device().traits().inject_bytes, short_message.size())) {
    buffer = take_send_buffer();
    if (buffer == nullptr) return false;
    to = buffer->bytes;
  }
  write_message(to, head, op);
  if (const long code = hand_over(peer, to, bytes, buffer); code != 0) return code != -FI_EAGAIN;
  peer.room.on_telling(head.released);
  peer.room.on_sent();
  ++messages_sent_;
  return true;
}

// Tells the peer our status, how far we are, or both, when there is anything to tell.
void OfiFabric::show(OfiPeer& peer) {
  if (!peer.may_show() || peer.is_gone || !broken_.empty()) return;
  // What it says of messages that were sent before would not be true.
  if (peer.unsent != 0) return;
  const bool has_something = peer.shows_anew || peer.room.owes_room(peer.arrivals->released());
  // Without room for it, what the peer says next brings some.
  if (!has_something || !peer.room.may_show()) return;
  OfiShown shown{.head = head_for(peer, OfiKind::kShown), .words = peer.shows.words};
  shown.head.reads = peer.reach.reads_peer ? 1 : 0;
  auto* bytes = reinterpret_cast<std::byte*>(&shown);
  OfiBuffer* buffer = nullptr;
  if (sizeof(shown) > rails_[peer.message_lane].device->traits().inject_bytes) {
    buffer = take_send_buffer();
    if (buffer == nullptr) {
      make_owing(peer);
      return;
    }
    std::memcpy(buffer->bytes, &shown, sizeof(shown));
    bytes = buffer->bytes;
  }
  const long code = hand_over(peer, bytes, sizeof(shown), buffer);
  if (code == -FI_EAGAIN) make_owing(peer);
  if (code != 0) return;
  peer.shows_anew = false;
  peer.room.on_telling(shown.head.released);
  peer.room.on_show();
  ++shown_;
  if (peer.phase == OfiPeer::Phase::kAnswered) on_met(peer);
}

// What found no room before.
void OfiFabric::pay_debts() {
  for (std::size_t i = owing_.size(); i != 0; --i) {
    OfiPeer& peer = *owing_[i - 1];
    owing_[i - 1] = owing_.back();
    owing_.pop_back();
    peer.is_owing = false;
    if (peer.unsent != 0) send_kept(peer);
    show(peer);
    for (OfiLane& lane : peer.lanes)
      if (lane.wants_gate) look_at_gate(peer, lane);
  }
}

void OfiFabric::set_status(FabricPeer id, const FabricStatus& status) {
  OfiPeer& peer = *peers_[id.value];
  peer.shows = status;
  peer.shows_anew = true;
  show(peer);
}

// --- receiving ---

// Buffers are posted as far as libfabric takes them; the others follow as these are used up.
void OfiFabric::fill_receive_queue(OfiRail& rail) {
  const std::size_t most = std::min(rail.device->traits().receive_depth, receives_granted_);
  while (rail.receives_posted < most && broken_.empty()) {
    OfiBuffer* const buffer = receive_pool_.take();
    if (buffer == nullptr) return;
    buffer->rail = static_cast<std::uint8_t>(&rail - rails_.data());
    const long code = fi_recv(rail.device->endpoint(), buffer->bytes, kOfiBufferBytes,
                              buffer->descriptor(), FI_ADDR_UNSPEC, &buffer->context);
    if (code != 0) {
      receive_pool_.give_back(buffer);
      if (code != -FI_EAGAIN && rail.receives_posted == 0)
        break_down(fi_refused("fi_recv", code).message());
      return;
    }
    ++rail.receives_posted;
  }
}

void OfiFabric::fill_receive_queues() {
  for (OfiRail& rail : rails_)
    fill_receive_queue(rail);
}

namespace {

bool is_sound(const OfiPeer& peer, const OfiHead& head, const OfiBuffer& buffer) {
  switch (head.kind) {
    case OfiKind::kMessage:
      return head.header_bytes <= kFabricHeaderBytes &&
             buffer.filled >= sizeof(head) + head.header_bytes;
    case OfiKind::kShown:
      return buffer.filled == sizeof(OfiShown);
    case OfiKind::kRegion:
      return buffer.filled == sizeof(head) + sizeof(OfiRegionCard) && peer.has_several_lanes();
  }
  return false;
}

}  // namespace

void OfiFabric::take_message(OfiBuffer& buffer) {
  OfiHead head;
  if (buffer.filled < sizeof(head)) {
    ++nonsense_;
    receive_pool_.give_back(&buffer);
    return;
  }
  std::memcpy(&head, buffer.bytes, sizeof(head));  // once; what follows judges the copy
  OfiPeer* const peer = find(head.connection);
  if (peer == nullptr || !peer->arrivals || peer->is_gone_told) {
    ++stale_;
    receive_pool_.give_back(&buffer);
    return;
  }
  const bool is_shown = head.kind == OfiKind::kShown;
  bool is_honest = is_sound(*peer, head, buffer) && peer->room.on_told(head.released, head.heard);
  // Where messages go again by another lane, some come twice.
  const bool is_repeated =
      is_honest && !is_shown && peer->has_several_lanes() && peer->arrivals->has_had(head.number);
  if (is_honest && head.kind == OfiKind::kRegion) is_honest = take_region(*peer, buffer);
  if (is_honest && !is_shown && !is_repeated) is_honest = peer->arrivals->put(head.number, &buffer);
  if (!is_honest) {
    ++nonsense_;
    receive_pool_.give_back(&buffer);
    lose(*peer, "it sent what no version of this library sends");
    return;
  }
  if (peer->has_several_lanes()) forget_kept(*peer, peer->room.released_by_peer());
  if (!std::exchange(peer->is_heard, true)) {
    peer->reach.is_read_by_peer = head.reads == 1;
    if (peer->phase == OfiPeer::Phase::kTrying) on_met(*peer);
    if (peer->phase == OfiPeer::Phase::kAnswered) peer->shows_anew = true;
  }
  // It may have brought the room for what we had to say.
  if (peer->shows_anew || peer->room.owes_room(peer->arrivals->released())) make_owing(*peer);
  if (is_repeated) {
    ++repeated_;
    receive_pool_.give_back(&buffer);
  } else if (is_shown) {
    take_shown(*peer, head, buffer);
    receive_pool_.give_back(&buffer);
  } else {
    ++messages_received_;
    if (peer->has_several_lanes())
      std::atomic_ref(peer->gate->own.arrived)
          .store(peer->arrivals->arrived(), std::memory_order_relaxed);
    make_ready(*peer);
  }
  if (peer->is_to_be_shown) apply_shown(*peer);
}

void OfiFabric::take_shown(OfiPeer& peer, const OfiHead& head, const OfiBuffer& buffer) {
  if (peer.has_several_lanes())
    peer.room.on_shown_taken(head.serial);
  else
    peer.room.on_shown_taken();
  if (peer.room.owes_room(peer.arrivals->released())) make_owing(peer);
  const auto newer = static_cast<std::int16_t>(head.serial - peer.shown_serial);
  if (newer < 0 || peer.has_farewell) return;  // overtaken
  peer.shown_serial = static_cast<std::uint16_t>(head.serial + 1);
  std::memcpy(peer.to_be_shown.words.data(), buffer.bytes + sizeof(head),
              sizeof(peer.to_be_shown.words));
  peer.shown_after = head.number;
  peer.is_to_be_shown = true;
}

// A status is seen when the messages that were sent before it can be polled.
void OfiFabric::apply_shown(OfiPeer& peer) {
  if (static_cast<std::int32_t>(peer.arrivals->arrived() - peer.shown_after) < 0) return;
  peer.is_to_be_shown = false;
  if (peer.shown.words == peer.to_be_shown.words) return;
  peer.shown = peer.to_be_shown;
  peer.has_news = true;
  make_ready(peer);
}

void OfiFabric::on_completion(OfiOperation& done, std::size_t bytes) {
  switch (done.kind) {
    case OfiOperation::Kind::kReceive: {
      auto& buffer = static_cast<OfiBuffer&>(done);
      --rails_[buffer.rail].receives_posted;
      buffer.filled = static_cast<std::uint32_t>(bytes);
      take_message(buffer);
      return;
    }
    case OfiOperation::Kind::kSend:
      on_sent(static_cast<OfiBuffer&>(done));
      return;
    case OfiOperation::Kind::kRead:
      on_landed(static_cast<OfiRead&>(done));
      return;
    case OfiOperation::Kind::kGate:
      on_gate(static_cast<OfiGateRead&>(done), true);
      return;
  }
}

void OfiFabric::on_sent(OfiBuffer& buffer) {
  OfiPeer& peer = *buffer.peer;
  buffer.is_under_way = false;
  if (!buffer.is_kept) send_pool_.give_back(&buffer);
  --peer.sends_under_way;
  if (peer.phase == OfiPeer::Phase::kLeaving) free_if_done(peer);
}

// Something failed: a read, which the engine hears of, or what makes a connection useless.
void OfiFabric::on_failure(const OfiRail& rail) {
  fid_cq* const completions = rail.device->completions();
  fi_cq_err_entry entry{};
  if (fi_cq_readerr(completions, &entry, 0) != 1) return;
  std::array<char, 256> text{};
  const char* words =
      fi_cq_strerror(completions, entry.prov_errno, entry.err_data, text.data(), text.size());
  const int error = std::abs(entry.err);  // shm of libfabric 1.17 has them negative
  std::string why = fi_strerror(error);
  if (words != nullptr && *words != 0 && why != words) why += std::string(" (") + words + ")";
  if (entry.op_context != nullptr)
    on_failed(*reinterpret_cast<OfiOperation*>(entry.op_context), error, why);
  else
    on_nameless_failure(rail, entry, why);
}

// Of what was injected, which has no context, and whose peer's end is heard of otherwise; where it
// was kept, it goes again when it is missed. Or of a read: shm of libfabric 1.17, which does a read
// while it is posted and tells of them in their order, does not say which.
void OfiFabric::on_nameless_failure(const OfiRail& rail, const fi_cq_err_entry& entry,
                                    const std::string& why) {
  if ((entry.flags & (FI_MSG | FI_SEND | FI_RECV)) != 0) return;
  const auto number = static_cast<std::size_t>(&rail - rails_.data());
  OfiReading* oldest = nullptr;
  const auto look = [&oldest](OfiReading& one) {
    if (one.serial != 0 && (oldest == nullptr || one.serial < oldest->serial)) oldest = &one;
  };
  for (const auto& peer : peers_) {
    if (!peer || number >= peer->lanes.size()) continue;
    for (OfiRead* read : peer->reads)
      if (read->lane == number) look(*read);
    for (OfiGateRead& gate : peer->lanes[number].gate_reads)
      look(gate);
  }
  if (oldest != nullptr) on_failed(*oldest, std::abs(entry.err), why);
}

void OfiFabric::on_failed(OfiOperation& failed, int error, const std::string& why) {
  switch (failed.kind) {
    case OfiOperation::Kind::kReceive: {
      auto& buffer = static_cast<OfiBuffer&>(failed);
      --rails_[buffer.rail].receives_posted;
      receive_pool_.give_back(&buffer);
      ++nonsense_;
      return;
    }
    case OfiOperation::Kind::kSend: {
      auto& buffer = static_cast<OfiBuffer&>(failed);
      OfiPeer& peer = *buffer.peer;
      const std::string what = "a message could not be delivered: " + why;
      const std::uint8_t lane = buffer.rail;
      const bool is_leaving = peer.phase == OfiPeer::Phase::kLeaving;
      if (!is_leaving && !peer.has_several_lanes()) lose(peer, what);
      on_sent(buffer);
      if (!is_leaving && peer.has_several_lanes()) fail_lane(peer, peer.lanes[lane], what);
      return;
    }
    case OfiOperation::Kind::kRead:
    case OfiOperation::Kind::kGate: {
      OfiPeer& peer = *static_cast<OfiReading&>(failed).peer;
      peer.read_error = "reading the memory of " + describe_peer(peer.id) + ": " + why;
      if (failed.kind == OfiOperation::Kind::kGate)
        on_gate(static_cast<OfiGateRead&>(failed), false);
      else
        on_read_failed(static_cast<OfiRead&>(failed), error);
      return;
    }
  }
}

std::size_t OfiFabric::take_completions(OfiRail& rail) {
  if (!broken_.empty()) return 0;
  Scratch<fi_cq_msg_entry, kCompletionsAtOnce> entries;
  const ssize_t count = fi_cq_read(rail.device->completions(), entries.data(), entries.size());
  if (count == -FI_EAVAIL) {
    on_failure(rail);
    return 1;
  }
  const std::size_t taken = count > 0 ? static_cast<std::size_t>(count) : 0;
  if (options_.shuffle_seed != 0) return take_shuffled(std::span(entries).first(taken));
  for (std::size_t i = 0; i < taken; ++i)
    on_completion(*static_cast<OfiOperation*>(entries[i].op_context), entries[i].len);
  if (taken != 0) fill_receive_queue(rail);
  return taken;
}

std::size_t OfiFabric::take_completions() {
  std::size_t taken = 0;
  for (OfiRail& rail : rails_)
    taken += take_completions(rail);
  return taken;
}

// As a medium without any order would deliver it.
std::size_t OfiFabric::take_shuffled(std::span<const fi_cq_msg_entry> entries) {
  late_.insert(late_.end(), entries.begin(), entries.end());
  std::size_t left = late_.empty() ? 0 : shuffle_.below(late_.size() + 1);
  const std::size_t taken = left;
  for (; left != 0; --left) {
    std::swap(late_[shuffle_.below(late_.size())], late_.back());
    const fi_cq_msg_entry one = late_.back();
    late_.pop_back();
    on_completion(*static_cast<OfiOperation*>(one.op_context), one.len);
  }
  fill_receive_queues();
  return taken;
}

}  // namespace spindrift
