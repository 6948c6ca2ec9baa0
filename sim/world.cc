// Building a world: hosts, connections, the agenda, faults.
#include "sim/world.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

#include "absl/strings/str_cat.h"
#include "sim/derive.h"
#include "transport/base/check.h"

namespace spindrift::sim {
namespace {

// The first instant: zero would be no time at all to endpoints.
constexpr Picoseconds kFirst = kMillisecond;
// Connections that take longer are given up.
constexpr Picoseconds kSetUpLimit = 100 * kSecond;
constexpr std::uint32_t kWindowStep = 128;  // bounds of EndpointConfig::window_packets
constexpr std::uint32_t kMaxWindow = 32640;
// Room for the engine's headers and checksum around a payload.
constexpr std::uint32_t kMaxHeaders = 128;

Network::Shape network_shape(const Scenario& scenario, const NetworkPlan& plan) {
  const std::uint32_t max_bytes = scenario.transport.payload_mtu + kMaxHeaders;
  const SwitchSpec switches = derive(scenario.network, plan, scenario.transport);
  return {
      .switches = switches,
      .ports = port_limits(scenario.network, switches, plan),
      .kept_bytes = scenario.transport.carries_payload ? max_bytes : std::uint32_t{kMaxHeaderBytes},
      .max_bytes = max_bytes,
      .seed = scenario.seed};
}

EventListShape event_shape(const Scenario& scenario, const NetworkPlan& plan) {
  EventListShape shape = event_list_shape(plan, scenario.transport);
  shape.actors = Network::actors_for(plan) + plan.hosts + 1;
  shape.seed = scenario.seed;
  return shape;
}

}  // namespace

World::World(const Scenario& scenario, const Registry& registry, const NetworkPlan& plan,
             FlowPlans flows)
    : scenario_(scenario),
      registry_(registry),
      plan_(plan),
      plans_(std::move(flows)),
      network_actors_(Network::actors_for(plan)),
      events_(event_shape(scenario, plan)),
      network_(plan, network_shape(scenario, plan), events_, *this) {
  for (std::uint32_t nic = 0; nic < plan_.nics.size(); ++nic)
    if (nic == 0 || plan_.nics[nic].host != plan_.nics[nic - 1].host) first_nics_.push_back(nic);
  first_nics_.push_back(static_cast<std::uint32_t>(plan_.nics.size()));
  if (scenario_.workload.name == "collective")
    make_calls();
  else
    make_pairs();
}

void World::make_pairs() {
  pairs_of_.resize(plan_.hosts);
  const FlowFrames frames = frames_of(scenario_.transport, scenario_.transport.payload_mtu);
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> known;
  for (std::uint32_t i = 0; i < plans_.size(); ++i) {
    const FlowPlan& plan = plans_[i];
    const auto [at, is_new] = known.emplace(std::pair(plan.source, plan.destination),
                                            static_cast<std::uint32_t>(pairs_.size()));
    if (is_new) {
      Pair pair{.source = plan.source, .destination = plan.destination, .first_flow = i};
      pair.path =
          network_.routing().a_path(first_nics_[plan.source], first_nics_[plan.destination]);
      pair.rtt = base_rtt(network_, pair.path, frames);
      longest_rtt_ = std::max(longest_rtt_, pair.rtt);
      pairs_of_[plan.source].push_back(at->second);
      pairs_of_[plan.destination].push_back(at->second);
      pairs_.push_back(std::move(pair));
    }
    Pair& pair = pairs_[at->second];
    if (!plan.after_delivery.empty()) ++pair.receives;
    pair.requests += static_cast<std::uint32_t>((plan.bytes + kMessageBytes - 1) / kMessageBytes);
    FlowRecord record{.source = plan.source, .destination = plan.destination, .bytes = plan.bytes};
    record.ideal =
        ideal_time(network_, pair.path, frames_of(scenario_.transport, plan.bytes)) /
        static_cast<Picoseconds>(first_nics_[plan.source + 1] - first_nics_[plan.source]);
    flows_.push_back({.pair = at->second, .awaits = plan.awaits, .record = std::move(record)});
  }
}

// Six times what the longest path holds: so far others run ahead of a packet that waits in the full
// queue of a slow link, and nobody should wait for it.
std::uint32_t World::window_packets() const {
  if (scenario_.transport.window_packets != 0) return scenario_.transport.window_packets;
  const std::uint64_t packets = 6 * bandwidth_delay_bytes(plan_, scenario_.transport) /
                                scenario_.transport.payload_mtu * (first_nics_[1] - first_nics_[0]);
  const std::uint64_t steps = (packets + kWindowStep - 1) / kWindowStep;
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(steps * kWindowStep, kWindowStep, kMaxWindow));
}

