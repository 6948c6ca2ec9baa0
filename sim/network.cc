#include "sim/network.h"

#include <algorithm>

namespace spindrift::sim {
namespace {

constexpr std::uint64_t kPicosecondsPerSecond = 1'000'000'000'000ULL;

// Whole picoseconds for a byte, or 0.
std::uint32_t whole_ps_per_byte(std::uint64_t rate_bps) {
  const std::uint64_t bits = 8 * kPicosecondsPerSecond;
  const bool is_whole = bits % rate_bps == 0 && bits / rate_bps <= UINT32_MAX;
  return is_whole ? static_cast<std::uint32_t>(bits / rate_bps) : 0;
}

std::uint64_t threshold_of(double probability) {
  if (probability >= 1) return UINT64_MAX;
  return static_cast<std::uint64_t>(probability * 0x1.0p53) << 11;
}

}  // namespace

Network::Network(const NetworkPlan& plan, const Shape& shape, EventList& events, HostSide& hosts)
    : spec_(shape.switches),
      common_limits_{.queue_bytes = spec_.queue_bytes,
                     .kmin_bytes = spec_.kmin_bytes,
                     .kmax_bytes = spec_.kmax_bytes},
      limits_(shape.ports),
      events_(events),
      hosts_(hosts),
      routing_(plan, shape.seed),
      packets_(shape.kept_bytes, shape.max_bytes, shape.switches.has_telemetry),
      ports_(2 * plan.links.size()),
      shared_used_(plan.nodes.size(), 0),
      seed_(shape.seed ^ 0xA5A5A5A5ULL) {
  for (std::uint32_t i = 0; i < ports_.size(); ++i) {
    const NetworkPlan::Link& link = plan.links[i / 2];
    Port& port = ports_[i];
    port.far_node = plan.far_end(i);
    port.to_host = !plan.nodes[port.far_node].is_switch;
    port.from_host = !plan.nodes[plan.near_end(i)].is_switch;
    port.rate_bps = link.spec.rate_bps;
    port.ps_per_byte = whole_ps_per_byte(port.rate_bps);
    port.delay = link.spec.delay + (i % 2 == 0 ? link.latency_b : link.latency_a);
  }
  for (std::uint32_t nic = 0; nic < plan.nics.size(); ++nic) {
    const std::uint32_t port = plan.nics[nic].port;
    nic_ports_.push_back(port);
    ports_[port].own_nic = nic;
    ports_[port ^ 1U].nic = nic;
  }
}

void Network::on_event(EventList::Actor actor) {
  if (actor < port_count())
    on_transmitted(actor);
  else
    on_arrival(actor - port_count());
}

Picoseconds Network::transmission(std::uint32_t port, std::uint64_t bytes) const {
  const Port& p = ports_[port];
  if (p.ps_per_byte != 0) return static_cast<Picoseconds>(bytes * std::uint64_t{p.ps_per_byte});
  return static_cast<Picoseconds>(
      Rate::bits_per_second(p.rate_bps).picoseconds_for(bytes));  // rounded up
}

// --- hosts ---

void Network::send(PacketId packet) {
  Packet& p = packets_[packet];
  p.edge = routing_.edge_of(p.destination);
  const std::uint32_t port = nic_ports_[p.source];
  if (ports_[port].waiting == 0 && ports_[port].free_at <= events_.now() &&
      !(ports_[port].is_paused && p.traffic == TrafficClass::kData)) {
    if (observer_ != nullptr) [[unlikely]]
      tell(EventKind::kEnqueue, port, packet);
    transmit(port, packet, p.wire_bytes);
    return;
  }
  append(ports_[port], packet);
  if (!events_.is_scheduled(transmitter(port)) && !ports_[port].is_paused)
    events_.schedule(transmitter(port), std::max(ports_[port].free_at, events_.now()));
}

void Network::wants_free(std::uint32_t nic) {
  const std::uint32_t port = nic_ports_[nic];
  Port& p = ports_[port];
  p.wants_free = true;
  const bool awaits_resume = p.is_paused && p.free_at <= events_.now();
  if (!awaits_resume && !events_.is_scheduled(transmitter(port)))
    events_.schedule(transmitter(port), std::max(p.free_at, events_.now()));
}

// --- ports ---

void Network::on_transmitted(std::uint32_t port) {
  Port& p = ports_[port];
  if (p.free_at > events_.now()) {  // a packet came first, at this same instant
    events_.schedule(transmitter(port), p.free_at);
    return;
  }
  if (p.waiting != 0) start_next(port);
  if (p.wants_free) {
    p.wants_free = false;
    hosts_.on_port_free(p.own_nic);
  }
}

void Network::start_next(std::uint32_t port) {
  Port& p = ports_[port];
  for (std::size_t c = 0; c < kTrafficClasses; ++c) {
    Queue& queue = p.queues[c];
    const auto traffic = static_cast<TrafficClass>(c);
    if (queue.head == kNoPacket) continue;
    if (traffic == TrafficClass::kData && p.is_paused) return;
    const PacketId id = queue.head;
    Packet& packet = packets_[id];
    queue.head = packet.next;
    if (queue.head == kNoPacket) queue.tail = kNoPacket;
    --p.waiting;
    std::uint64_t waiting_bytes = packet.wire_bytes;
    if (traffic == TrafficClass::kData) {
      count_waiting(p);
      waiting_bytes = p.data_bytes;
      p.data_bytes -= packet.wire_bytes;
      if (!p.from_host) {
        if (spec_.buffer == BufferKind::kShared) shared_used(p) -= packet.wire_bytes;
        if (spec_.has_pfc) take_out_of_ingress(packet);
      }
    } else if (traffic != TrafficClass::kPause) {
      p.control_bytes -= packet.wire_bytes;
    }
    transmit(port, id, waiting_bytes);
    return;
  }
}

// `waiting_bytes`: of the data queue just before this packet left it.
void Network::transmit(std::uint32_t port, PacketId id, std::uint64_t waiting_bytes) {
  Port& p = ports_[port];
  Packet& packet = packets_[id];
  const Picoseconds now = events_.now();
  if (packet.traffic == TrafficClass::kData && !p.from_host && spec_.marking != Marking::kOff)
    mark(port, id, waiting_bytes);
  if (spec_.has_telemetry && packet.traffic == TrafficClass::kData && !p.from_host) [[unlikely]]
    report(port, id);
  p.free_at = now + transmission(port, packet.wire_bytes);
  packet.arrival = p.free_at + p.delay;
  packet.is_lost = p.is_down;
  packet.next = kNoPacket;
  if (p.wire.head == kNoPacket) {
    p.wire.head = id;
    events_.schedule(wire(port), packet.arrival);
  } else {
    packets_[p.wire.tail].next = id;
  }
  p.wire.tail = id;
  if (observer_ != nullptr) [[unlikely]]
    tell(EventKind::kDequeue, port, id);
  ++hops_;
  ++p.sent_packets;
  p.sent_bytes += packet.wire_bytes;
  p.history.add((static_cast<std::uint64_t>(now) << 20) ^ (static_cast<std::uint64_t>(port) << 40) ^
                (static_cast<std::uint64_t>(packet.tuple_hash) << 8) ^
                (static_cast<std::uint64_t>(packet.wire_bytes) << 3) ^
                static_cast<std::uint64_t>(packet.ecn));
  if ((p.waiting != 0 || p.wants_free) && !events_.is_scheduled(transmitter(port)))
    events_.schedule(transmitter(port), p.free_at);
}

void Network::mark(std::uint32_t port, PacketId id, std::uint64_t waiting_bytes) {
  Packet& packet = packets_[id];
  const PortLimits& limits = limits_of(port);
  if (waiting_bytes <= limits.kmin_bytes || packet.ecn == Ecn::kNotEct) return;
  if (spec_.marking == Marking::kRed && waiting_bytes <= limits.kmax_bytes) {
    const double share = static_cast<double>(waiting_bytes - limits.kmin_bytes) /
                         static_cast<double>(limits.kmax_bytes - limits.kmin_bytes);
    const auto drawn = static_cast<double>(draw(port, events_.now()) >> 11) * 0x1.0p-53;
    if (drawn >= spec_.pmax * share) return;
  }
  packet.ecn = Ecn::kCe;
  ++ports_[port].counted.marks;
  if (observer_ != nullptr) [[unlikely]]
    tell(EventKind::kMark, port, id);
}

// In-band telemetry, as the packet leaves: what went before it, and what waits behind it.
void Network::report(std::uint32_t port, PacketId id) {
  const Port& p = ports_[port];
  packets_.telemetry(id).push(
      {.tx_bytes = p.sent_bytes_before + p.sent_bytes,
       .timestamp_ns = static_cast<std::uint64_t>(events_.now() / kNanosecond),
       .queue_bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(p.data_bytes, UINT32_MAX)),
       .link_id = port,
       .link_rate = Rate::bits_per_second(p.rate_bps)});
}

