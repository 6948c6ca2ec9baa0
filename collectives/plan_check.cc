#include "collectives/plan_check.h"

#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include <absl/strings/str_format.h>

#include "collectives/plan.h"
#include "collectives/plan_order.h"
#include "collectives/plan_symbols.h"

namespace spindrift::collectives {
namespace {

Error wrong(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message)};
}

std::string place_of(const Plan& plan, std::size_t lane, std::size_t step) {
  return absl::StrFormat("rank %d lane %d step %d", plan.rank, lane, step);
}

bool is_receive(StepKind kind) {
  return kind == StepKind::kReceive || kind == StepKind::kReceiveReduce;
}
bool is_local(StepKind kind) {
  return kind == StepKind::kCopy || kind == StepKind::kReduce;
}

// Buffers that a rank has only when it is the root.
bool may_touch(const PlanRequest& request, BufferKind buffer) {
  if (request.rank == request.root || buffer == BufferKind::kScratch) return true;
  const bool is_input = buffer == BufferKind::kInput;
  switch (request.collective) {
    case Collective::kBroadcast:
    case Collective::kScatter:
      return !is_input;
    case Collective::kReduce:
    case Collective::kGather:
      return is_input;
    default:
      return true;
  }
}

class ShapeCheck final {
 public:
  ShapeCheck(const Plan& plan, const PlanRequest& request)
      : plan_(plan), request_(request), map_(request, plan.chunks_per_block, plan.scratch_blocks) {}

  Status run() const {
    for (std::size_t lane = 0; lane < plan_.lanes.size(); ++lane) {
      if (plan_.lanes[lane].steps.empty()) return wrong("a lane is empty");
      for (std::size_t step = 0; step < plan_.lanes[lane].steps.size(); ++step) {
        if (Status status = check_step(lane, step); !status.ok()) return status;
      }
    }
    return ok_status();
  }

 private:
  Status check_step(std::size_t lane_index, std::size_t step_index) const {
    const Lane& lane = plan_.lanes[lane_index];
    const Step& step = lane.steps[step_index];
    const std::string place = place_of(plan_, lane_index, step_index);
    if (is_local(step.kind) == lane.peer.has_value()) {
      return wrong(place + ": local steps have no peer, all others need one");
    }
    if (lane.peer && (*lane.peer >= plan_.ranks || *lane.peer == plan_.rank)) {
      return wrong(absl::StrFormat("%s: peer %d is no other rank", place, *lane.peer));
    }
    if (is_receive(step.kind) != is_receive(lane.steps.front().kind)) {
      return wrong(place + ": a lane either sends or receives");
    }
    for (const ChunkRef& ref : refs_of(step)) {
      if (Status status = check_ref(step, ref, place); !status.ok()) return status;
    }
    for (const StepWait& wait : step.waits) {
      if (wait.on.lane >= plan_.lanes.size() ||
          wait.on.step >= plan_.lanes[wait.on.lane].steps.size()) {
        return wrong(absl::StrFormat("%s: waits for lane %d step %d, which is not there", place,
                                     wait.on.lane, wait.on.step));
      }
      if (wait.is_by_slice && !is_aligned(step, plan_.lanes[wait.on.lane].steps[wait.on.step])) {
        return wrong(place + ": waits by slice for a step whose slices lie elsewhere");
      }
    }
    return ok_status();
  }

  Status check_ref(const Step& step, const ChunkRef& ref, const std::string& place) const {
    const std::size_t limit = ref.buffer == BufferKind::kInput    ? map_.input_chunks()
                              : ref.buffer == BufferKind::kOutput ? map_.output_chunks()
                                                                  : map_.scratch_chunks();
    if (step.chunks == 0 || std::uint64_t{ref.chunk} + step.chunks > limit) {
      return wrong(absl::StrFormat("%s: leaves the %d chunks", place, limit));
    }
    if (!may_touch(request_, ref.buffer)) {
      return wrong(place + ": touches a buffer that only the root has");
    }
    if (ref.chunk % plan_.chunks_per_block !=
        refs_of(step).front().chunk % plan_.chunks_per_block) {
      return wrong(place + ": joins chunks of different lengths");
    }
    return ok_status();
  }