// Memory is what a host needs and no more: thousands of them are in one process.
EndpointConfig World::endpoint_config(std::uint32_t host, std::uint32_t window) const {
  EndpointConfig config;
  std::uint32_t receives = 0;
  std::uint32_t requests = 1;
  for (const std::uint32_t index : pairs_of_[host]) {
    const Pair& pair = pairs_[index];
    if (pair.destination == host) receives = std::max(receives, pair.receives);
    if (pair.source == host) requests = std::max(requests, pair.requests);
  }
  config.max_connections = std::max(static_cast<std::uint32_t>(pairs_of_[host].size()), 1U);
  if (collective_) config.max_connections = plan_.hosts;
  config.completion_queue = collective_ ? 1024 : 128;
  config.window_packets = window;
  if (!collective_) {
    config.max_regions = 2;
    config.send_queue = std::min(requests, 64U);
    config.receive_queue = std::min(receives, 32768U);
    config.inline_buffers = 0;
    config.max_reads = 1;
  }
  config.half_open_before_cookie = 65535;
  config.seed = (scenario_.seed + 1) * 0x9E3779B97F4A7C15ULL + host + 1;
  config.host_id = absl::StrCat("simulated-", host);
  config.trace_events = 0;
  config.trace_level = 0;
  return config;
}

Rate World::link_rate_of(std::uint32_t host) const {
  std::uint64_t rate = 0;
  for (std::uint32_t nic = first_nics_[host]; nic < first_nics_[host + 1]; ++nic)
    rate += network_.rate_of(plan_.nics[nic].port);
  return Rate::bits_per_second(rate);
}

SimIo::Shape World::io_shape(std::uint32_t host) const {
  const TransportSpec& transport = scenario_.transport;
  return {.first_nic = first_nics_[host],
          .nics = first_nics_[host + 1] - first_nics_[host],
          .link_rate = link_rate_of(host),
          .max_packet_bytes = transport.payload_mtu + kMaxHeaders,
          .frame_overhead_bytes = transport.frame_overhead_bytes,
          .min_frame_bytes = transport.min_frame_bytes,
          .nic_queue_packets = transport.nic_queue_packets,
          .has_telemetry = scenario_.network.has_telemetry,
          .all_nics = plan_.nics};
}

LaneFabric::Shape World::lane_shape(std::uint32_t host) const {
  const TransportSpec& transport = scenario_.transport;
  return {.first_nic = first_nics_[host],
          .nics = first_nics_[host + 1] - first_nics_[host],
          .link_rate = link_rate_of(host),
          .lanes = static_cast<std::uint16_t>(transport.path_count),
          .lane = {.mtu = transport.payload_mtu,
                   .timeout = transport.lane_timeout,
                   .retries = transport.lane_retries},
          .frame_overhead_bytes = transport.frame_overhead_bytes,
          .min_frame_bytes = transport.min_frame_bytes,
          .nic_queue_packets = transport.nic_queue_packets,
          .all_nics = plan_.nics};
}

Status World::start_hosts() {
  const std::uint32_t window = window_packets();
  for (std::uint32_t i = 0; i < plan_.hosts; ++i)
    hosts_.push_back(std::make_unique<Host>(i, network_actors_ + i, events_, network_, *this));
  for (std::uint32_t i = 0; i < plan_.hosts; ++i) {
    const EndpointConfig config = endpoint_config(i, window);
    if (collective_) hosts_[i]->run_program(*this);
    Status started = scenario_.transport.engine == Engine::kLanes
                         ? hosts_[i]->start(lane_shape(i), config, registry_)
                         : hosts_[i]->start(io_shape(i), config, registry_);
    if (!started.ok()) return started;
    if (collective_) continue;
    auto source = hosts_[i]->endpoint().register_memory(memory_.source(), Access::kLocalRead);
    auto sink = hosts_[i]->endpoint().register_memory(memory_.sink(i), kAllAccess);
    if (!source.ok()) return source.error();
    if (!sink.ok()) return sink.error();
    sources_.push_back(source.value());
    sinks_.push_back(sink.value());
  }
  return ok_status();
}

