#pragma once
// A scenario: everything that one run of the simulator depends on. Plain data; simulation.h runs
// it. Times and intervals are picoseconds, rates bits per second, sizes bytes, probabilities 0..1.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/time.h"

namespace spindrift::sim {

struct LinkSpec {
  std::uint64_t rate_bps = 100'000'000'000;
  Picoseconds delay = kMicrosecond;  // propagation
  double loss = 0;                   // of each packet, independently
};

// Which network. Nodes are named "host0", "leaf0", "spine0", "agg0", "core0", "switch0"; a link by
// its two ends. Keys that a topology does not list are not looked at.
//   two_hosts    host_link
//   dumbbell     hosts (the first half sends through the middle link to the second), fabric_link
//   leaf_spine   hosts, hosts_per_leaf, spines, oversubscription, parallel_links
//   fat_tree     radix k: k^3/4 hosts in k pods; hosts (0: all of them)
//   rail         hosts, rails, hosts_per_leaf: NIC i is on rail i % rails; the NICs of one rail and
//                group share a leaf; spines
//   multi_plane  leaf_spine, `planes` times: every NIC is split into that many ports, each of
//                host_link.rate_bps / planes
//   file         a topology file of the public Ultra Ethernet simulator (.topo)
struct TopologySpec {
  std::string name = "leaf_spine";
  std::uint32_t hosts = 16;
  std::uint32_t hosts_per_leaf = 4;
  std::uint32_t spines = 0;          // 0: hosts_per_leaf / oversubscription
  double oversubscription = 1;       // r:1, capacity down to capacity up of a leaf
  std::uint32_t parallel_links = 1;  // between a leaf and a spine
  std::uint32_t radix = 4;
  std::uint32_t rails = 8;
  std::uint32_t planes = 4;
  std::string file{};
  LinkSpec host_link{};
  LinkSpec fabric_link{};
  Picoseconds switch_latency = 0;  // from the last bit in to the egress queue
};

enum class Marking : std::uint8_t {
  kOff,
  kRed,   // never below kmin, pmax at kmax and linear between, always above
  kStep,  // always above kmin
};
enum class BufferKind : std::uint8_t {
  kPerPort,  // every egress queue has queue_bytes
  kShared,   // a queue may grow to alpha * what is left of shared_bytes
};

// Of every switch. An egress port serves control packets first, then trimmed ones, then data.
struct SwitchSpec {
  BufferKind buffer = BufferKind::kPerPort;
  std::uint64_t queue_bytes = 0;    // data per egress port; 0: one bandwidth-delay product
  std::uint64_t control_bytes = 0;  // control and trimmed packets per port; 0: as queue_bytes
  std::uint64_t shared_bytes = 32U << 20U;
  double alpha = 1;
  bool trims = true;                 // what does not fit loses its payload instead of vanishing
  std::uint32_t trimmed_bytes = 64;  // on the wire
  Marking marking = Marking::kRed;
  std::uint64_t kmin_bytes = 0;  // 0: 0.2 of queue_bytes
  std::uint64_t kmax_bytes = 0;  // 0: 0.8 of queue_bytes
  double pmax = 1;
  bool has_pfc = false;              // of data; trimming never happens then before headroom ends
  std::uint64_t xoff_bytes = 0;      // per ingress; 0: half of queue_bytes
  std::uint64_t xon_bytes = 0;       // 0: 0.8 of xoff_bytes
  std::uint64_t headroom_bytes = 0;  // above xoff, per ingress; 0: what the link needs
  // Switches write telemetry into data packets, and receivers echo it in acknowledgements; every
  // frame is longer by kTelemetryBytes (telemetry.h).
  bool has_telemetry = false;
  // A port that has been paused so long is examined for a cycle of paused ports.
  Picoseconds deadlock_after = kMillisecond;
};

enum class Engine : std::uint8_t {
  kPackets,  // the full protocol over packets that may be lost (sim_io.h)
  kLanes,    // messages over reliable lanes, as queue pairs of an RDMA NIC (lane_fabric.h)
};

// What every connection uses. Names and parameters are those of ConnectOptions (config.h).
struct TransportSpec {
  Engine engine = Engine::kPackets;
  std::string congestion_control = "nscc";  // with parameters: "dcqcn:g=0.004"
  std::string path_selector = "mixed";
  std::uint32_t path_count = 64;
  std::uint32_t burst_bytes = 0;  // on one path before the next; 0: every packet
  std::uint32_t payload_mtu = 4096;
  bool has_crc = false;
  bool carries_payload = false;  // false: bytes are counted and not copied
  // What surrounds a UDP payload on the wire: UDP 8, IPv4 20, Ethernet 18, preamble and gap 20.
  std::uint32_t frame_overhead_bytes = 66;
  std::uint32_t min_frame_bytes = 84;
  std::uint32_t nic_queue_packets = 1;  // packets that a NIC port takes before it is idle again
  std::uint32_t window_packets = 0;     // 0: by the longest path's bandwidth-delay product
  Picoseconds base_rtt = 0;             // 0: of a full packet on the idle path
  Picoseconds rto_min = 200 * kMicrosecond;
  // Of lanes: without an acknowledgement for so long a lane begins again where it was heard last,
  // and after so many times in a row it is given up.
  Picoseconds lane_timeout = kMillisecond;
  std::uint32_t lane_retries = 7;
};

// Which flows. Keys that a workload does not list are not looked at.
//   one_flow        source, destination, bytes
//   incast          fan_in senders to `destination`, bytes each, each `stagger` after the one
//   before permutation     every host sends bytes to one other, chosen at random all_to_all every
//   host sends bytes to every other; window: flows at a time per host random_pairs    flows, sizes
//   (a size distribution's name), load (of the hosts' links) ring_all_reduce bytes per host, 2(n-1)
//   dependent steps tree_all_reduce bytes per host, binary tree up and down, chunk_bytes pipelined
//   training_step   repeats, compute_gap, buckets, bytes per bucket by ring all-reduce
//   collective      `operation` by the real collective layer with `algorithm`, bytes of the larger
//                   buffer at each host, `repeats` calls one after the other; up to 64 hosts
//   flow_list       a file: "source destination bytes start_ps" a line, '#' comments
//   matrix          a connection matrix file of the public Ultra Ethernet simulator (.cm)
struct WorkloadSpec {
  std::string name = "permutation";
  std::uint64_t bytes = 2U << 20U;
  std::uint32_t source = 0;
  std::uint32_t destination = 1;
  std::uint32_t fan_in = 8;
  Picoseconds stagger = 0;
  std::uint32_t window = 4;
  std::uint32_t flows = 1000;
  std::string sizes = "web_search";
  double load = 0.5;
  std::uint64_t chunk_bytes = 256U << 10U;
  std::uint32_t repeats = 1;
  std::uint32_t buckets = 4;
  Picoseconds compute_gap = 100 * kMicrosecond;
  std::string file{};
  std::string operation = "all_reduce";
  std::string algorithm = "ring";
};

struct FaultSpec {
  enum class Kind : std::uint8_t {
    kDown,
    kUp,
    kRate,  // value: share of the nominal rate, above 0 up to 1
    kLoss,  // value: probability
    kFlap,  // value ignored: down for down_for, up for up_for, and so on, `times` times
  };
  Kind kind = Kind::kDown;
  std::string from{};  // names of nodes
  std::string to{};    // empty: every link of `from`
  bool is_both_ways = true;
  Picoseconds at = 0;  // after the workload's start
  double value = 0;
  Picoseconds down_for = 0;
  Picoseconds up_for = 0;
  std::uint32_t times = 1;
};

struct Scenario {
  TopologySpec topology{};
  SwitchSpec network{};
  TransportSpec transport{};
  WorkloadSpec workload{};
  std::vector<FaultSpec> faults{};
  std::uint64_t seed = 1;
  Picoseconds end = kSecond;     // flows that are not done by then are reported as unfinished
  Picoseconds sample_every = 0;  // 0: no time series
};

// One thing that is wrong with a scenario.
struct Complaint {
  std::string key;    // "topology.hosts_per_leaf"
  std::string value;  // as given
  std::string limit;  // a sentence: what it must be
};
std::string to_string(const Complaint& complaint);

// Everything about the scenario itself that can be told without building it.
std::vector<Complaint> validate(const Scenario& scenario);

std::vector<std::string_view> topology_names();
std::vector<std::string_view> workload_names();

}  // namespace spindrift::sim
