#pragma once
// What a plan takes: t = steps x latency + messages x overhead + bytes / (bandwidth x factor).
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "spindrift/plan.h"

namespace spindrift::collectives {

// Constants of one machine and network. The defaults are those of UDP over the loopback interface
// of a small virtual machine; `spindrift coll --tune` measures others.
struct CostModel {
  double latency_us = 2.5;      // one small message, one way
  double overhead_us = 0.7;     // each further message of a rank at the same time
  double bandwidth_gbps = 4.0;  // GB/s that one rank sends while it receives as much
  // By "collective:algorithm": how much of the bandwidth it gets. 1 where there is none.
  std::map<std::string, double, std::less<>> factors{};

  double predict_us(const CollectiveAlgorithm& algorithm, const PlanCost& cost,
                    double block_bytes) const;
};

}  // namespace spindrift::collectives
