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

bool is_near(const PlanTopology& topology, std::uint32_t a, std::uint32_t b) {
  return !topology.hosts.empty() && topology.hosts[a] == topology.hosts[b];
}

// Time in messages: those between hosts first, then those inside one. Everything else takes none.
struct Moment {
  std::uint32_t network = 0;
  std::uint32_t near = 0;
  constexpr auto operator<=>(const Moment&) const = default;
};

class Clockwork final {
 public:
  Clockwork(const std::vector<Plan>& plans, const PlanTopology& topology)
      : plans_(plans), topology_(topology) {
    for (const Plan& plan : plans) {
      std::vector<std::vector<Moment>>& lanes = ends_.emplace_back();
      for (const Lane& lane : plan.lanes) {
        if (lane.peer && is_receive(lane.steps.front().kind)) {
          receivers_[{*lane.peer, plan.rank, lane.channel}] = lanes.size();
        }
        lanes.emplace_back().reserve(lane.steps.size());
      }
      arrivals_.emplace_back(plan.lanes.size());
    }
  }

  Moment run() {
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
    std::vector<Moment>& ends = ends_[rank][lane_index];
    if (ends.size() == lane.steps.size()) return false;
    const Step& step = lane.steps[ends.size()];
    Moment time = ends.empty() ? Moment{} : ends.back();
    for (const StepWait& wait : step.waits) {
      const std::vector<Moment>& other = ends_[rank][wait.on.lane];
      if (other.size() <= wait.on.step) return false;
      time = std::max(time, other[wait.on.step]);
    }
    if (is_receive(step.kind)) {
      const std::vector<Moment>& arrivals = arrivals_[rank][lane_index];
      if (arrivals.size() <= ends.size()) return false;
      time = std::max(time, arrivals[ends.size()]);
    } else if (step.kind == StepKind::kSend) {
      Moment arrival = time;
      ++(is_near(topology_, plans_[rank].rank, *lane.peer) ? arrival.near : arrival.network);
      const std::size_t other = receivers_.at({plans_[rank].rank, *lane.peer, lane.channel});
      arrivals_[*lane.peer][other].push_back(arrival);
    }
    ends.push_back(time);
    last_ = std::max(last_, time);
    return true;
  }

  const std::vector<Plan>& plans_;
  const PlanTopology& topology_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::size_t> receivers_;
  std::vector<std::vector<std::vector<Moment>>> ends_;      // by rank, lane, step
  std::vector<std::vector<std::vector<Moment>>> arrivals_;  // of receiving lanes
  Moment last_{};
};

// Adds what one rank sends, or receives, to the most so far.
void count_traffic(const Plan& plan, const PlanTopology& topology, bool is_receiving,
                   PlanCost& cost) {
  PlanCost own;
  for (const Lane& lane : plan.lanes) {
    if (!lane.peer || is_receive(lane.steps.front().kind) != is_receiving) continue;
    PlanCost::Traffic& traffic = is_near(topology, plan.rank, *lane.peer) ? own.near : own.network;
    for (const Step& step : lane.steps) {
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

Result<PlanCost> cost_of(const CollectiveAlgorithm& algorithm, PlanRequest request) {
  std::vector<Plan> plans;
  PlanCost cost;
  for (std::uint32_t rank = 0; rank < request.ranks; ++rank) {
    Result<Plan> plan = build_plan(algorithm, request_of_rank(request, rank));
    if (!plan.ok()) return plan.error();
    plans.push_back(std::move(plan).value());
    for (const bool is_receiving : {false, true})
      count_traffic(plans.back(), request.topology, is_receiving, cost);
  }
  const Moment last = Clockwork(plans, request.topology).run();
  cost.network.steps = last.network;
  cost.near.steps = last.near;
  return cost;
}

}  // namespace spindrift
