// What plans cost in messages and bytes, counted on the plans themselves.
#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "collectives/plan.h"
#include "collectives/plan_check.h"

namespace spindrift {
namespace {

using namespace collectives;

bool is_receive(StepKind kind) {
  return kind == StepKind::kReceive || kind == StepKind::kReceiveReduce;
}

// Time in messages: a message takes one, everything else nothing.
class Clockwork final {
 public:
  explicit Clockwork(const std::vector<Plan>& plans) : plans_(plans) {
    for (const Plan& plan : plans) {
      std::vector<std::vector<std::uint32_t>>& lanes = ends_.emplace_back();
      for (const Lane& lane : plan.lanes) {
        if (lane.peer && is_receive(lane.steps.front().kind)) {
          receivers_[{*lane.peer, plan.rank, lane.channel}] = lanes.size();
        }
        lanes.emplace_back();
        lanes.back().reserve(lane.steps.size());
      }
    }
    arrivals_.resize(plans.size());
    for (std::size_t rank = 0; rank < plans.size(); ++rank)
      arrivals_[rank].resize(plans[rank].lanes.size());
  }

  std::uint32_t run() {
    for (bool has_moved = true; has_moved;) {
      has_moved = false;
      for (std::size_t rank = 0; rank < plans_.size(); ++rank) {
        for (std::size_t lane = 0; lane < plans_[rank].lanes.size(); ++lane) {
          while (advance(rank, lane))
            has_moved = true;
        }
      }
    }
    return last_;
  }

 private:
  bool advance(std::size_t rank, std::size_t lane_index) {
    const Lane& lane = plans_[rank].lanes[lane_index];
    std::vector<std::uint32_t>& ends = ends_[rank][lane_index];
    if (ends.size() == lane.steps.size()) return false;
    const Step& step = lane.steps[ends.size()];
    std::uint32_t time = ends.empty() ? 0 : ends.back();
    for (const StepWait& wait : step.waits) {
      const std::vector<std::uint32_t>& other = ends_[rank][wait.on.lane];
      if (other.size() <= wait.on.step) return false;
      time = std::max(time, other[wait.on.step]);
    }
    if (is_receive(step.kind)) {
      const std::vector<std::uint32_t>& arrivals = arrivals_[rank][lane_index];
      if (arrivals.size() <= ends.size()) return false;
      time = std::max(time, arrivals[ends.size()]);
    } else if (step.kind == StepKind::kSend) {
      const std::size_t other = receivers_.at({plans_[rank].rank, *lane.peer, lane.channel});
      arrivals_[*lane.peer][other].push_back(time + 1);
    }
    ends.push_back(time);
    last_ = std::max(last_, time);
    return true;
  }

  const std::vector<Plan>& plans_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::size_t> receivers_;
  std::vector<std::vector<std::vector<std::uint32_t>>> ends_;      // by rank, lane, step
  std::vector<std::vector<std::vector<std::uint32_t>>> arrivals_;  // of receiving lanes
  std::uint32_t last_ = 0;
};

}  // namespace

Result<PlanCost> cost_of(const CollectiveAlgorithm& algorithm, PlanRequest request) {
  std::vector<Plan> plans;
  PlanCost cost;
  for (std::uint32_t rank = 0; rank < request.ranks; ++rank) {
    Result<Plan> plan = build_plan(algorithm, request_of_rank(request, rank));
    if (!plan.ok()) return plan.error();
    plans.push_back(std::move(plan).value());
    std::uint32_t messages[2] = {0, 0};
    double blocks[2] = {0, 0};
    for (const Lane& lane : plans.back().lanes) {
      if (!lane.peer) continue;
      const std::size_t direction = is_receive(lane.steps.front().kind) ? 1 : 0;
      for (const Step& step : lane.steps) {
        ++messages[direction];
        blocks[direction] += static_cast<double>(step.chunks) / plans.back().chunks_per_block;
      }
    }
    for (const std::size_t direction : {0U, 1U}) {
      cost.messages = std::max(cost.messages, messages[direction]);
      cost.blocks = std::max(cost.blocks, blocks[direction]);
    }
  }
  cost.steps = Clockwork(plans).run();
  return cost;
}

}  // namespace spindrift