  bool is_aligned(const Step& a, const Step& b) const {
    if (a.chunks != b.chunks) return false;
    for (const ChunkRef& x : refs_of(a)) {
      for (const ChunkRef& y : refs_of(b)) {
        const std::size_t first = map_.of(x);
        const std::size_t second = map_.of(y);
        const bool overlaps = first < second + b.chunks && second < first + a.chunks;
        if (overlaps && first != second) return false;
      }
    }
    return true;
  }

  const Plan& plan_;
  const PlanRequest& request_;
  const PlaceMap map_;
};

// Runs all plans with one step under way per lane and rendezvous sends: whatever runs to its end
// like this does so with more of both.
class SymbolicRun final {
 public:
  SymbolicRun(std::span<const Plan> plans, const PlanRequest& request)
      : plans_(plans), request_(request) {
    for (const Plan& plan : plans) {
      const PlanRequest own = request_of_rank(request, plan.rank);
      maps_.emplace_back(own, plan.chunks_per_block, plan.scratch_blocks);
      done_.emplace_back(plan.lanes.size(), 0);
      arrived_.emplace_back(plan.lanes.size(), 0);
      landed_.emplace_back(plan.lanes.size());
      std::vector<std::uint32_t>& memory = memories_.emplace_back(maps_.back().count());
      for (std::uint32_t chunk = 0; chunk < maps_.back().input_chunks(); ++chunk) {
        const ChunkRef ref{.buffer = BufferKind::kInput, .chunk = chunk};
        if (may_touch(own, ref.buffer)) {
          memory[maps_.back().of(ref)] = symbols_.leaf(plan.rank, chunk);
        }
      }
      for (std::size_t lane = 0; lane < plan.lanes.size(); ++lane) {
        const Lane& line = plan.lanes[lane];
        if (line.peer && is_receive(line.steps.front().kind)) {
          receive_lanes_[{*line.peer, plan.rank, line.channel}] = lane;
        }
      }
    }
  }

  Status run() {
    for (bool has_moved = true; has_moved;) {
      has_moved = false;
      for (std::size_t rank = 0; rank < plans_.size(); ++rank) {
        for (std::size_t lane = 0; lane < plans_[rank].lanes.size(); ++lane) {
          while (advance(rank, lane))
            has_moved = true;
        }
      }
      if (!error_.empty()) return wrong(error_);
    }
    for (std::size_t rank = 0; rank < plans_.size(); ++rank) {
      for (std::size_t lane = 0; lane < plans_[rank].lanes.size(); ++lane) {
        if (done_[rank][lane] < plans_[rank].lanes[lane].steps.size()) {
          return wrong("deadlock: " + place_of(plans_[rank], lane, done_[rank][lane]) +
                       " never starts");
        }
      }
    }
    return ok_status();
  }

  Status check_outputs(bool is_in_rank_order) {
    for (std::uint32_t rank = 0; rank < plans_.size(); ++rank) {
      const PlanRequest own = request_of_rank(request_, rank);
      if (!may_touch(own, BufferKind::kOutput)) continue;
      for (std::uint32_t chunk = 0; chunk < maps_[rank].output_chunks(); ++chunk) {
        if (Status status = check_chunk(rank, chunk, is_in_rank_order); !status.ok()) {
          return status;
        }
      }
    }
    return ok_status();
  }

 private:
  struct Expected {
    bool is_sum = false;
    std::uint32_t rank = 0;   // of the one contribution, where it is no sum
    std::uint32_t chunk = 0;  // of the contributors' inputs
  };

  Expected expected(std::uint32_t rank, std::uint32_t chunk) const {
    const std::uint32_t per_block = plans_[0].chunks_per_block;
    const std::uint32_t in_own_block = rank * per_block + chunk % per_block;
    switch (request_.collective) {
      case Collective::kAllReduce:
      case Collective::kReduce:
        return {.is_sum = true, .chunk = chunk};
      case Collective::kReduceScatter:
        return {.is_sum = true, .chunk = in_own_block};
      case Collective::kAllGather:
      case Collective::kGather:
      case Collective::kBarrier:
        return {.rank = chunk / per_block, .chunk = chunk % per_block};
      case Collective::kBroadcast:
        return {.rank = request_.root, .chunk = chunk};
      case Collective::kScatter:
        return {.rank = request_.root, .chunk = in_own_block};
      case Collective::kAllToAll:
      case Collective::kAllToAllV:
      case Collective::kSendReceive:
        break;
    }
    return {.rank = chunk / per_block, .chunk = in_own_block};
  }