void Network::on_arrival(std::uint32_t port) {
  Port& p = ports_[port];
  const PacketId id = p.wire.head;
  Packet& packet = packets_[id];
  p.wire.head = packet.next;
  if (p.wire.head != kNoPacket) events_.schedule(wire(port), packets_[p.wire.head].arrival);
  if (p.may_lose && is_lost(port, id)) [[unlikely]] {
    drop(id);
    return;
  }
  if (packet.traffic == TrafficClass::kPause) {
    const bool pauses = packet.pauses;
    packets_.give_back(id);
    on_pause(port ^ 1U, pauses);
  } else if (p.to_host) {
    hosts_.on_packet(p.nic, id);
  } else {
    receive_at_switch(port, id);
  }
}

// Random, yet the same whatever other ports do: one packet leaves or arrives at a time.
std::uint64_t Network::draw(std::uint32_t port, Picoseconds at) const {
  std::uint64_t z = (static_cast<std::uint64_t>(at) ^ seed_) + (port + 1) * 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

bool Network::is_lost(std::uint32_t number, PacketId id) {
  Port& port = ports_[number];
  const Packet& packet = packets_[id];
  // Down now, or at some time since it left.
  const Picoseconds left = packet.arrival - port.delay;
  if (port.is_down || packet.is_lost || port.down_since >= left) {
    ++port.counted.drops_down;
    if (observer_ != nullptr) tell(EventKind::kDrop, number, id, DropCause::kDown);
    return true;
  }
  if (port.loss_below == 0 || draw(number, packet.arrival) >= port.loss_below) return false;
  ++port.counted.drops_loss;
  if (observer_ != nullptr) tell(EventKind::kDrop, number, id, DropCause::kLoss);
  return true;
}

void Network::drop(PacketId id) {
  packets_.give_back(id);
}

// --- switches ---

void Network::receive_at_switch(std::uint32_t ingress, PacketId id) {
  Packet& packet = packets_[id];
  packet.ingress = ingress;
  const std::uint32_t egress =
      routing_.choose(ports_[ingress].far_node, packet.destination, packet.edge, packet.tuple_hash);
  if (egress == kNoPort) {
    if (observer_ != nullptr) tell(EventKind::kDrop, ingress, id, DropCause::kNoRoute);
    drop(id);
    return;
  }
  enqueue(egress, id);
}

void Network::enqueue(std::uint32_t port, PacketId id) {
  Port& p = ports_[port];
  Packet& packet = packets_[id];
  const bool is_blocked = p.is_paused && packet.traffic == TrafficClass::kData;
  if (p.waiting == 0 && p.free_at <= events_.now() && !is_blocked) {
    if (observer_ != nullptr) [[unlikely]]
      tell(EventKind::kEnqueue, port, id);
    transmit(port, id, packet.wire_bytes);
    return;
  }
  if (!admit(port, id)) return;
  append(p, id);
  if (events_.is_scheduled(transmitter(port))) return;
  if (p.free_at > events_.now())
    events_.schedule(transmitter(port), p.free_at);
  else
    start_next(port);  // control passes data that is paused
}

// Makes room, cuts the packet, or drops it (false).
bool Network::admit(std::uint32_t port, PacketId id) {
  Port& p = ports_[port];
  Packet& packet = packets_[id];
  if (packet.traffic == TrafficClass::kData) {
    if (fits(port, packet)) {
      if (spec_.buffer == BufferKind::kShared) shared_used(p) += packet.wire_bytes;
      if (spec_.has_pfc) take_into_ingress(packet.ingress, packet);
      return true;
    }
    if (spec_.trims && !packet.is_lane && packet.wire_bytes > spec_.trimmed_bytes) {
      packet.traffic = TrafficClass::kTrimmed;
      packet.is_trimmed = true;
      packet.is_trimmed_last_hop = p.to_host;
      packet.wire_bytes = spec_.trimmed_bytes;
      ++p.counted.trims;
      if (observer_ != nullptr) [[unlikely]]
        tell(EventKind::kTrim, port, id);
    }
  }
  if (packet.traffic != TrafficClass::kData &&
      p.control_bytes + packet.wire_bytes <= spec_.control_bytes)
    return true;
  ++p.counted.drops_full;
  if (observer_ != nullptr) tell(EventKind::kDrop, port, id, DropCause::kFull);
  drop(id);
  return false;
}

bool Network::fits(std::uint32_t port, const Packet& packet) const {
  const Port& p = ports_[port];
  if (spec_.has_pfc) {
    const std::uint64_t there = ports_[packet.ingress].ingress_bytes + packet.wire_bytes;
    return there <= spec_.xoff_bytes + spec_.headroom_bytes;
  }
  if (spec_.buffer == BufferKind::kPerPort)
    return p.data_bytes + packet.wire_bytes <= limits_of(port).queue_bytes;
  const std::uint64_t used = shared_used_[near_node(p)];
  if (used + packet.wire_bytes > spec_.shared_bytes) return false;
  const double limit = spec_.alpha * static_cast<double>(spec_.shared_bytes - used);
  return static_cast<double>(p.data_bytes + packet.wire_bytes) <= limit;
}

void Network::append(Port& port, PacketId id) {
  Packet& packet = packets_[id];
  Queue& queue = port.queues[static_cast<std::size_t>(packet.traffic)];
  packet.next = kNoPacket;
  if (queue.head == kNoPacket)
    queue.head = id;
  else
    packets_[queue.tail].next = id;
  queue.tail = id;
  ++port.waiting;
  if (packet.traffic == TrafficClass::kData) {
    count_waiting(port);
    port.data_bytes += packet.wire_bytes;
    port.counted.max_queue_bytes = std::max(port.counted.max_queue_bytes, port.data_bytes);
  } else if (packet.traffic != TrafficClass::kPause) {
    port.control_bytes += packet.wire_bytes;
  }
  if (observer_ != nullptr) [[unlikely]]
    tell(EventKind::kEnqueue, number_of(port), id);
}

void Network::count_waiting(Port& port) {
  const Picoseconds now = events_.now();
  port.byte_time += static_cast<unsigned __int128>(port.data_bytes) *
                    static_cast<std::uint64_t>(now - port.counted_until);
  port.counted_until = now;
}

// --- faults ---

void Network::set_down(std::uint32_t port, bool is_down) {
  Port& p = ports_[port];
  if (observer_ != nullptr && p.is_down != is_down)
    tell(is_down ? EventKind::kLinkDown : EventKind::kLinkUp, port);
  p.is_down = is_down;
  p.may_lose = true;
  if (is_down) p.down_since = events_.now();
}

// What is being sent keeps its rate.
void Network::set_rate(std::uint32_t port, std::uint64_t rate_bps) {
  ports_[port].rate_bps = rate_bps;
  ports_[port].ps_per_byte = whole_ps_per_byte(rate_bps);
}

void Network::set_loss(std::uint32_t port, double probability) {
  ports_[port].loss_below = threshold_of(probability);
  ports_[port].may_lose = ports_[port].may_lose || probability > 0;
}

// --- reports ---

void Network::observe(RunObserver& observer) {
  observer_ = &observer;
  observed_from_ = events_.now();
}

void Network::tell(EventKind kind, std::uint32_t port, PacketId id, DropCause cause) {
  const Packet& packet = packets_[id];
  observer_->on_packet({.at = events_.now() - observed_from_,
                        .kind = kind,
                        .cause = cause,
                        .port = port,
                        .queue_bytes = ports_[port].data_bytes,
                        .packet = &packet,
                        .payload = {packets_.bytes(id), packet.kept_bytes}});
}
void Network::tell(EventKind kind, std::uint32_t port) {
  observer_->on_port({.at = events_.now() - observed_from_, .kind = kind, .port = port});
}

std::uint64_t Network::history() const {
  HistoryHash all;
  for (const Port& port : ports_)
    all.add(port.history.value());
  return all.value();
}

// A transmitter's turns happen before the link, those of its wire behind it.
std::vector<std::uint32_t> Network::places_of_actors(const NetworkPlan& plan) {
  const auto ports = static_cast<std::uint32_t>(2 * plan.links.size());
  std::vector<std::uint32_t> out;
  for (std::uint32_t port = 0; port < ports; ++port)
    out.push_back(plan.near_end(port));
  for (std::uint32_t port = 0; port < ports; ++port)
    out.push_back(plan.far_end(port));
  return out;
}

PortCounters Network::counters(std::uint32_t port) const {
  const Port& p = ports_[port];
  PortCounters out = p.counted;
  out.packets = p.sent_packets;
  out.bytes = p.sent_bytes;
  const Picoseconds now = events_.now();
  if (p.is_paused) out.paused += now - p.paused_since;
  const Picoseconds span = now - counted_from_;
  const auto since = static_cast<std::uint64_t>(now - p.counted_until);
  const unsigned __int128 sum = p.byte_time + static_cast<unsigned __int128>(p.data_bytes) * since;
  if (span > 0) out.mean_queue_bytes = static_cast<double>(sum) / static_cast<double>(span);
  return out;
}

void Network::reset_counters() {
  counted_from_ = events_.now();
  for (Port& port : ports_) {
    port.counted = PortCounters{};
    port.sent_packets = 0;
    port.sent_bytes_before += port.sent_bytes;
    port.sent_bytes = 0;
    port.byte_time = 0;
    port.counted_until = events_.now();
    if (port.is_paused) port.paused_since = events_.now();
  }
}

}  // namespace spindrift::sim
