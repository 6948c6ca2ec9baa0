#pragma once
// Flows from files. A flow list has a line "source destination bytes start_ps" per flow. A
// connection matrix is the public Ultra Ethernet simulator's (uet-htsim, ".cm"):
//
//   Nodes 16 | Connections 2 | Triggers 1 | Failures 0
//   0->1 id 1 start 0 size 1048576 send_done_trigger 1      start: microseconds
//   1->2 id 2 trigger 1 size 1048576 [recv_done_trigger T] [prio P: not used]
//   trigger id 1 oneshot | multishot | barrier count N
// Failures are refused: FaultSpec says them. '#' begins a comment in both.
#include <string>
#include <string_view>
#include <variant>

#include "sim/workload.h"

namespace spindrift::sim {

using FlowFile = std::variant<FlowPlans, std::vector<Complaint>>;
FlowFile read_flow_list(const std::string& file, std::uint32_t hosts);
FlowFile read_matrix(const std::string& file, std::uint32_t hosts);
// `name` stands in complaints, "name:line".
FlowFile parse_flow_list(std::string_view text, std::string_view name, std::uint32_t hosts);
FlowFile parse_matrix(std::string_view text, std::string_view name, std::uint32_t hosts);

}  // namespace spindrift::sim
