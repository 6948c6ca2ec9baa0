// What has come over libfabric, as the engine takes it.
#include <cstring>

#include "providers/libfabric/ofi_host.h"

namespace spindrift {

std::size_t OfiFabric::poll_peer(OfiPeer& peer, std::span<FabricCompletion> out) {
  std::size_t count = 0;
  while (count < out.size() && peer.arrivals->has_next() &&
         peer.arrivals->held() < caps_.max_held) {
    const OfiBuffer& buffer = *peer.arrivals->take();
    OfiHead head;
    std::memcpy(&head, buffer.bytes, sizeof(head));
    if (head.kind == OfiKind::kRegion) {
      release_regions(peer);
      continue;
    }
    FabricCompletion& to = out[count++];
    const std::byte* const header = buffer.bytes + sizeof(head);
    to.kind = FabricCompletion::Kind::kMessage;
    to.lane = 0;
    to.peer = peer.id;
    std::memcpy(to.header.data(), header, kFabricHeaderBytes);
    to.payload = {header + head.header_bytes, buffer.filled - sizeof(head) - head.header_bytes};
  }
  if (peer.has_lane_news && events_.empty()) [[unlikely]]
    count += tell_lanes(peer, out.subspan(count));
  if (count < out.size() && peer.has_news) {
    peer.has_news = false;
    out[count].kind = FabricCompletion::Kind::kStatus;
    out[count].peer = peer.id;
    ++count;
  }
  return count;
}

// Those that stand first among what was handed out: they were heeded when they came.
void OfiFabric::release_regions(OfiPeer& peer) {
  while (peer.arrivals->held() != 0) {
    OfiHead head;
    std::memcpy(&head, peer.arrivals->oldest_held()->bytes, sizeof(head));
    if (head.kind != OfiKind::kRegion) return;
    receive_pool_.give_back(peer.arrivals->release());
  }
}

bool OfiFabric::has_more(const OfiPeer& peer) const {
  return peer.has_news || peer.has_lane_news ||
         (peer.arrivals->has_next() && peer.arrivals->held() < caps_.max_held);
}

std::size_t OfiFabric::poll(std::span<FabricCompletion> out) {
  if (rails_.empty()) return 0;
  if (!owing_.empty()) [[unlikely]]
    pay_debts();
  take_completions();
  std::size_t count = 0;
  for (; count < out.size() && !reads_done_.is_empty(); ++count) {
    const ReadDone& done = reads_done_.front();
    out[count].kind = FabricCompletion::Kind::kRead;
    out[count].peer = done.peer;
    out[count].lane = done.lane;
    out[count].tag = done.tag;
    out[count].fault = done.fault;
    out[count].is_ok = done.fault == FabricCompletion::Fault::kNone;
    reads_done_.pop_front();
  }
  // Whoever was served and still has something waits behind the others.
  std::size_t served = 0;
  for (const std::size_t all = ready_.size(); served < all && count < out.size(); ++served) {
    OfiPeer& peer = *ready_[served];
    peer.is_ready = false;
    if (!peer.is_polled()) continue;
    count += poll_peer(peer, out.subspan(count));
    if (has_more(peer)) make_ready(peer);
  }
  ready_.erase(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(served));
  return count;
}

void OfiFabric::release(const FabricCompletion& message) {
  OfiPeer& peer = *peers_[message.peer.value];
  receive_pool_.give_back(peer.arrivals->release());
  if (peer.has_several_lanes()) release_regions(peer);
  if (peer.arrivals->has_next()) make_ready(peer);
  if (peer.room.owes_room(peer.arrivals->released())) make_owing(peer);
  fill_receive_queues();
}

}  // namespace spindrift