  Status check_chunk(std::uint32_t rank, std::uint32_t chunk, bool is_in_rank_order) {
    const std::uint32_t held =
        memories_[rank][maps_[rank].of({.buffer = BufferKind::kOutput, .chunk = chunk})];
    const Expected wanted = expected(rank, chunk);
    const auto fail = [&](std::string_view what) {
      return wrong(absl::StrFormat("rank %d output chunk %d %s", rank, chunk, what));
    };
    if (!wanted.is_sum || plans_.size() == 1) {
      return held == symbols_.leaf(wanted.rank, wanted.chunk)
                 ? ok_status()
                 : Status(fail(
                       absl::StrFormat("is not rank %d's chunk %d", wanted.rank, wanted.chunk)));
    }
    if (!symbols_.is_final(held)) return fail("was not made final");
    const std::uint32_t sum = symbols_.inside(held);
    const auto ranks = static_cast<std::uint32_t>(plans_.size());
    if (!symbols_.holds_all_once(sum, ranks, wanted.chunk)) {
      return fail("does not hold every contribution once");
    }
    const auto [first, is_first] = results_.emplace(wanted.chunk, sum);
    if (!is_first && first->second != sum) {
      return fail("was added up in another order than at another rank");
    }
    if (is_in_rank_order && sum != in_rank_order(wanted.chunk)) {
      return fail("was not added up in the order of the ranks");
    }
    return ok_status();
  }

  std::uint32_t in_rank_order(std::uint32_t chunk) {
    std::uint32_t sum = symbols_.leaf(0, chunk);
    for (std::uint32_t rank = 1; rank < plans_.size(); ++rank)
      sum = symbols_.sum(sum, symbols_.leaf(rank, chunk));
    return sum;
  }

  const Step* ready_step(std::size_t rank, std::size_t lane) const {
    const Lane& steps = plans_[rank].lanes[lane];
    if (done_[rank][lane] == steps.steps.size()) return nullptr;
    const Step& step = steps.steps[done_[rank][lane]];
    for (const StepWait& wait : step.waits) {
      if (done_[rank][wait.on.lane] <= wait.on.step) return nullptr;
    }
    return &step;
  }

  std::uint32_t& at(std::size_t rank, const ChunkRef& ref, std::uint32_t i) {
    return memories_[rank][maps_[rank].of({.buffer = ref.buffer, .chunk = ref.chunk + i})];
  }

  // Plain receives never advance by themselves: sends pull them along. What is to be added lands
  // first, and is added when its turn has come.
  bool advance(std::size_t rank, std::size_t lane_index) {
    const Step* step = ready_step(rank, lane_index);
    if (step == nullptr || step->kind == StepKind::kReceive) return false;
    if (step->kind == StepKind::kReceiveReduce) return add_landed(rank, lane_index, *step);
    if (is_local(step->kind)) {
      for (std::uint32_t i = 0; i < step->chunks; ++i) {
        const std::uint32_t value = at(rank, step->source, i);
        if (step->kind == StepKind::kCopy) {
          at(rank, step->target, i) = value;
        } else {
          store_sum(*step, value, at(rank, step->operand, i), at(rank, step->target, i));
        }
      }
      ++done_[rank][lane_index];
      return true;
    }
    return advance_send(rank, lane_index, *step);
  }

  bool advance_send(std::size_t rank, std::size_t lane_index, const Step& step) {
    const Lane& lane = plans_[rank].lanes[lane_index];
    const std::uint32_t peer = *lane.peer;
    const auto other = receive_lanes_.find({static_cast<std::uint32_t>(rank), peer, lane.channel});
    if (other == receive_lanes_.end()) return false;
    const Step* receive = next_to_arrive(peer, other->second);
    if (receive == nullptr) return false;
    const std::uint32_t per_block = plans_[rank].chunks_per_block;
    if (receive->chunks != step.chunks ||
        receive->target.chunk % per_block != step.source.chunk % per_block) {
      error_ = place_of(plans_[rank], lane_index, done_[rank][lane_index]) +
               " meets a receive of other chunks";
      return false;
    }
    for (std::uint32_t i = 0; i < step.chunks; ++i) {
      const std::uint32_t value = at(rank, step.source, i);
      if (receive->kind == StepKind::kReceive) {
        at(peer, receive->target, i) = value;
      } else {
        landed_[peer][other->second].push_back(value);
      }
    }
    ++arrived_[peer][other->second];
    if (receive->kind == StepKind::kReceive) ++done_[peer][other->second];
    ++done_[rank][lane_index];
    return true;
  }