ConnectOptions World::connect_options(const Pair& pair, std::uint32_t host) const {
  const TransportSpec& transport = scenario_.transport;
  ConnectOptions options;
  options.congestion_control = transport.congestion_control;
  options.path_selector = transport.path_selector;
  options.path_count = transport.path_count;
  const bool is_lanes = transport.engine == Engine::kLanes;
  // A lane takes messages, not packets: it has its own share before the next one.
  if (!is_lanes || transport.burst_bytes != 0) options.burst_bytes = transport.burst_bytes;
  if (!is_lanes) options.max_payload_mtu = transport.payload_mtu;
  options.crc = transport.has_crc ? CrcChoice::kOn : CrcChoice::kOff;
  options.rto_min = Duration((transport.rto_min + kNanosecond - 1) / kNanosecond);
  const Picoseconds rtt = transport.base_rtt != 0 ? transport.base_rtt : pair.rtt;
  options.base_rtt = Duration((rtt + kNanosecond - 1) / kNanosecond);
  for (std::uint32_t nic = first_nics_[host]; nic < first_nics_[host + 1]; ++nic)
    options.local_addresses.push_back(absl::StrCat("sim://", address_of_nic(nic).to_string()));
  return options;
}

// Each host opens, and answers, one at a time, so that nothing is lost in a crowd.
void World::plan_connects() {
  const Picoseconds apart = longest_rtt_;
  std::vector<Picoseconds> free_at(plan_.hosts, kFirst);
  for (std::uint32_t i = 0; i < pairs_.size(); ++i) {
    Picoseconds& source = free_at[pairs_[i].source];
    Picoseconds& destination = free_at[pairs_[i].destination];
    const Picoseconds at = std::max(source, destination);
    plan_item(at, Item::Kind::kConnect, i);
    source = at + apart;
    destination = at + apart;
  }
}

void World::connect(std::uint32_t index) {
  Pair& pair = pairs_[index];
  ConnectOptions options = connect_options(pair, pair.source);
  options.private_data.resize(sizeof(index));
  std::memcpy(options.private_data.data(), &index, sizeof(index));
  auto conn = hosts_[pair.source]->endpoint().connect(hosts_[pair.destination]->address(), options);
  if (!conn.ok()) {
    if (trouble_.empty()) trouble_ = conn.error().message();
    return;
  }
  pair.at_source = conn.value();
  hosts_[pair.source]->turn();
}

void World::accept(std::uint32_t host, ConnId conn) {
  Endpoint& endpoint = hosts_[host]->endpoint();
  const auto info = endpoint.info(conn);
  std::uint32_t index = 0;
  SPINDRIFT_CHECK(info.ok() && info.value().private_data.size() == sizeof(index));
  std::memcpy(&index, info.value().private_data.data(), sizeof(index));
  pairs_[index].at_destination = conn;
  post_receives(index);
  const Status accepted = endpoint.accept(conn, connect_options(pairs_[index], host));
  if (!accepted.ok() && trouble_.empty()) trouble_ = accepted.error().message();
}

void World::on_conn_event(std::uint32_t host, const ConnEvent& event) {
  switch (event.kind) {
    case ConnEvent::Kind::kRequest:
      accept(host, event.conn);
      return;
    case ConnEvent::Kind::kEstablished:
      for (const std::uint32_t index : pairs_of_[host]) {
        Pair& pair = pairs_[index];
        const bool is_source = pair.source == host && pair.at_source == event.conn;
        const bool is_destination = pair.destination == host && pair.at_destination == event.conn;
        if ((is_source || is_destination) && ++pair.open_ends == 2) ++open_pairs_;
      }
      return;
    case ConnEvent::Kind::kClosed:
    case ConnEvent::Kind::kFailed:
      if (trouble_.empty()) trouble_ = hosts_[host]->endpoint().last_error(event.conn);
      return;
  }
}

Status World::set_up(const TakeSeat& take_seat) {
  Status prepared =
      memory_.prepare(plans_, plan_.hosts, scenario_.transport.carries_payload, scenario_.seed);
  if (!prepared.ok()) return prepared;
  Status started = start_hosts();
  if (!started.ok()) return started;
  if (collective_) {
    const Status joined = set_up_collective(take_seat);
    if (!joined.ok()) return joined;
  }
  plan_connects();
  while (open_pairs_ != pairs_.size() && trouble_.empty() && step(kSetUpLimit)) {
  }
  if (!trouble_.empty()) return Error(ErrorCode::kUnavailable, trouble_);
  SPINDRIFT_CHECK(open_pairs_ == pairs_.size());
  for (auto& host : hosts_)
    host->watch_events(false);
  // What the handshakes left behind comes to rest.
  const Picoseconds rest = events_.now() + 4 * longest_rtt_ + 100 * kMicrosecond;
  const Picoseconds start = (rest + kMicrosecond - 1) / kMicrosecond * kMicrosecond;
  while (step(start)) {
  }
  // Lanes may still try to tell of something; whole packets stay as they are then.
  const bool is_quiet = network_.packets().in_use() == 0;
  SPINDRIFT_CHECK(is_quiet || scenario_.transport.engine == Engine::kLanes);
  for (auto& host : hosts_)
    host->medium().carry_payload(scenario_.transport.carries_payload);
  if (is_quiet) network_.packets().forget_whole();
  started_ = start;
  network_.reset_counters();
  plan_faults();
  return ok_status();
}

