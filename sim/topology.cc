#include "sim/topology.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "sim/topology_file.h"

namespace spindrift::sim {
namespace {

using Complaints = std::vector<Complaint>;

void add_hosts(NetworkPlan& plan, std::uint32_t count) {
  plan.hosts = count;
  for (std::uint32_t i = 0; i < count; ++i)
    plan.nodes.push_back({.name = absl::StrCat("host", i), .is_switch = false});
}

std::vector<std::uint32_t> add_switches(NetworkPlan& plan, std::string_view tier,
                                        std::uint32_t count) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t i = 0; i < count; ++i)
    out.push_back(plan.add_switch(absl::StrCat(std::string(tier), i)));
  return out;
}

void attach(NetworkPlan& plan, std::uint32_t host, std::uint32_t leaf, const TopologySpec& spec) {
  const std::uint32_t link = plan.connect(host, leaf, spec.host_link, spec.switch_latency);
  plan.nics.push_back({.host = host, .port = 2 * link});
}

void mesh(NetworkPlan& plan, const std::vector<std::uint32_t>& leaves,
          const std::vector<std::uint32_t>& spines, const TopologySpec& spec) {
  for (const std::uint32_t leaf : leaves)
    for (const std::uint32_t spine : spines)
      for (std::uint32_t i = 0; i < spec.parallel_links; ++i)
        plan.connect(leaf, spine, spec.fabric_link, spec.switch_latency);
}

NetworkPlan two_hosts(const TopologySpec& spec) {
  NetworkPlan plan;
  add_hosts(plan, 2);
  plan.connect(0, 1, spec.host_link, spec.switch_latency);
  plan.nics = {{.host = 0, .port = 0}, {.host = 1, .port = 1}};
  return plan;
}

NetworkPlan dumbbell(const TopologySpec& spec) {
  NetworkPlan plan;
  add_hosts(plan, spec.hosts);
  const auto sides = add_switches(plan, "switch", 2);
  for (std::uint32_t i = 0; i < spec.hosts; ++i)
    attach(plan, i, sides[i < spec.hosts / 2 ? 0 : 1], spec);
  plan.connect(sides[0], sides[1], spec.fabric_link, spec.switch_latency);
  return plan;
}

NetworkPlan leaf_spine(const TopologySpec& spec) {
  NetworkPlan plan;
  add_hosts(plan, spec.hosts);
  const std::uint32_t leaf_count = spec.hosts / spec.hosts_per_leaf;
  const auto leaves = add_switches(plan, "leaf", leaf_count);
  const auto spines = add_switches(plan, "spine", spines_of(spec));
  for (std::uint32_t i = 0; i < spec.hosts; ++i)
    attach(plan, i, leaves[i / spec.hosts_per_leaf], spec);
  if (leaf_count > 1) mesh(plan, leaves, spines, spec);
  return plan;
}

//  group 0: hosts 0..rails*hosts_per_leaf-1; rail r of group g has a leaf of its own
NetworkPlan rail(const TopologySpec& spec) {
  NetworkPlan plan;
  add_hosts(plan, spec.hosts);
  const std::uint32_t group_hosts = spec.rails * spec.hosts_per_leaf;
  const auto leaves = add_switches(plan, "leaf", spec.hosts / spec.hosts_per_leaf);
  const auto spines = add_switches(plan, "spine", spines_of(spec));
  for (std::uint32_t i = 0; i < spec.hosts; ++i)
    attach(plan, i, leaves[i / group_hosts * spec.rails + i % spec.rails], spec);
  if (leaves.size() > 1) mesh(plan, leaves, spines, spec);
  return plan;
}

NetworkPlan multi_plane(const TopologySpec& spec) {
  NetworkPlan plan;
  add_hosts(plan, spec.hosts);
  TopologySpec split = spec;
  split.host_link.rate_bps /= spec.planes;
  std::vector<std::vector<std::uint32_t>> leaves;
  for (std::uint32_t plane = 0; plane < spec.planes; ++plane) {
    leaves.push_back(add_switches(plan, absl::StrCat("plane", plane, ".leaf"),
                                  spec.hosts / spec.hosts_per_leaf));
    const auto spines = add_switches(plan, absl::StrCat("plane", plane, ".spine"), spines_of(spec));
    if (leaves.back().size() > 1) mesh(plan, leaves.back(), spines, split);
  }
  for (std::uint32_t i = 0; i < spec.hosts; ++i)
    for (std::uint32_t plane = 0; plane < spec.planes; ++plane)
      attach(plan, i, leaves[plane][i / spec.hosts_per_leaf], split);
  return plan;
}

