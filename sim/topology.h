#pragma once
// Topologies by name: from a TopologySpec to a network on paper. topology_file.h reads files.
#include <variant>
#include <vector>

#include "sim/network_plan.h"

namespace spindrift::sim {

// The complaints name keys below "topology.".
std::variant<NetworkPlan, std::vector<Complaint>> plan_network(const TopologySpec& spec);

// Spines of a leaf-spine network, given or derived; 0: they come out as no whole number.
std::uint32_t spines_of(const TopologySpec& spec);

}  // namespace spindrift::sim
