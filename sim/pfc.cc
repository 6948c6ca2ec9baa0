// Priority flow control: a switch counts what came in through each link and still waits; above XOFF
// it tells the far end to stop sending data, below XON to go on. Pause frames are packets that
// overtake all others.
#include <algorithm>

#include "sim/network.h"

namespace spindrift::sim {
namespace {

constexpr std::uint32_t kPauseFrameBytes = 64 + 20;  // with preamble and gap

}  // namespace

void Network::take_into_ingress(std::uint32_t ingress, const Packet& packet) {
  Port& in = ports_[ingress];
  in.ingress_bytes += packet.wire_bytes;
  if (in.ingress_bytes > spec_.xoff_bytes && !in.has_sent_pause) send_pause(ingress, true);
}

void Network::take_out_of_ingress(const Packet& packet) {
  Port& in = ports_[packet.ingress];
  in.ingress_bytes -= packet.wire_bytes;
  if (in.has_sent_pause && in.ingress_bytes <= spec_.xon_bytes) send_pause(packet.ingress, false);
}

// Out of the opposite direction of the link.
void Network::send_pause(std::uint32_t ingress, bool pauses) {
  ports_[ingress].has_sent_pause = pauses;
  if (pauses) ++pauses_sent_;
  const PacketId id = packets_.take();
  Packet& frame = packets_[id];
  frame.traffic = TrafficClass::kPause;
  frame.wire_bytes = kPauseFrameBytes;
  frame.pauses = pauses;
  const std::uint32_t back = ingress ^ 1U;
  enqueue(back, id);
}

void Network::on_pause(std::uint32_t port, bool pauses) {
  Port& p = ports_[port];
  if (p.is_paused == pauses) return;
  p.is_paused = pauses;
  if (observer_ != nullptr) tell(pauses ? EventKind::kPause : EventKind::kResume, port);
  const Picoseconds now = events_.now();
  if (pauses) {
    ++p.counted.pauses_received;
    p.paused_since = now;
    return;
  }
  p.counted.paused += now - p.paused_since;
  if ((p.waiting != 0 || p.wants_free) && !events_.is_scheduled(transmitter(port)))
    events_.schedule(transmitter(port), std::max(p.free_at, now));
}

// Port p, paused by switch S at its far end, waits until S sends on what p brought; S's egress
// ports that hold such packets and are paused themselves are what p waits for.
std::vector<std::vector<std::uint32_t>> Network::find_deadlocks(Picoseconds longer_than) const {
  enum class Visit : std::uint8_t { kNew, kOpen, kDone };
  std::vector<Visit> visits(ports_.size(), Visit::kNew);
  const auto is_stuck = [&](std::uint32_t port) {
    return ports_[port].is_paused && events_.now() - ports_[port].paused_since >= longer_than;
  };
  const auto waits_for = [&](std::uint32_t port) {
    std::vector<std::uint32_t> out;
    for (std::uint32_t egress = 0; egress < ports_.size(); ++egress) {
      if (!is_stuck(egress) || near_node(ports_[egress]) != ports_[port].far_node) continue;
      const Queue& data = ports_[egress].queues[static_cast<std::size_t>(TrafficClass::kData)];
      for (PacketId id = data.head; id != kNoPacket; id = packets_[id].next) {
        if (packets_[id].ingress != port) continue;
        out.push_back(egress);
        break;
      }
    }
    return out;
  };
  std::vector<std::vector<std::uint32_t>> cycles;
  for (std::uint32_t start = 0; start < ports_.size(); ++start) {
    if (visits[start] != Visit::kNew || !is_stuck(start)) continue;
    std::vector<std::uint32_t> trail{start};
    std::vector<std::vector<std::uint32_t>> pending{waits_for(start)};
    visits[start] = Visit::kOpen;
    while (!trail.empty()) {
      if (pending.back().empty()) {
        visits[trail.back()] = Visit::kDone;
        trail.pop_back();
        pending.pop_back();
        continue;
      }
      const std::uint32_t next = pending.back().back();
      pending.back().pop_back();
      if (visits[next] == Visit::kOpen)
        cycles.emplace_back(std::find(trail.begin(), trail.end(), next), trail.end());
      if (visits[next] != Visit::kNew) continue;
      visits[next] = Visit::kOpen;
      trail.push_back(next);
      pending.push_back(waits_for(next));
    }
  }
  return cycles;
}

}  // namespace spindrift::sim
