// Connections over several rails: which lanes live, messages that go again by another one, and how
// the memory of either side is named by each.
#include <algorithm>
#include <cstring>
#include <utility>

#include "providers/libfabric/ofi_host.h"

namespace spindrift {
namespace {

// How long a peer's reads may all be silent.
constexpr std::chrono::seconds kReadsMayTake(10);
// A lane that is tried out has so long, where nobody else uses its rail.
constexpr Duration kTrialTakes = std::chrono::seconds(1);

}  // namespace

// --- which lanes live ---

// Nothing of it lands any more.
void OfiFabric::fail_lane(OfiPeer& peer, OfiLane& lane, const std::string& why) {
  using State = OfiLane::State;
  if (lane.state == State::kDown || peer.is_gone || peer.phase == OfiPeer::Phase::kLeaving) return;
  const State before = std::exchange(lane.state, State::kDown);
  const std::size_t number = lane_index(peer, lane);
  lane.trouble = why;
  lane.retry_at = now() + lane.pause;
  lane.pause = std::min(2 * lane.pause, OfiLane::kLongestPause);
  peer.read_error =
      describe_peer(peer.id) + " by " + describe_lane(peer.id, static_cast<std::uint16_t>(number));
  turns_to_look_ = 1;
  if (before == State::kUp || !peer.has_tried) {
    ++lanes_lost_;
    if (!std::exchange(lane.is_trouble, true)) ++troubles_;
    peer.has_lane_news = true;
    make_ready(peer);
  }
  if (lane.reads_under_way != 0) stop_reads(number);
  // Of those that have landed nobody will know whether they count.
  for (std::size_t i = peer.reads.size(); i != 0; --i)
    if (OfiRead& read = *peer.reads[i - 1]; read.lane == number)
      finish_read(read, FabricCompletion::Fault::kLost);
  if (number == peer.message_lane && peer.has_tried) change_message_lane(peer);
}

void OfiFabric::bring_up(OfiPeer& peer, OfiLane& lane) {
  ++lanes_mended_;
  if (std::exchange(lane.is_trouble, false)) --troubles_;
  lane.state = OfiLane::State::kUp;
  lane.trouble.clear();
  lane.pause = OfiLane::kFirstPause;
  peer.has_lane_news = true;
  make_ready(peer);
  if (!peer.lanes[peer.message_lane].is_up()) change_message_lane(peer);
}

// What the peer may not have got goes again.
void OfiFabric::change_message_lane(OfiPeer& peer) {
  const auto up = std::find_if(peer.lanes.begin(), peer.lanes.end(),
                               [](const OfiLane& lane) { return lane.is_up(); });
  if (up != peer.lanes.end()) peer.message_lane = static_cast<std::uint16_t>(lane_index(peer, *up));
  peer.room.forget_shown();
  peer.shows_anew = true;
  send_again(peer, peer.room.released_by_peer());
}

// Whether nobody's reads are lost with those of a lane that is down anyway.
bool OfiFabric::may_renew_reader(std::size_t rail) const {
  return std::none_of(peers_.begin(), peers_.end(), [rail](const auto& peer) {
    return peer && rail < peer->lanes.size() && peer->phase != OfiPeer::Phase::kLeaving &&
           peer->lanes[rail].is_up();
  });
}

// Reads the gate of a peer by a lane that is down. A connection of the provider's own that was made
// while the way was cut may wait long until it tries again: where nobody else has a use for it, it
// is made anew.
void OfiFabric::try_again(OfiPeer& peer, OfiLane& lane, Time when) {
  const std::size_t rail = lane_index(peer, lane);
  lane.retry_at = when + lane.pause;
  lane.pause = std::min(2 * lane.pause, OfiLane::kLongestPause);
  if (may_renew_reader(rail)) stop_reads(rail);
  if (rails_[rail].device->reader() == nullptr) return;
  lane.state = OfiLane::State::kTrying;
  lane.retry_at = when;
  look_at_gate(peer, lane);
}

// Whether another lane has answered what it was asked after `since`; asks one if none was.
bool OfiFabric::has_answered_since(OfiPeer& peer, const OfiLane& silent, Time since, Time when) {
  // One that answers at last, as that one may, too, is given a moment.
  const Duration moment = std::chrono::milliseconds(options_.silent_ms) / 4;
  OfiLane* asked = nullptr;
  for (OfiLane& lane : peer.lanes) {
    if (&lane == &silent || !lane.is_up()) continue;
    if (lane.last_gate_begun > since) return when - lane.last_gate_ended >= moment;
    if (lane.reads_under_way != 0) return false;  // to be seen
    asked = &lane;
  }
  if (asked != nullptr) begin_gate(peer, *asked, asked->gate_reads.front());
  return false;
}

void OfiFabric::watch_lane(OfiPeer& peer, OfiLane& lane, Time when) {
  if (lane.state == OfiLane::State::kDown) {
    if (when >= lane.retry_at) try_again(peer, lane, when);
    return;
  }
  if (lane.state == OfiLane::State::kTrying) {
    if (when - lane.retry_at < kTrialTakes || !may_renew_reader(lane_index(peer, lane))) return;
    fail_lane(peer, lane, lane.trouble);
    return;
  }
  if (lane.reads_under_way == 0) {
    lane.stuck_since = kNever;
  } else if (lane.stuck_since == kNever || lane.reads_ended != lane.reads_ended_before) {
    lane.stuck_since = when;
    lane.reads_ended_before = lane.reads_ended;
  } else if (peer.has_several_lanes() &&
             when - lane.stuck_since >= std::chrono::milliseconds(options_.silent_ms) &&
             has_answered_since(peer, lane, lane.stuck_since, when)) {
    fail_lane(
        peer, lane,
        "silent for " + std::to_string(options_.silent_ms) + " ms, while another lane answers");
  }
}

// Messages that the peer has not released for long: how many it has got is read beside its gate.
void OfiFabric::watch_messages(OfiPeer& peer, Time when) {
  OfiLane& lane = peer.lanes[peer.message_lane];
  if (peer.kept.empty() || !lane.is_up() || lane.reads_under_way != 0) return;
  if (when - peer.kept.front()->sent < std::chrono::milliseconds(options_.silent_ms)) return;
  begin_gate(peer, lane, lane.gate_reads.front());
}

// libfabric owes each read an end. Where a peer's reads have none (ofi_rxd of libfabric 1.17, when
// the peer's memory may not be read), the connection ends instead.
void OfiFabric::watch_lanes() {
  const Time when = now();
  for (const auto& holder : peers_) {
    if (!holder || holder->is_gone || holder->lanes.empty()) continue;
    OfiPeer& peer = *holder;
    if (peer.phase != OfiPeer::Phase::kOpen) {
      watch_trial(peer, when);
      continue;
    }
    for (OfiLane& lane : peer.lanes)
      watch_lane(peer, lane, when);
    if (peer.has_several_lanes()) watch_messages(peer, when);
    const auto is_down = [](const OfiLane& lane) { return !lane.is_up(); };
    const auto is_silent = [&](const OfiLane& lane) {
      return is_down(lane) ||
             (lane.stuck_since != kNever && when - lane.stuck_since >= kReadsMayTake);
    };
    if (std::all_of(peer.lanes.begin(), peer.lanes.end(), is_down)) {
      if (peer.is_mute) lose(peer, "its TCP connection was cut, and no lane reaches it");
    } else if (std::all_of(peer.lanes.begin(), peer.lanes.end(), is_silent)) {
      lose(peer, "for " + std::to_string(kReadsMayTake.count()) +
                     " s no read of its memory has come to an end");
    }
  }
}

// While two sides connect: those lanes that have not answered a while after the first are down.
void OfiFabric::watch_trial(OfiPeer& peer, Time when) {
  if (peer.has_tried || !peer.has_several_lanes()) return;
  for (OfiLane& lane : peer.lanes)
    if (lane.state == OfiLane::State::kTrying && lane.retry_at != Time{} &&
        when - lane.retry_at >= std::chrono::milliseconds(options_.silent_ms) &&
        has_answered_since(peer, lane, Time{}, when))
      on_lane_tried(peer, lane, false);
}

std::size_t OfiFabric::tell_lanes(OfiPeer& peer, std::span<FabricCompletion> out) {
  std::size_t count = 0;
  peer.has_lane_news = false;
  for (OfiLane& lane : peer.lanes) {
    const bool is_down = !lane.is_up();
    if (is_down == lane.is_told_down) continue;
    if (count == out.size()) {
      peer.has_lane_news = true;
      break;
    }
    lane.is_told_down = is_down;
    FabricCompletion& to = out[count++];
    to.kind = FabricCompletion::Kind::kLane;
    to.is_ok = !is_down;
    to.lane = static_cast<std::uint16_t>(lane_index(peer, lane));
    to.peer = peer.id;
  }
  return count;
}

// --- messages that are kept ---

// False: libfabric has no room, and it was given back.
bool OfiFabric::keep(OfiPeer& peer, const OfiHead& head, OfiBuffer& buffer, std::size_t bytes) {
  buffer.filled = static_cast<std::uint32_t>(bytes);
  buffer.number = head.number;
  buffer.is_kept = true;
  const bool waits = peer.unsent != 0 || !peer.lanes[peer.message_lane].is_up();
  peer.kept.push_back(&buffer);
  if (waits) {
    ++peer.unsent;
  } else if (const bool has_room = hand_over_kept(peer, buffer); !has_room) {
    // Where the lane has failed with it, it goes again with the others.
    if (peer.unsent == 0) {
      peer.kept.pop_back();
      buffer.is_kept = false;
      send_pool_.give_back(&buffer);
      return false;
    }
  }
  peer.room.on_telling(head.released);
  peer.room.on_sent();
  ++messages_sent_;
  return true;
}

bool OfiFabric::hand_over_kept(OfiPeer& peer, OfiBuffer& buffer) {
  const OfiDevice& device = *rails_[peer.message_lane].device;
  const bool is_short = buffer.filled <= device.traits().inject_bytes;
  buffer.peer = &peer;
  buffer.sent = now();
  return hand_over(peer, buffer.bytes, buffer.filled, is_short ? nullptr : &buffer) == 0;
}

// Those that were not handed over, in their order.
void OfiFabric::send_kept(OfiPeer& peer) {
  while (peer.unsent != 0 && peer.lanes[peer.message_lane].is_up() && !peer.is_gone) {
    OfiBuffer*& kept = peer.kept[peer.kept.size() - peer.unsent];
    if (kept->is_under_way) {
      // libfabric still has it, for the lane that failed: a copy goes.
      OfiBuffer* const copy = take_send_buffer();
      if (copy == nullptr) break;
      std::memcpy(copy->bytes, kept->bytes, kept->filled);
      copy->filled = kept->filled;
      copy->number = kept->number;
      copy->is_kept = true;
      kept->is_kept = false;
      kept = copy;
    }
    const std::size_t before = peer.unsent;
    if (!hand_over_kept(peer, *kept)) {
      if (peer.unsent != before) continue;  // by another lane, all of them
      break;
    }
    --peer.unsent;
  }
  if (peer.unsent != 0) make_owing(peer);
}

void OfiFabric::send_again(OfiPeer& peer, std::uint32_t from) {
  std::size_t count = 0;
  while (count < peer.kept.size() &&
         static_cast<std::int32_t>(peer.kept[peer.kept.size() - 1 - count]->number - from) >= 0)
    ++count;
  if (count <= peer.unsent) {
    make_owing(peer);
    return;
  }
  sent_again_ += count - peer.unsent;
  peer.unsent = count;
  make_owing(peer);
}

void OfiFabric::forget_kept(OfiPeer& peer, std::uint32_t released) {
  while (!peer.kept.empty()) {
    OfiBuffer& buffer = *peer.kept.front();
    if (static_cast<std::int32_t>(released - buffer.number) <= 0) return;
    peer.kept.pop_front();
    peer.unsent = std::min(peer.unsent, peer.kept.size());
    buffer.is_kept = false;
    if (!buffer.is_under_way) send_pool_.give_back(&buffer);
  }
}

// Its gate was read after what it has not got was sent, and long after: that is lost.
void OfiFabric::on_gate_count(OfiPeer& peer, const OfiGateRead& gate, std::uint32_t arrived) {
  if (peer.kept.empty() || peer.unsent != 0) return;
  const auto missed = std::find_if(peer.kept.begin(), peer.kept.end(), [arrived](auto* buffer) {
    return static_cast<std::int32_t>(buffer->number - arrived) >= 0;
  });
  // What it has it is busy with.
  for (auto had = peer.kept.begin(); had != missed; ++had)
    (*had)->sent = std::max((*had)->sent, gate.begun);
  const Duration limit = std::chrono::milliseconds(options_.silent_ms);
  if (missed != peer.kept.end() && gate.begun - (*missed)->sent >= limit)
    send_again(peer, (*missed)->number);
}

// --- memory ---

// False: there is no room to say so now.
bool OfiFabric::tell_region(OfiPeer& peer, const OfiMemory::Region& region) {
  if (region.slot < peer.told.size() && peer.told[region.slot] == region.generation) return true;
  if (peer.is_gone || !peer.room.has_room() || region.slot >= kMostOfiRegions) return false;
  OfiBuffer* const buffer = take_send_buffer();
  if (buffer == nullptr) return false;
  const OfiHead head = head_for(peer, OfiKind::kRegion);
  OfiRegionCard card{.slot = region.slot, .generation = region.generation};
  for (std::size_t i = 0; i < peer.lanes.size(); ++i) {
    const OfiRemoteMemory& remote = region.registration.remote(i);
    card.lanes[i] = {.address = remote.address, .key = remote.key};
  }
  std::memcpy(buffer->bytes, &head, sizeof(head));
  std::memcpy(buffer->bytes + sizeof(head), &card, sizeof(card));
  if (!keep(peer, head, *buffer, sizeof(head) + sizeof(card))) return false;
  if (region.slot >= peer.told.size()) peer.told.resize(region.slot + 1, 0);
  peer.told[region.slot] = region.generation;
  return true;
}

// False: no honest peer says that.
bool OfiFabric::take_region(OfiPeer& peer, const OfiBuffer& buffer) {
  OfiRegionCard card;
  std::memcpy(&card, buffer.bytes + sizeof(OfiHead), sizeof(card));
  if (card.slot >= kMostOfiRegions) return false;
  OfiTheirRegion& known = peer.regions[card.slot];
  // One that was sent again comes after its successor, perhaps.
  if (static_cast<std::int32_t>(card.generation - known.generation) <= 0 && known.generation != 0)
    return true;
  known = {.generation = card.generation, .lanes = card.lanes};
  return true;
}

bool OfiFabric::find_theirs(const OfiPeer& peer, const RemoteSpan& span, std::size_t lane,
                            OfiRegionCard::ByLane& out) const {
  const auto found = peer.regions.find(static_cast<std::uint32_t>(span.key));
  if (found == peer.regions.end() || found->second.generation != span.key >> 32U) return false;
  out = found->second.lanes[lane];
  out.address += span.address;
  return true;
}

}  // namespace spindrift
