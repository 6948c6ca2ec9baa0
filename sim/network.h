#pragma once
// The simulated network: ports, links, switches. Packets that hosts send come out at other hosts,
// later, or never. Hosts and workloads are elsewhere.
//
//   host --[NIC port]--link--> switch: route, [egress port: pause | control | trimmed |
//   data]--link-->
//
// A port is one direction of a link: the queue before it, the transmitter and the wire behind it.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/event_list.h"
#include "sim/history_hash.h"
#include "sim/network_plan.h"
#include "sim/observer.h"
#include "sim/packet_pool.h"
#include "sim/routing.h"
#include "sim/simulation.h"

namespace spindrift::sim {

// What the network tells hosts.
class HostSide {
 public:
  virtual ~HostSide() = default;
  // The packet is the host's from now on, to be given back.
  virtual void on_packet(std::uint32_t nic, PacketId packet) = 0;
  // The NIC's port has sent what it had, or may send again; only after wants_free().
  virtual void on_port_free(std::uint32_t nic) = 0;
};

class Network {
 public:
  struct Shape {
    SwitchSpec switches{};            // with every zero that means "derive it" replaced
    std::vector<PortLimits> ports{};  // of each port; empty: the switches' for all
    std::uint32_t kept_bytes = 0;     // of every packet
    std::uint32_t max_bytes = 0;      // UDP payload
    std::uint64_t seed = 0;
  };
  // Actors of the event list: first_actor .. first_actor + actors_for(plan) - 1.
  Network(const NetworkPlan& plan, const Shape& shape, EventList& events, HostSide& hosts);
  static std::uint32_t actors_for(const NetworkPlan& plan) {
    return 4 * static_cast<std::uint32_t>(plan.links.size());
  }
  void on_event(EventList::Actor actor);

  PacketPool& packets() { return packets_; }
  const Routing& routing() const { return routing_; }
  // From a host, out of a NIC. The packet's source, destination, sizes, class and hash are set.
  void send(PacketId packet);
  // Packets that wait at a NIC's port or are being sent.
  std::uint32_t queued_at_nic(std::uint32_t nic) const {
    const Port& port = ports_[nic_ports_[nic]];
    return port.waiting + (port.free_at > events_.now() ? 1 : 0);
  }
  bool is_nic_paused(std::uint32_t nic) const { return ports_[nic_ports_[nic]].is_paused; }
  // on_port_free() comes when the transmission at work ends.
  void wants_free(std::uint32_t nic);

  // From now on; its times count from now.
  void observe(RunObserver& observer);

  // Faults. A link that is down loses what is on it and what is sent.
  void set_down(std::uint32_t port, bool is_down);
  void set_rate(std::uint32_t port, std::uint64_t rate_bps);
  void set_loss(std::uint32_t port, double probability);

  std::uint32_t port_of_nic(std::uint32_t nic) const { return nic_ports_[nic]; }
  std::uint32_t port_count() const { return static_cast<std::uint32_t>(ports_.size()); }
  std::uint64_t rate_of(std::uint32_t port) const { return ports_[port].rate_bps; }
  std::uint64_t queue_bytes(std::uint32_t port) const { return ports_[port].data_bytes; }
  bool is_paused(std::uint32_t port) const { return ports_[port].is_paused; }
  PortCounters counters(std::uint32_t port) const;
  void reset_counters();
  // Picoseconds that a packet takes to leave.
  Picoseconds transmission(std::uint32_t port, std::uint64_t bytes) const;
  Picoseconds delay_of(std::uint32_t port) const { return ports_[port].delay; }

  std::uint64_t hops() const { return hops_; }
  std::uint64_t pauses_sent() const { return pauses_sent_; }
  // Over every packet that left a queue, port by port.
  std::uint64_t history() const;
  // Of the node where its turns happen.
  static std::vector<std::uint32_t> places_of_actors(const NetworkPlan& plan);
  // Cycles of ports that wait for each other, of those paused for `longer_than`; each a list.
  std::vector<std::vector<std::uint32_t>> find_deadlocks(Picoseconds longer_than) const;

