// How connections of the libfabric fabric end.
#include <algorithm>
#include <atomic>
#include <utility>

#include "providers/libfabric/ofi_host.h"

namespace spindrift {
namespace {

// How long messages may be on their way behind the news of their sender's end: with its farewell,
// which says how many there are, and without.
constexpr Duration kStragglers = std::chrono::seconds(2);
constexpr Duration kStragglersOfDead = std::chrono::milliseconds(50);

bool is_over(std::uint32_t arrived, std::uint32_t sent) {
  return static_cast<std::int32_t>(arrived - sent) >= 0;
}

}  // namespace

void OfiFabric::lose(OfiPeer& peer, std::string cause) {
  if (peer.is_gone || peer.phase == OfiPeer::Phase::kLeaving) return;
  peer.is_gone = true;
  peer.cause = std::move(cause);
  peer.since = now();
  peer.talk.close();
  if (peer.phase != OfiPeer::Phase::kCalled) ++gone_untold_;
}

// Once what they had sent has been polled. What is still on its way when they are lost gets a while
// to arrive.
void OfiFabric::tell_those_that_are_gone() {
  const Time when = now();
  for (const auto& holder : peers_) {
    if (!holder || !holder->is_gone || holder->is_gone_told || holder->is_dropped) continue;
    OfiPeer& peer = *holder;
    const bool is_patient = peer.arrivals && peer.phase == OfiPeer::Phase::kOpen && broken_.empty();
    if (is_patient) {
      const Duration limit = peer.has_farewell ? kStragglers : kStragglersOfDead;
      const bool is_complete =
          peer.has_farewell && is_over(peer.arrivals->arrived(), peer.shown_after);
      if (!is_complete && when - peer.since < limit) continue;
      if (peer.is_to_be_shown) {
        peer.shown_after = peer.arrivals->arrived();
        apply_shown(peer);
      }
      if (peer.arrivals->has_next() || peer.has_news) continue;
    } else if (peer.has_farewell) {
      peer.shown = peer.to_be_shown;
    }
    peer.is_gone_told = true;
    --gone_untold_;
    tell({.kind = FabricEvent::Kind::kGone, .peer = peer.id, .cause = peer.cause});
  }
}

void OfiFabric::drop(FabricPeer id) {
  leave(*peers_[id.value]);
}

// What libfabric still holds of it keeps the peer, and its number, for a while.
void OfiFabric::leave(OfiPeer& peer) {
  peer.is_dropped = true;
  if (peer.gate != nullptr) {
    // Before anything else: what the peer reads from now on, it will not take for ours.
    std::atomic_ref(peer.gate->own.name).store(0, std::memory_order_seq_cst);
    end_reads_of(peer);
  }
  if (peer.has_met() && !peer.is_gone)
    peer.talk.send(greeting(peer, OfiGreetingKind::kFarewell, {}));
  peer.talk.close();
  if (peer.is_gone && !peer.is_gone_told && peer.phase != OfiPeer::Phase::kCalled) --gone_untold_;
  if (peer.phase != OfiPeer::Phase::kOpen) --opening_;
  std::erase(ready_, &peer);
  std::erase(owing_, &peer);
  std::erase_if(events_, [&peer](const FabricEvent& event) { return event.peer == peer.id; });
  for (std::size_t i = reads_done_.size(); i != 0; --i) {
    const ReadDone done = reads_done_.front();
    reads_done_.pop_front();
    if (done.peer != peer.id) reads_done_.push_back(done);
  }
  while (!peer.reads.empty())
    finish_read(*peer.reads.back(), FabricCompletion::Fault::kLost);
  forget_kept(peer, peer.room.sent());
  for (OfiLane& lane : peer.lanes)
    if (std::exchange(lane.is_trouble, false)) --troubles_;
  if (peer.arrivals)
    peer.arrivals->clear([this](OfiBuffer* buffer) { receive_pool_.give_back(buffer); });
  if (peer.has_grant) receives_granted_ -= options_.buffers + kShownRoom;
  peer.phase = OfiPeer::Phase::kLeaving;
  ++leaving_;
  free_if_done(peer);
}

void OfiFabric::free_if_done(OfiPeer& peer) {
  if (peer.sends_under_way != 0) return;
  --leaving_;
  for (std::size_t i = 0; i < peer.lanes.size(); ++i)
    if (peer.lanes[i].to != FI_ADDR_UNSPEC)
      rails_[i].device->remove_peer(peer.lanes[i].name, peer.lanes[i].to);
  if (peer.gate != nullptr) free_gates_.push_back(peer.gate_place);
  const std::uint32_t index = peer.id.value;
  peers_[index].reset();
  free_peers_.push_back(index);
}

}  // namespace spindrift
