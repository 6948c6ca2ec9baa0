#include "collectives/plan_clock.h"

#include <algorithm>

namespace spindrift::collectives {
namespace {

bool is_receive(StepKind kind) {
  return kind == StepKind::kReceive || kind == StepKind::kReceiveReduce;
}

}  // namespace

bool is_near(const PlanTopology& topology, std::uint32_t a, std::uint32_t b) {
  return !topology.hosts.empty() && topology.hosts[a] == topology.hosts[b];
}

PlanClock::PlanClock(std::span<const Plan> plans, const PlanTopology& topology)
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

Moment PlanClock::run() {
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

bool PlanClock::advance(std::size_t rank, std::size_t lane_index) {
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
    std::vector<Moment>& arrivals = arrivals_[*lane.peer][other];
    messages_.push_back({.from = plans_[rank].rank,
                         .to = *lane.peer,
                         .start = time,
                         .send = &step,
                         .receive = &plans_[*lane.peer].lanes[other].steps[arrivals.size()]});
    arrivals.push_back(arrival);
  }
  ends.push_back(time);
  last_ = std::max(last_, time);
  return true;
}

}  // namespace spindrift::collectives
