#pragma once
// Which flows run, when, and which wait for which. Workloads by name write it; traffic_run plays
// it.
#include <cstdint>
#include <variant>
#include <vector>

#include "sim/scenario.h"

namespace spindrift::sim {

struct FlowPlan {
  std::uint32_t source = 0;  // hosts
  std::uint32_t destination = 0;
  std::uint64_t bytes = 0;
  // After the workload's start, or, when it waits for others, after the last of these.
  Picoseconds start = 0;
  std::uint32_t awaits = 0;                     // this many of those that name it below
  std::vector<std::uint32_t> after_finish{};    // flows that wait until the sender knows it is done
  std::vector<std::uint32_t> after_delivery{};  // ... until the receiver has it
};
using FlowPlans = std::vector<FlowPlan>;

// What a workload needs to know of the network.
struct WorkloadWorld {
  std::uint32_t hosts = 0;
  std::uint64_t host_rate_bps = 0;  // of one host, all its NICs
};

// The complaints name keys below "workload.". Randomness from `seed` alone.
std::variant<FlowPlans, std::vector<Complaint>> plan_workload(const WorkloadSpec& spec,
                                                              const WorkloadWorld& world,
                                                              std::uint64_t seed);

inline void make_wait(FlowPlans& flows, std::uint32_t flow, std::uint32_t finish_of) {
  flows[finish_of].after_finish.push_back(flow);
  ++flows[flow].awaits;
}
inline void make_wait_for_delivery(FlowPlans& flows, std::uint32_t flow, std::uint32_t of) {
  flows[of].after_delivery.push_back(flow);
  ++flows[flow].awaits;
}

// collective_workload.cc
FlowPlans ring_all_reduce(const WorkloadSpec& spec, std::uint32_t hosts);
FlowPlans tree_all_reduce(const WorkloadSpec& spec, std::uint32_t hosts);
FlowPlans training_step(const WorkloadSpec& spec, std::uint32_t hosts);

}  // namespace spindrift::sim
