#pragma once
// What a plan takes: t = steps x latency + messages x overhead + bytes / (bandwidth x factor), for
// the network, for messages inside a host, and for memory that ranks of a host share.
#include <map>
#include <string>

#include "spindrift/plan.h"

namespace spindrift::collectives {

// Constants of one kind of connection.
struct LinkCosts {
  double latency_us = 0;      // one small message, one way
  double overhead_us = 0;     // each further message of a rank at the same time
  double bandwidth_gbps = 1;  // GB/s that one rank sends while it receives as much

  double predict_us(const PlanCost::Traffic& traffic, double block_bytes, double factor,
                    bool has_grants = true) const;
  constexpr bool operator==(const LinkCosts&) const = default;
};

// Constants of one machine and network. The defaults are those of UDP over the loopback interface
// of a small virtual machine, and of shared memory there; `spindrift coll --tune` measures others.
struct CostModel {
  LinkCosts network{.latency_us = 2.5, .overhead_us = 0.7, .bandwidth_gbps = 4.0};
  LinkCosts near{.latency_us = 0.4, .overhead_us = 0.15, .bandwidth_gbps = 7.0};
  LinkCosts shared{.latency_us = 0.3, .overhead_us = 0.1, .bandwidth_gbps = 10.0};
  // Of the larger buffer of a rank: longer calls do not go through shared memory unless told to.
  std::uint64_t shared_limit_bytes = 1048576;
  // By "collective:algorithm": how much of the bandwidth it gets. 1 where there is none.
  std::map<std::string, double, std::less<>> factors{
      {"all_reduce:mesh", 1.1},  // each rank adds up a part only
      {"all_reduce:shared_mesh", 0.85}};

  double factor_of(const CollectiveAlgorithm& algorithm) const;
  // `uses_memory`: what stays inside hosts goes through memory that their ranks share.
  double predict_us(const CollectiveAlgorithm& algorithm, const PlanCost& cost, double block_bytes,
                    bool uses_memory) const;
  bool operator==(const CostModel&) const = default;
};

// One line: "network=2.5,0.7,4 near=0.4,0.15,7 shared=0.3,0.1,10 shared_limit=1048576
// all_reduce:ring=0.8". Refused with the word that is wrong.
std::string to_text(const CostModel& model);
Result<CostModel> cost_model_from_text(std::string_view text);

// SPINDRIFT_TUNING, else spindrift/collectives.costs in XDG_CACHE_HOME or ~/.cache. Empty: neither
// is set.
std::string cost_model_file();
// The defaults where there is no such file; refused when it cannot be read or understood.
Result<CostModel> load_cost_model(const std::string& file);
Status save_cost_model(const std::string& file, const CostModel& model);

}  // namespace spindrift::collectives