  // The step that the next message of a lane is for, if it may arrive now. Landing memory is for a
  // few slices, so only steps whose waits are all by slice may count on it.
  const Step* next_to_arrive(std::size_t rank, std::size_t lane) const {
    const std::vector<Step>& steps = plans_[rank].lanes[lane].steps;
    const std::size_t next = arrived_[rank][lane];
    if (next == steps.size()) return nullptr;
    bool may_land = steps[next].kind == StepKind::kReceiveReduce;
    for (const StepWait& wait : steps[next].waits)
      may_land = may_land && wait.is_by_slice;
    if (may_land) return &steps[next];
    return next == done_[rank][lane] ? ready_step(rank, lane) : nullptr;
  }

  bool add_landed(std::size_t rank, std::size_t lane, const Step& step) {
    if (done_[rank][lane] == arrived_[rank][lane]) return false;
    std::deque<std::uint32_t>& landed = landed_[rank][lane];
    for (std::uint32_t i = 0; i < step.chunks; ++i) {
      const std::uint32_t value = landed.front();
      landed.pop_front();
      const std::uint32_t own = at(rank, step.source, i);
      const bool is_first = step.is_incoming_first;
      store_sum(step, is_first ? value : own, is_first ? own : value, at(rank, step.target, i));
    }
    ++done_[rank][lane];
    return true;
  }

  void store_sum(const Step& step, std::uint32_t left, std::uint32_t right, std::uint32_t& target) {
    const std::uint32_t sum = symbols_.sum(left, right);
    target = step.is_final ? symbols_.final_of(sum) : sum;
  }

  std::span<const Plan> plans_;
  const PlanRequest& request_;
  Symbols symbols_;
  std::vector<PlaceMap> maps_;
  std::vector<std::vector<std::uint32_t>> memories_;
  std::vector<std::vector<std::size_t>> done_;     // steps completed, by rank and lane
  std::vector<std::vector<std::size_t>> arrived_;  // of receiving lanes: steps whose data is here
  std::vector<std::vector<std::deque<std::uint32_t>>> landed_;
  // Sender, receiver, channel -> the receiver's lane.
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::size_t> receive_lanes_;
  std::map<std::uint32_t, std::uint32_t> results_;  // input chunk -> the sum of all ranks
  std::string error_;
};

Status check(std::span<const Plan> plans, const PlanRequest& request, bool is_in_rank_order) {
  if (plans.empty() || plans.size() > kMaxRanks || plans.size() != request.ranks) {
    return wrong("one plan for each of 1 to 64 ranks is needed");
  }
  for (std::size_t rank = 0; rank < plans.size(); ++rank) {
    const Plan& plan = plans[rank];
    if (plan.rank != rank || plan.ranks != plans.size() || plan.chunks_per_block == 0 ||
        plan.chunks_per_block != plans[0].chunks_per_block) {
      return wrong(absl::StrFormat("plan %d names another rank, group or chunk count", rank));
    }
    const PlanRequest own = request_of_rank(request, plan.rank);
    if (Status status = ShapeCheck(plan, own).run(); !status.ok()) return status;
  }
  SymbolicRun run(plans, request);
  if (Status status = run.run(); !status.ok()) return status;
  if (Status status = run.check_outputs(is_in_rank_order); !status.ok()) return status;
  for (const Plan& plan : plans) {
    const PlanRequest own = request_of_rank(request, plan.rank);
    if (Status status = check_races(plan, own); !status.ok()) return status;
  }
  return ok_status();
}

}  // namespace

PlanRequest request_of_rank(PlanRequest request, std::uint32_t rank) {
  request.rank = rank;
  const bool is_rooted =
      request.collective == Collective::kGather || request.collective == Collective::kScatter;
  if (is_rooted && rank != request.root) request.is_in_place = false;
  return request;
}

Status check_plans(std::span<const Plan> plans, const PlanRequest& request) {
  return check(plans, request, false);
}

Status check_rank_order(std::span<const Plan> plans, const PlanRequest& request) {
  return check(plans, request, true);
}

}  // namespace spindrift::collectives
