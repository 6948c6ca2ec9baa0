// What plans cost in messages and bytes, counted on the plans themselves.
#include <algorithm>
#include <set>
#include <vector>

#include "collectives/plan.h"
#include "collectives/plan_check.h"
#include "collectives/plan_clock.h"

namespace spindrift {
namespace {

using namespace collectives;

bool is_receive(StepKind kind) {
  return kind == StepKind::kReceive || kind == StepKind::kReceiveReduce;
}

// Adds what one rank sends, or receives, to the most so far. What is shown in memory counts once,
// however many take it.
void count_traffic(const Plan& plan, const PlanTopology& topology, bool is_receiving,
                   bool is_shared, PlanCost& cost) {
  PlanCost own;
  std::set<ChunkRef> shown;
  for (const Lane& lane : plan.lanes) {
    if (!lane.peer || is_receive(lane.steps.front().kind) != is_receiving) continue;
    PlanCost::Traffic& traffic = is_near(topology, plan.rank, *lane.peer) ? own.near : own.network;
    for (const Step& step : lane.steps) {
      if (is_shared && !is_receiving && !shown.insert(step.source).second) continue;
      ++traffic.messages;
      traffic.blocks += static_cast<double>(step.chunks) / plan.chunks_per_block;
    }
  }
  for (const auto kind : {&PlanCost::network, &PlanCost::near}) {
    (cost.*kind).messages = std::max((cost.*kind).messages, (own.*kind).messages);
    (cost.*kind).blocks = std::max((cost.*kind).blocks, (own.*kind).blocks);
  }
}

}  // namespace

Result<PlanCost> cost_of(const CollectiveAlgorithm& algorithm, const PlanRequest& request) {
  std::vector<Plan> plans;
  PlanCost cost;
  for (std::uint32_t rank = 0; rank < request.ranks; ++rank) {
    Result<Plan> plan = build_plan(algorithm, request_of_rank(request, rank));
    if (!plan.ok()) return plan.error();
    plans.push_back(std::move(plan).value());
    for (const bool is_receiving : {false, true})
      count_traffic(plans.back(), request.topology, is_receiving, algorithm.is_shared, cost);
  }
  const Moment last = PlanClock(plans, request.topology).run();
  cost.network.steps = last.network;
  cost.near.steps = last.near;
  return cost;
}

}  // namespace spindrift
