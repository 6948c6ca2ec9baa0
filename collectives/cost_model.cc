#include "collectives/cost_model.h"

#include "collectives/bound_plan.h"

namespace spindrift::collectives {

double CostModel::predict_us(const CollectiveAlgorithm& algorithm, const PlanCost& cost,
                             double block_bytes) const {
  const auto factor = factors.find(std::string(to_string(algorithm.collective)) + ":" +
                                   std::string(algorithm.name));
  const double share = factor == factors.end() ? 1.0 : factor->second;
  const double bytes = cost.blocks * block_bytes;
  double time = cost.steps * latency_us + cost.messages * overhead_us;
  // Long messages ask before they are sent: once, since the asking runs ahead.
  if (cost.messages > 0 && bytes / cost.messages > kSmallBytes) time += latency_us;
  return time + bytes / (bandwidth_gbps * 1e3 * share);
}

}  // namespace spindrift::collectives
