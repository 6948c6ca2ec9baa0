#include "sim/scenario.h"

#include "spindrift/types.h"

#include "absl/strings/str_cat.h"

namespace spindrift::sim {
namespace {

class Checks {
 public:
  template <class Number>
  void bounds(std::string_view key, Number value, Number low, Number high) {
    if (value >= low && value <= high) return;
    out.push_back({.key = std::string(key),
                   .value = absl::StrCat(value),
                   .limit = absl::StrCat("must be ", low, "..", high)});
  }
  void need(bool holds, std::string_view key, std::string value, std::string limit) {
    if (!holds)
      out.push_back(
          {.key = std::string(key), .value = std::move(value), .limit = std::move(limit)});
  }
  void link(const std::string& key, const LinkSpec& link) {
    bounds<std::uint64_t>(absl::StrCat(key, ".rate_bps"), link.rate_bps, 1'000'000,
                          10'000'000'000'000);
    bounds<Picoseconds>(absl::StrCat(key, ".delay"), link.delay, 0, kSecond);
    bounds(absl::StrCat(key, ".loss"), link.loss, 0.0, 1.0);
  }

  std::vector<Complaint> out;
};

constexpr std::uint64_t kMaxBuffer = 1ULL << 40;

void check_switches(const SwitchSpec& spec, Checks& checks) {
  checks.bounds<std::uint64_t>("network.queue_bytes", spec.queue_bytes, 0, kMaxBuffer);
  checks.bounds<std::uint64_t>("network.control_bytes", spec.control_bytes, 0, kMaxBuffer);
  checks.bounds<std::uint64_t>("network.shared_bytes", spec.shared_bytes, 1, kMaxBuffer);
  checks.bounds("network.alpha", spec.alpha, 0x1.0p-10, 0x1.0p10);
  checks.bounds<std::uint32_t>("network.trimmed_bytes", spec.trimmed_bytes, 64, 512);
  checks.bounds("network.pmax", spec.pmax, 0.0, 1.0);
  checks.need(spec.kmax_bytes == 0 || spec.kmax_bytes >= spec.kmin_bytes, "network.kmax_bytes",
              absl::StrCat(spec.kmax_bytes),
              absl::StrCat("must not be below kmin_bytes (", spec.kmin_bytes, ")"));
  checks.need(spec.xoff_bytes == 0 || spec.xon_bytes <= spec.xoff_bytes, "network.xon_bytes",
              absl::StrCat(spec.xon_bytes),
              absl::StrCat("must not be above xoff_bytes (", spec.xoff_bytes, ")"));
  checks.bounds<Picoseconds>("network.deadlock_after", spec.deadlock_after, kMicrosecond, kSecond);
}

void check_transport(const TransportSpec& spec, Checks& checks) {
  checks.bounds<std::uint32_t>("transport.path_count", spec.path_count, 1, kMaxPaths);
  checks.bounds<std::uint32_t>("transport.payload_mtu", spec.payload_mtu, 512, 16256);
  checks.need(spec.payload_mtu % 128 == 0, "transport.payload_mtu", absl::StrCat(spec.payload_mtu),
              "must be a multiple of 128");
  checks.need(!spec.has_crc || spec.carries_payload, "transport.has_crc", "true",
              "needs transport.carries_payload: there is nothing to check otherwise");
  checks.bounds<std::uint32_t>("transport.burst_bytes", spec.burst_bytes, 0, 1U << 20U);
  checks.bounds<std::uint32_t>("transport.frame_overhead_bytes", spec.frame_overhead_bytes, 0, 512);
  checks.bounds<std::uint32_t>("transport.min_frame_bytes", spec.min_frame_bytes, 0, 512);
  checks.bounds<std::uint32_t>("transport.nic_queue_packets", spec.nic_queue_packets, 1, 64);
  checks.bounds<std::uint32_t>("transport.window_packets", spec.window_packets, 0, 32640);
  checks.need(spec.window_packets % 128 == 0, "transport.window_packets",
              absl::StrCat(spec.window_packets), "must be a multiple of 128, or 0");
  checks.bounds<Picoseconds>("transport.base_rtt", spec.base_rtt, 0, kSecond);
  checks.bounds<Picoseconds>("transport.rto_min", spec.rto_min, kMicrosecond, kSecond);
  checks.bounds<Picoseconds>("transport.lane_timeout", spec.lane_timeout, kMicrosecond, kSecond);
  checks.bounds<std::uint32_t>("transport.lane_retries", spec.lane_retries, 1, 100);
  if (spec.engine != Engine::kLanes) return;
  checks.need(!spec.has_crc, "transport.has_crc", "true",
              "needs transport.engine=packets: a lane checks by itself what it carries");
  checks.need(spec.window_packets == 0, "transport.window_packets",
              absl::StrCat(spec.window_packets),
              "needs transport.engine=packets: lanes number messages, not packets of a connection");
}

void check_fault(const FaultSpec& fault, const std::string& key, Checks& checks) {
  using Kind = FaultSpec::Kind;
  checks.bounds<Picoseconds>(key + ".at", fault.at, 0, kEndOfTime / 4);
  if (fault.kind == Kind::kRate) checks.bounds(key + ".value", fault.value, 1e-6, 1.0);
  if (fault.kind == Kind::kLoss) checks.bounds(key + ".value", fault.value, 0.0, 1.0);
  if (fault.kind != Kind::kFlap) return;
  checks.bounds<Picoseconds>(key + ".down_for", fault.down_for, 1, 1000 * kSecond);
  checks.bounds<Picoseconds>(key + ".up_for", fault.up_for, 1, 1000 * kSecond);
  checks.bounds<std::uint32_t>(key + ".times", fault.times, 1, 1'000'000);
}

}  // namespace

std::string to_string(const Complaint& complaint) {
  return absl::StrCat(complaint.key, " is ", complaint.value, ": ", complaint.limit);
}

std::vector<Complaint> validate(const Scenario& scenario) {
  Checks checks;
  checks.link("topology.host_link", scenario.topology.host_link);
  checks.link("topology.fabric_link", scenario.topology.fabric_link);
  checks.bounds<Picoseconds>("topology.switch_latency", scenario.topology.switch_latency, 0,
                             kSecond);
  check_switches(scenario.network, checks);
  check_transport(scenario.transport, checks);
  for (std::size_t i = 0; i < scenario.faults.size(); ++i)
    check_fault(scenario.faults[i], absl::StrCat("faults[", i, "]"), checks);
  checks.bounds<Picoseconds>("end", scenario.end, 1, kEndOfTime);
  checks.bounds<Picoseconds>("sample_every", scenario.sample_every, 0, kSecond);
  return std::move(checks.out);
}

std::vector<std::string_view> topology_names() {
  return {"two_hosts", "dumbbell", "leaf_spine", "fat_tree", "rail", "multi_plane", "file"};
}

std::vector<std::string_view> workload_names() {
  return {"one_flow",     "incast",          "permutation",     "all_to_all",
          "random_pairs", "ring_all_reduce", "tree_all_reduce", "training_step",
          "collective",   "flow_list",       "matrix"};
}

}  // namespace spindrift::sim
