// The table of keys. Names are those of the fields in sim/scenario.h.
#include <initializer_list>

#include "spindrift/types.h"

#include "sim/collective_data.h"
#include "tools/sim/keys.h"

namespace spindrift::simtool {
namespace {

using sim::FaultSpec;
using sim::LinkSpec;
using sim::Scenario;
using sim::SwitchSpec;
using sim::TopologySpec;
using sim::TransportSpec;
using sim::WorkloadSpec;

constexpr double kSecondPs = sim::kSecond;
constexpr double kLargestBuffer = 0x1.0p40;

struct Bounds {
  double lowest = 0;
  double highest = 0;
};

// Field of one part of the scenario, as a function that a table can hold.
template <auto Part, auto Member>
Field member(Scenario& scenario) {
  return &(scenario.*Part.*Member);
}
template <auto Link, auto Member>
Field link_member(Scenario& scenario) {
  return &(scenario.topology.*Link.*Member);
}
template <auto Member>
Field own(Scenario& scenario) {
  return &(scenario.*Member);
}
template <auto Member>
Field fault_member(FaultSpec& fault) {
  return &(fault.*Member);
}

using ScenarioField = Field (*)(Scenario&);
using FaultField = Field (*)(FaultSpec&);

ScenarioKey row(std::string_view name, KeyType type, Bounds bounds, ScenarioField field,
                std::string_view help) {
  return {{.name = name,
           .type = type,
           .lowest = bounds.lowest,
           .highest = bounds.highest,
           .help = help},
          field};
}
ScenarioKey choice(std::string_view name, std::vector<std::string_view> choices,
                   ScenarioField field, std::string_view help) {
  ScenarioKey key = row(name, KeyType::kChoice, {}, field, help);
  key.choices = std::move(choices);
  return key;
}
FaultKey fault_row(std::string_view name, KeyType type, Bounds bounds, FaultField field,
                   std::string_view help) {
  return {{.name = name,
           .type = type,
           .lowest = bounds.lowest,
           .highest = bounds.highest,
           .help = help},
          field};
}

using enum KeyType;

constexpr auto kTop = &Scenario::topology;
constexpr auto kNet = &Scenario::network;
constexpr auto kTransport = &Scenario::transport;
constexpr auto kWork = &Scenario::workload;
constexpr auto kHostLink = &TopologySpec::host_link;
constexpr auto kFabricLink = &TopologySpec::fabric_link;
constexpr Bounds kRateBounds{1e6, 1e13};
constexpr Bounds kDelayBounds{0, kSecondPs};

void add_topology(std::vector<ScenarioKey>& keys) {
  keys.insert(
      keys.end(),
      {choice("topology.name", sim::topology_names(), member<kTop, &TopologySpec::name>,
              "the network's shape"),
       row("topology.hosts", kCount, {0, 65536}, member<kTop, &TopologySpec::hosts>,
           "hosts; of a fat tree, 0 means all that fit"),
       row("topology.hosts_per_leaf", kCount, {1, 1024},
           member<kTop, &TopologySpec::hosts_per_leaf>, "hosts below each leaf switch"),
       row("topology.spines", kCount, {0, 4096}, member<kTop, &TopologySpec::spines>,
           "spine switches; 0: what hosts_per_leaf and oversubscription ask for"),
       row("topology.oversubscription", kNumber, {0.01, 1000},
           member<kTop, &TopologySpec::oversubscription>,
           "capacity of a leaf towards its hosts by capacity towards the spines"),
       row("topology.parallel_links", kCount, {1, 64}, member<kTop, &TopologySpec::parallel_links>,
           "links between a leaf and a spine"),
       row("topology.radix", kCount, {2, 128}, member<kTop, &TopologySpec::radix>,
           "ports of a fat tree's switch, even: k^3/4 hosts"),
       row("topology.rails", kCount, {1, 64}, member<kTop, &TopologySpec::rails>,
           "rails of a rail-optimised network"),
       row("topology.planes", kCount, {1, 16}, member<kTop, &TopologySpec::planes>,
           "planes of a multi-plane network; a NIC's rate is split over them"),
       row("topology.file", kText, {}, member<kTop, &TopologySpec::file>,
           "topology file of the public Ultra Ethernet simulator, for name = file"),
       row("topology.switch_latency", kTime, kDelayBounds,
           member<kTop, &TopologySpec::switch_latency>,
           "from the last bit into a switch to the egress queue"),
       row("topology.host_link.rate_bps", kRate, kRateBounds,
           link_member<kHostLink, &LinkSpec::rate_bps>, "rate of links between hosts and switches"),
       row("topology.host_link.delay", kTime, kDelayBounds,
           link_member<kHostLink, &LinkSpec::delay>, "their propagation delay"),
       row("topology.host_link.loss", kNumber, {0, 1}, link_member<kHostLink, &LinkSpec::loss>,
           "their random loss of each packet"),
       row("topology.fabric_link.rate_bps", kRate, kRateBounds,
           link_member<kFabricLink, &LinkSpec::rate_bps>, "rate of links between switches"),
       row("topology.fabric_link.delay", kTime, kDelayBounds,
           link_member<kFabricLink, &LinkSpec::delay>, "their propagation delay"),
       row("topology.fabric_link.loss", kNumber, {0, 1}, link_member<kFabricLink, &LinkSpec::loss>,
           "their random loss of each packet")});
}

void add_network(std::vector<ScenarioKey>& keys) {
  constexpr Bounds kBuffer{0, kLargestBuffer};
  keys.insert(
      keys.end(),
      {choice("network.buffer", {"per_port", "shared"}, member<kNet, &SwitchSpec::buffer>,
              "whether every egress queue has queue_bytes, or all share shared_bytes"),
       row("network.queue_bytes", kBytes, kBuffer, member<kNet, &SwitchSpec::queue_bytes>,
           "data that an egress queue holds; 0: one bandwidth-delay product"),
       row("network.control_bytes", kBytes, kBuffer, member<kNet, &SwitchSpec::control_bytes>,
           "control and trimmed packets that it holds; 0: as queue_bytes"),
       row("network.shared_bytes", kBytes, {1, kLargestBuffer},
           member<kNet, &SwitchSpec::shared_bytes>, "of a switch whose buffer is shared"),
       row("network.alpha", kNumber, {0x1.0p-10, 0x1.0p10}, member<kNet, &SwitchSpec::alpha>,
           "a queue may grow to alpha times what is left of a shared buffer"),
       row("network.trims", kFlag, {}, member<kNet, &SwitchSpec::trims>,
           "whether packets that do not fit lose their payload instead of vanishing"),
       row("network.trimmed_bytes", kBytes, {64, 512}, member<kNet, &SwitchSpec::trimmed_bytes>,
           "of a trimmed packet on the wire"),
       choice("network.marking", {"off", "red", "step"}, member<kNet, &SwitchSpec::marking>,
              "ECN: none; never below kmin, rising to pmax at kmax, always above; or always above "
              "kmin"),
       row("network.kmin_bytes", kBytes, kBuffer, member<kNet, &SwitchSpec::kmin_bytes>,
           "where marking begins; 0: 0.2 of queue_bytes"),
       row("network.kmax_bytes", kBytes, kBuffer, member<kNet, &SwitchSpec::kmax_bytes>,
           "where every packet is marked; 0: 0.8 of queue_bytes"),
       row("network.pmax", kNumber, {0, 1}, member<kNet, &SwitchSpec::pmax>,
           "probability of a mark at kmax"),
       row("network.has_pfc", kFlag, {}, member<kNet, &SwitchSpec::has_pfc>,
           "priority flow control for data"),
       row("network.xoff_bytes", kBytes, kBuffer, member<kNet, &SwitchSpec::xoff_bytes>,
           "of one ingress, where it pauses its peer; 0: half of queue_bytes"),
       row("network.xon_bytes", kBytes, kBuffer, member<kNet, &SwitchSpec::xon_bytes>,
           "where it lets it go on; 0: 0.8 of xoff_bytes"),
       row("network.headroom_bytes", kBytes, kBuffer, member<kNet, &SwitchSpec::headroom_bytes>,
           "above xoff, for what is under way; 0: what the link needs"),
       row("network.has_telemetry", kFlag, {}, member<kNet, &SwitchSpec::has_telemetry>,
           "in-band telemetry, as hpcc needs it; every frame is 42 bytes longer"),
       row("network.deadlock_after", kTime, {sim::kMicrosecond, kSecondPs},
           member<kNet, &SwitchSpec::deadlock_after>,
           "a port paused for so long is examined for a cycle of paused ports")});
}

void add_transport(std::vector<ScenarioKey>& keys) {
  keys.insert(
      keys.end(),
      {choice("transport.engine", {"packets", "lanes"}, member<kTransport, &TransportSpec::engine>,
              "the full protocol over packets, or messages over reliable lanes as RDMA NICs have"),
       row("transport.congestion_control", kText, {},
           member<kTransport, &TransportSpec::congestion_control>,
           "algorithm, with its parameters behind a colon: \"dcqcn:set=mlx5\"; "
           "'spindrift info --algorithms' lists them"),
       row("transport.path_selector", kText, {}, member<kTransport, &TransportSpec::path_selector>,
           "path policy"),
       row("transport.path_count", kCount, {1, kMaxPaths},
           member<kTransport, &TransportSpec::path_count>, "entropy values of a connection"),
       row("transport.burst_bytes", kBytes, {0, 0x1.0p20},
           member<kTransport, &TransportSpec::burst_bytes>,
           "what goes on one path before the next is chosen; 0: one packet"),
       row("transport.payload_mtu", kBytes, {512, 16256},
           member<kTransport, &TransportSpec::payload_mtu>,
           "payload of a full packet, a multiple of 128"),
       row("transport.has_crc", kFlag, {}, member<kTransport, &TransportSpec::has_crc>,
           "CRC on every packet"),
       row("transport.carries_payload", kFlag, {},
           member<kTransport, &TransportSpec::carries_payload>,
           "whether payload is copied and verified, or only counted"),
       row("transport.frame_overhead_bytes", kBytes, {0, 512},
           member<kTransport, &TransportSpec::frame_overhead_bytes>,
           "around a UDP payload on the wire"),
       row("transport.min_frame_bytes", kBytes, {0, 512},
           member<kTransport, &TransportSpec::min_frame_bytes>, "of the shortest frame"),
       row("transport.nic_queue_packets", kCount, {1, 64},
           member<kTransport, &TransportSpec::nic_queue_packets>,
           "packets that a NIC port takes before it is idle again"),
       row("transport.window_packets", kCount, {0, 32640},
           member<kTransport, &TransportSpec::window_packets>,
           "PSN window, a multiple of 128; 0: by the longest path"),
       row("transport.base_rtt", kTime, kDelayBounds, member<kTransport, &TransportSpec::base_rtt>,
           "what algorithms are told; 0: of a full packet on the idle path"),
       row("transport.rto_min", kTime, {sim::kMicrosecond, kSecondPs},
           member<kTransport, &TransportSpec::rto_min>, "shortest retransmission timeout"),
       row("transport.lane_timeout", kTime, {sim::kMicrosecond, kSecondPs},
           member<kTransport, &TransportSpec::lane_timeout>,
           "without an acknowledgement for so long a lane sends again"),
       row("transport.lane_retries", kCount, {1, 100},
           member<kTransport, &TransportSpec::lane_retries>,
           "so often in a row, then the lane is given up")});
}

void add_workload(std::vector<ScenarioKey>& keys) {
  constexpr Bounds kHostNumber{0, 65535};
  constexpr Bounds kBytesBounds{1, 0x1.0p40};
  keys.insert(
      keys.end(),
      {choice("workload.name", sim::workload_names(), member<kWork, &WorkloadSpec::name>,
              "which flows there are"),
       row("workload.bytes", kBytes, kBytesBounds, member<kWork, &WorkloadSpec::bytes>,
           "of a flow; of an all-reduce, per host"),
       row("workload.source", kCount, kHostNumber, member<kWork, &WorkloadSpec::source>,
           "host, of one_flow"),
       row("workload.destination", kCount, kHostNumber, member<kWork, &WorkloadSpec::destination>,
           "host, of one_flow and incast"),
       row("workload.fan_in", kCount, {1, 65535}, member<kWork, &WorkloadSpec::fan_in>,
           "senders of an incast"),
       row("workload.stagger", kTime, kDelayBounds, member<kWork, &WorkloadSpec::stagger>,
           "between the starts of an incast's senders"),
       row("workload.window", kCount, {1, 65535}, member<kWork, &WorkloadSpec::window>,
           "flows at a time per host, of all_to_all"),
       row("workload.flows", kCount, {1, 10'000'000}, member<kWork, &WorkloadSpec::flows>,
           "how many random_pairs"),
       row("workload.sizes", kText, {}, member<kWork, &WorkloadSpec::sizes>,
           "size distribution of random_pairs: web_search or data_mining"),
       row("workload.load", kNumber, {0.001, 10}, member<kWork, &WorkloadSpec::load>,
           "of the hosts' links, by random_pairs"),
       row("workload.chunk_bytes", kBytes, kBytesBounds, member<kWork, &WorkloadSpec::chunk_bytes>,
           "that tree_all_reduce pipelines"),
       row("workload.repeats", kCount, {1, 1'000'000}, member<kWork, &WorkloadSpec::repeats>,
           "steps of training_step"),
       row("workload.buckets", kCount, {1, 100'000}, member<kWork, &WorkloadSpec::buckets>,
           "all-reduces of a training step"),
       row("workload.compute_gap", kTime, {0, 1000 * kSecondPs},
           member<kWork, &WorkloadSpec::compute_gap>, "before a training step communicates"),
       choice("workload.operation", sim::collective_operations(),
              member<kWork, &WorkloadSpec::operation>, "of a collective"),
       row("workload.algorithm", kText, {}, member<kWork, &WorkloadSpec::algorithm>,
           "of a collective, by the collective layer's name: ring, tree, halving_doubling, ..."),
       row("workload.file", kText, {}, member<kWork, &WorkloadSpec::file>,
           "of flow_list (\"source destination bytes start_ps\" a line) and matrix (.cm)")});
}

std::vector<ScenarioKey> make_keys() {
  std::vector<ScenarioKey> keys;
  add_topology(keys);
  add_network(keys);
  add_transport(keys);
  add_workload(keys);
  keys.insert(keys.end(), {row("seed", kCount, {0, 0x1.0p53}, own<&Scenario::seed>,
                               "everything random comes from it"),
                           row("end", kTime, {1, 1000 * kSecondPs}, own<&Scenario::end>,
                               "flows that are not done by then are reported as unfinished"),
                           row("sample_every", kTime, kDelayBounds, own<&Scenario::sample_every>,
                               "interval of time series; 0: none")});
  return keys;
}

std::vector<FaultKey> make_fault_keys() {
  FaultKey kind =
      fault_row("kind", kChoice, {}, fault_member<&FaultSpec::kind>, "what happens to the link");
  kind.choices = {"down", "up", "rate", "loss", "flap"};
  return {kind,
          fault_row("from", kText, {}, fault_member<&FaultSpec::from>,
                    "node at one end: host0, leaf0, spine0, agg0, core0, switch0"),
          fault_row("to", kText, {}, fault_member<&FaultSpec::to>,
                    "node at the other end; empty: every link of `from`"),
          fault_row("is_both_ways", kFlag, {}, fault_member<&FaultSpec::is_both_ways>,
                    "whether the other direction suffers too"),
          fault_row("at", kTime, {0, 1000 * kSecondPs}, fault_member<&FaultSpec::at>,
                    "after the workload's start"),
          fault_row("value", kNumber, {0, 1}, fault_member<&FaultSpec::value>,
                    "rate: share of the nominal rate; loss: probability"),
          fault_row("down_for", kTime, {0, 1000 * kSecondPs}, fault_member<&FaultSpec::down_for>,
                    "flap: time down"),
          fault_row("up_for", kTime, {0, 1000 * kSecondPs}, fault_member<&FaultSpec::up_for>,
                    "flap: time up"),
          fault_row("times", kCount, {1, 1'000'000}, fault_member<&FaultSpec::times>,
                    "flap: how often")};
}

}  // namespace

std::span<const ScenarioKey> scenario_keys() {
  static const std::vector<ScenarioKey> keys = make_keys();
  return keys;
}
std::span<const FaultKey> fault_keys() {
  static const std::vector<FaultKey> keys = make_fault_keys();
  return keys;
}

}  // namespace spindrift::simtool