// k pods of k/2 leaves and k/2 aggregation switches, (k/2)^2 cores; aggregation switch j of every
// pod meets the cores j*k/2 .. j*k/2 + k/2 - 1.
NetworkPlan fat_tree(const TopologySpec& spec) {
  NetworkPlan plan;
  const std::uint32_t half = spec.radix / 2;
  const std::uint32_t all = half * half * spec.radix;
  add_hosts(plan, spec.hosts == 0 ? all : std::min(spec.hosts, all));
  const auto leaves = add_switches(plan, "leaf", half * spec.radix);
  const auto aggs = add_switches(plan, "agg", half * spec.radix);
  const auto cores = add_switches(plan, "core", half * half);
  for (std::uint32_t i = 0; i < plan.hosts; ++i)
    attach(plan, i, leaves[i / half], spec);
  for (std::uint32_t pod = 0; pod < spec.radix; ++pod)
    for (std::uint32_t i = 0; i < half; ++i)
      for (std::uint32_t j = 0; j < half; ++j) {
        plan.connect(leaves[pod * half + i], aggs[pod * half + j], spec.fabric_link,
                     spec.switch_latency);
        plan.connect(aggs[pod * half + i], cores[i * half + j], spec.fabric_link,
                     spec.switch_latency);
      }
  return plan;
}

Complaint complain(std::string_view key, std::uint64_t value, std::string limit) {
  return {.key = absl::StrCat("topology.", std::string(key)),
          .value = absl::StrCat(value),
          .limit = std::move(limit)};
}

void check_leaf_spine(const TopologySpec& spec, std::uint32_t leaf_group, Complaints& out) {
  if (spec.hosts_per_leaf < 1 || spec.hosts_per_leaf > spec.hosts) {
    out.push_back(complain("hosts_per_leaf", spec.hosts_per_leaf, "must be 1..topology.hosts"));
    return;
  }
  if (leaf_group == 0 || spec.hosts % leaf_group != 0)
    out.push_back(complain(
        "hosts", spec.hosts,
        absl::StrCat("must be a multiple of ", leaf_group, ", the hosts that share their leaves")));
  if (spec.parallel_links < 1 || spec.parallel_links > 64)
    out.push_back(complain("parallel_links", spec.parallel_links, "must be 1..64"));
  if (spines_of(spec) == 0 && spec.hosts > spec.hosts_per_leaf)
    out.push_back({.key = "topology.oversubscription",
                   .value = absl::StrCat(spec.oversubscription),
                   .limit = absl::StrCat("must divide hosts_per_leaf (", spec.hosts_per_leaf,
                                         ") * host rate into a whole number of spine links; or "
                                         "give topology.spines")});
}

}  // namespace

std::uint32_t spines_of(const TopologySpec& spec) {
  if (spec.spines != 0) return spec.spines;
  if (!(spec.oversubscription > 0) || spec.fabric_link.rate_bps == 0) return 0;
  const double down =
      static_cast<double>(spec.hosts_per_leaf) * static_cast<double>(spec.host_link.rate_bps);
  const double up = spec.oversubscription * static_cast<double>(spec.fabric_link.rate_bps) *
                    static_cast<double>(std::max(spec.parallel_links, 1U));
  const double spines = down / up;
  const double whole = std::nearbyint(spines);
  return whole >= 1 && std::abs(spines - whole) < 1e-6 ? static_cast<std::uint32_t>(whole) : 0;
}

std::variant<NetworkPlan, Complaints> plan_network(const TopologySpec& spec) {
  Complaints out;
  if (spec.name == "file") return read_topology_file(spec);
  if (spec.name == "two_hosts") return two_hosts(spec);
  if (spec.name == "fat_tree") {
    if (spec.radix < 2 || spec.radix % 2 != 0 || spec.radix > 128)
      out.push_back(complain("radix", spec.radix, "must be even and 2..128"));
    else if (const std::uint32_t all = spec.radix * spec.radix * spec.radix / 4; spec.hosts > all)
      out.push_back(complain("hosts", spec.hosts,
                             absl::StrCat("must be at most ", all, ", radix^3 / 4; 0 means all")));
    if (!out.empty()) return out;
    return fat_tree(spec);
  }
  if (spec.hosts < 2 || spec.hosts > 65536) {
    out.push_back(complain("hosts", spec.hosts, "must be 2..65536"));
    return out;
  }
  if (spec.name == "dumbbell") return dumbbell(spec);
  if (spec.name == "leaf_spine") {
    check_leaf_spine(spec, spec.hosts_per_leaf, out);
    if (!out.empty()) return out;
    return leaf_spine(spec);
  }
  if (spec.name == "rail") {
    if (spec.rails < 1 || spec.rails > 64)
      out.push_back(complain("rails", spec.rails, "must be 1..64"));
    check_leaf_spine(spec, spec.rails * spec.hosts_per_leaf, out);
    if (!out.empty()) return out;
    return rail(spec);
  }
  if (spec.name == "multi_plane") {
    if (spec.planes < 1 || spec.planes > 16)
      out.push_back(complain("planes", spec.planes, "must be 1..16"));
    check_leaf_spine(spec, spec.hosts_per_leaf, out);
    if (!out.empty()) return out;
    return multi_plane(spec);
  }
  out.push_back({.key = "topology.name",
                 .value = spec.name,
                 .limit = "must be two_hosts, dumbbell, leaf_spine, fat_tree, rail, multi_plane "
                          "or file"});
  return out;
}

}  // namespace spindrift::sim
