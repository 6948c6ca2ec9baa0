#pragma once
// Topology files of the public Ultra Ethernet simulator (uet-htsim, ".topo"): two or three tiers of
// a fat tree. '#' begins a comment; keys are read without regard to case.
//
//   Nodes 128            hosts
//   Tiers 2              2 or 3
//   Podsize 128          hosts in a pod
//   Tier 0               then keys of that tier's switches:
//   Downlink_speed_Gbps 100 | Downlink_Latency_ns 1000 | Switch_Latency_ns 0
//   Radix_Down 8 | Radix_Up 8 (fewer than down: oversubscribed) | Bundle 1 (links between a pair)
//   Oversubscribed 4     capacity down by capacity up: instead of Radix_Up, or in agreement with it
//   Queue_Down 120640 | Queue_Up 120640   bytes of data that a port holds, towards hosts and away
//                        from them; without them SwitchSpec says how large queues are
#include <string_view>
#include <variant>
#include <vector>

#include "sim/network_plan.h"

namespace spindrift::sim {

std::variant<NetworkPlan, std::vector<Complaint>> read_topology_file(const TopologySpec& spec);
// `name` stands in complaints, "file:line".
std::variant<NetworkPlan, std::vector<Complaint>> parse_topology(std::string_view text,
                                                                 std::string_view name);

}  // namespace spindrift::sim