 private:
  struct Queue {
    PacketId head = kNoPacket;
    PacketId tail = kNoPacket;
  };
  // What every packet touches fills two cache lines; the rest is for marks, losses and reports.
  struct alignas(64) Port {
    Picoseconds free_at = 0;
    Picoseconds delay = 0;
    std::uint64_t data_bytes = 0;   // that wait
    std::uint32_t ps_per_byte = 0;  // 0: not a whole number
    std::uint32_t waiting = 0;      // packets in all queues
    Queue wire{};                   // packets on the link, oldest first
    std::uint32_t far_node = 0;
    std::uint32_t nic = 0;      // at the far end, when it is a host's
    std::uint32_t own_nic = 0;  // when the near end is a host's
    bool is_paused = false;     // data
    bool is_down = false;
    bool may_lose = false;  // has been down, or has a loss rate
    bool to_host = false;
    bool from_host = false;
    bool wants_free = false;
    bool has_sent_pause = false;  // to whoever sends into this port's far end

    std::array<Queue, kTrafficClasses> queues{};
    std::uint64_t control_bytes = 0;  // control and trimmed ones that wait
    std::uint64_t sent_packets = 0;
    std::uint64_t sent_bytes = 0;
    HistoryHash history{};

    std::uint64_t ingress_bytes = 0;  // data in the far end's switch that came through here
    std::uint64_t rate_bps = 0;
    std::uint64_t sent_bytes_before = 0;  // what was counted until the last reset
    std::uint64_t loss_below = 0;         // of 2^64
    Picoseconds down_since = -1;          // the last time it went down
    Picoseconds paused_since = 0;
    Picoseconds counted_until = 0;
    unsigned __int128 byte_time = 0;  // bytes * ps of waiting data
    PortCounters counted{};           // but for what was sent
  };

  void on_transmitted(std::uint32_t port);
  void on_arrival(std::uint32_t port);
  void receive_at_switch(std::uint32_t ingress, PacketId id);
  void enqueue(std::uint32_t port, PacketId id);
  void append(Port& port, PacketId id);
  [[nodiscard]] bool admit(std::uint32_t port, PacketId id);
  [[nodiscard]] bool fits(std::uint32_t port, const Packet& packet) const;
  void start_next(std::uint32_t port);
  void transmit(std::uint32_t port, PacketId id, std::uint64_t waiting_bytes);
  void mark(std::uint32_t port, PacketId id, std::uint64_t waiting_bytes);
  void report(std::uint32_t port, PacketId id);
  void tell(EventKind kind, std::uint32_t port, PacketId id, DropCause cause = DropCause::kFull);
  void tell(EventKind kind, std::uint32_t port);
  std::uint32_t number_of(const Port& port) const {
    return static_cast<std::uint32_t>(&port - ports_.data());
  }
  [[nodiscard]] std::uint64_t draw(std::uint32_t port, Picoseconds at) const;
  [[nodiscard]] bool is_lost(std::uint32_t port, PacketId id);
  void drop(PacketId id);
  void take_into_ingress(std::uint32_t ingress, const Packet& packet);
  void take_out_of_ingress(const Packet& packet);
  void send_pause(std::uint32_t ingress, bool pauses);
  void on_pause(std::uint32_t port, bool pauses);
  void count_waiting(Port& port);
  std::uint64_t& shared_used(const Port& egress) { return shared_used_[near_node(egress)]; }
  std::uint32_t near_node(const Port& port) const { return ports_[number_of(port) ^ 1U].far_node; }
  EventList::Actor transmitter(std::uint32_t port) const { return port; }
  EventList::Actor wire(std::uint32_t port) const { return port_count() + port; }

  const PortLimits& limits_of(std::uint32_t port) const {
    return limits_.empty() ? common_limits_ : limits_[port];
  }

  SwitchSpec spec_;
  PortLimits common_limits_;
  std::vector<PortLimits> limits_;
  EventList& events_;
  HostSide& hosts_;
  Routing routing_;
  PacketPool packets_;
  std::vector<Port> ports_;
  std::vector<std::uint32_t> nic_ports_;
  std::vector<std::uint64_t> shared_used_;  // by node
  std::uint64_t seed_;
  std::uint64_t hops_ = 0;
  std::uint64_t pauses_sent_ = 0;
  Picoseconds counted_from_ = 0;
  RunObserver* observer_ = nullptr;
  Picoseconds observed_from_ = 0;
};

}  // namespace spindrift::sim
