#pragma once
// A network without endpoints: the test sends packets and sees what comes out.
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "sim/derive.h"
#include "sim/network.h"
#include "sim/topology.h"

namespace spindrift::sim {

struct Seen {
  Picoseconds at = 0;
  std::uint32_t source = 0;
  std::uint16_t tag = 0;  // Packet::entropy
  std::uint32_t wire_bytes = 0;
  bool is_marked = false;
  bool is_trimmed = false;
  bool is_trimmed_last_hop = false;
};

class BareNetwork final : public HostSide {
 public:
  static constexpr std::uint32_t kFrame = 4160;

  BareNetwork(const TopologySpec& topology, const SwitchSpec& switches)
      : BareNetwork(std::get<NetworkPlan>(plan_network(topology)), switches) {}
  BareNetwork(NetworkPlan plan, const SwitchSpec& switches)
      : plan_(std::move(plan)),
        events_({.actors = Network::actors_for(plan_) + 1, .seed = 1}),
        network_(plan_,
                 {.switches = switches,
                  .ports = port_limits(switches, switches, plan_),
                  .kept_bytes = 64,
                  .max_bytes = 64,
                  .seed = 1},
                 events_, *this) {}

  EventList& events() { return events_; }
  Network& network() { return network_; }
  const NetworkPlan& plan() const { return plan_; }
  const std::vector<Seen>& seen() const { return seen_; }
  std::uint32_t port(const std::string& from, const std::string& to) const {
    for (std::uint32_t i = 0; i < 2 * plan_.links.size(); ++i)
      if (plan_.nodes[plan_.near_end(i)].name == from && plan_.nodes[plan_.far_end(i)].name == to)
        return i;
    return kNoPort;
  }
  void send(std::uint32_t from, std::uint32_t to, std::uint16_t tag,
            TrafficClass traffic = TrafficClass::kData, std::uint32_t bytes = kFrame) {
    const PacketId id = network_.packets().take();
    Packet& packet = network_.packets()[id];
    packet.source = from;
    packet.destination = to;
    packet.entropy = tag;
    packet.tuple_hash = tag * 2654435761U;
    packet.traffic = traffic;
    packet.wire_bytes = bytes;
    packet.ecn = Ecn::kEct0;
    network_.send(id);
  }
  // Until nothing happens any more, or `until`.
  void run(Picoseconds until = kEndOfTime - 1) {
    for (EventList::Actor actor = events_.next(until); actor != EventList::kNobody;
         actor = events_.next(until)) {
      if (actor == timer() && on_timer)
        on_timer();
      else
        network_.on_event(actor);
    }
  }
  EventList::Actor timer() const { return Network::actors_for(plan_); }
  std::function<void()> on_timer;

 private:
  void on_packet(std::uint32_t /*nic*/, PacketId id) override {
    const Packet& packet = network_.packets()[id];
    seen_.push_back({.at = events_.now(),
                     .source = packet.source,
                     .tag = packet.entropy,
                     .wire_bytes = packet.wire_bytes,
                     .is_marked = packet.ecn == Ecn::kCe,
                     .is_trimmed = packet.is_trimmed,
                     .is_trimmed_last_hop = packet.is_trimmed_last_hop});
    network_.packets().give_back(id);
  }
  void on_port_free(std::uint32_t /*nic*/) override {}

  NetworkPlan plan_;
  EventList events_;
  Network network_;
  std::vector<Seen> seen_;
};

}  // namespace spindrift::sim