// --- the agenda ---

void World::plan_item(Picoseconds at, Item::Kind kind, std::uint32_t index) {
  agenda_.push({.at = at, .serial = next_serial_++, .kind = kind, .index = index});
  const EventList::Actor actor = agenda_actor();
  if (!events_.is_scheduled(actor) || events_.due(actor) > at) events_.reschedule(actor, at);
}

void World::run_agenda() {
  while (!agenda_.empty() && agenda_.top().at <= events_.now()) {
    const Item item = agenda_.top();
    agenda_.pop();
    run_item(item);
  }
  if (!agenda_.empty()) events_.reschedule(agenda_actor(), agenda_.top().at);
}

void World::run_item(const Item& item) {
  switch (item.kind) {
    case Item::Kind::kConnect:
      connect(item.index);
      return;
    case Item::Kind::kFlow:
      start_flow(item.index);
      return;
    case Item::Kind::kFault:
      apply(fault_steps_[item.index]);
      return;
    case Item::Kind::kSample:
      sample();
      return;
    case Item::Kind::kDeadlock:
      look_for_deadlocks();
      return;
  }
}

bool World::step(Picoseconds until) {
  const EventList::Actor actor = events_.next(until);
  if (actor == EventList::kNobody) return false;
  if (actor < network_actors_)
    network_.on_event(actor);
  else if (actor == agenda_actor())
    run_agenda();
  else
    hosts_[actor - network_actors_]->on_timer();
  return true;
}

void World::on_packet(std::uint32_t nic, PacketId packet) {
  Host& host = *hosts_[plan_.nics[nic].host];
  host.medium().deliver(nic, packet);
  host.turn();
}

void World::on_port_free(std::uint32_t nic) {
  hosts_[plan_.nics[nic].host]->on_room();
}

// --- faults ---

std::vector<std::uint32_t> World::ports_of(const NetworkPlan& plan, const FaultSpec& fault) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t port = 0; port < 2 * plan.links.size(); ++port) {
    const std::string& from = plan.nodes[plan.near_end(port)].name;
    const std::string& to = plan.nodes[plan.far_end(port)].name;
    const bool is_named = from == fault.from && (fault.to.empty() || to == fault.to);
    const bool is_reverse = to == fault.from && (fault.to.empty() || from == fault.to);
    if (is_named || (fault.is_both_ways && is_reverse)) out.push_back(port);
  }
  return out;
}

void World::plan_faults() {
  const auto add = [this](Picoseconds at, const FaultStep& step) {
    plan_item(started_ + at, Item::Kind::kFault, static_cast<std::uint32_t>(fault_steps_.size()));
    fault_steps_.push_back(step);
  };
  for (std::uint32_t port = 0; port < network_.port_count(); ++port)
    network_.set_loss(port, plan_.links[port / 2].spec.loss);
  for (const FaultSpec& fault : scenario_.faults)
    for (const std::uint32_t port : ports_of(plan_, fault)) {
      if (fault.kind != FaultSpec::Kind::kFlap) {
        add(fault.at, {.port = port, .kind = fault.kind, .value = fault.value});
        continue;
      }
      Picoseconds at = fault.at;
      for (std::uint32_t i = 0; i < fault.times; ++i) {
        add(at, {.port = port, .kind = FaultSpec::Kind::kDown});
        add(at + fault.down_for, {.port = port, .kind = FaultSpec::Kind::kUp});
        at += fault.down_for + fault.up_for;
      }
    }
}

void World::apply(const FaultStep& step) {
  switch (step.kind) {
    case FaultSpec::Kind::kDown:
    case FaultSpec::Kind::kUp:
      network_.set_down(step.port, step.kind == FaultSpec::Kind::kDown);
      return;
    case FaultSpec::Kind::kRate: {
      const auto nominal = static_cast<double>(plan_.links[step.port / 2].spec.rate_bps);
      network_.set_rate(
          step.port, std::max<std::uint64_t>(1, static_cast<std::uint64_t>(nominal * step.value)));
      return;
    }
    case FaultSpec::Kind::kLoss:
      network_.set_loss(step.port, step.value);
      return;
    case FaultSpec::Kind::kFlap:
      return;  // planned as downs and ups
  }
}

}  // namespace spindrift::sim
