#include "collectives/plan_check.h"

#include <array>
#include <bitset>

#include <absl/strings/str_format.h>

namespace spindrift::collectives {
namespace {

// How often each rank's input is in a chunk.
using Contributions = std::array<std::uint16_t, kMaxRanks>;

Error wrong(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message)};
}

std::string place_of(const Plan& plan, std::size_t lane, std::size_t step) {
  return absl::StrFormat("rank %d lane %d step %d", plan.rank, lane, step);
}

bool is_receive(StepKind kind) {
  return kind == StepKind::kReceive || kind == StepKind::kReceiveReduce;
}
bool reads_source(StepKind kind) {
  return kind != StepKind::kReceive;
}
bool writes_target(StepKind kind) {
  return kind != StepKind::kSend;
}

Status check_step(const Plan& plan, std::size_t lane_index, std::size_t step_index) {
  const Lane& lane = plan.lanes[lane_index];
  const Step& step = lane.steps[step_index];
  const std::string place = place_of(plan, lane_index, step_index);
  if ((step.kind == StepKind::kCopy) == lane.peer.has_value()) {
    return wrong(place + ": copies have no peer, all other steps need one");
  }
  if (lane.peer && (*lane.peer >= plan.ranks || *lane.peer == plan.rank)) {
    return wrong(absl::StrFormat("%s: peer %d is no other rank", place, *lane.peer));
  }
  if (is_receive(step.kind) != is_receive(lane.steps.front().kind)) {
    return wrong(place + ": a lane either sends or receives");
  }
  const auto leaves = [&](const ChunkRef& ref) {
    return std::uint64_t{ref.chunk} + step.chunks > plan.chunks_per_block;
  };
  if (step.chunks == 0 || (reads_source(step.kind) && leaves(step.source)) ||
      (writes_target(step.kind) && leaves(step.target))) {
    return wrong(absl::StrFormat("%s: leaves the %d chunks", place, plan.chunks_per_block));
  }
  for (const StepRef& wait : step.waits) {
    if (wait.lane >= plan.lanes.size() || wait.step >= plan.lanes[wait.lane].steps.size()) {
      return wrong(absl::StrFormat("%s: waits for lane %d step %d, which is not there", place,
                                   wait.lane, wait.step));
    }
  }
  return ok_status();
}

Status check_shape(std::span<const Plan> plans) {
  if (plans.empty() || plans.size() > kMaxRanks) return wrong("1 to 64 plans are needed");
  for (std::size_t rank = 0; rank < plans.size(); ++rank) {
    const Plan& plan = plans[rank];
    if (plan.rank != rank || plan.ranks != plans.size() ||
        plan.chunks_per_block != plans[0].chunks_per_block || plan.chunks_per_block == 0) {
      return wrong(absl::StrFormat("plan %d names another rank, group or chunk count", rank));
    }
    for (std::size_t lane = 0; lane < plan.lanes.size(); ++lane) {
      for (std::size_t step = 0; step < plan.lanes[lane].steps.size(); ++step) {
        if (Status status = check_step(plan, lane, step); !status.ok()) return status;
      }
    }
  }
  return ok_status();
}

// Runs all plans with one step under way per lane and rendezvous sends: whatever runs to its end
// like this does so with more of both.
class SymbolicRun {
 public:
  SymbolicRun(std::span<const Plan> plans, bool is_in_place)
      : plans_(plans), is_in_place_(is_in_place) {
    for (const Plan& plan : plans) {
      Memory memory;
      memory.input.resize(plan.chunks_per_block);
      for (Contributions& chunk : memory.input)
        chunk[plan.rank] = 1;
      memory.output = memory.input;
      if (!is_in_place) memory.output.assign(plan.chunks_per_block, Contributions{});
      memories_.push_back(memory);
      done_.emplace_back(plan.lanes.size(), 0);
    }
  }

  void run() {
    for (bool has_moved = true; has_moved;) {
      has_moved = false;
      for (std::size_t rank = 0; rank < plans_.size(); ++rank) {
        for (std::size_t lane = 0; lane < plans_[rank].lanes.size(); ++lane) {
          while (advance(rank, lane))
            has_moved = true;
        }
      }
    }
  }

  Status verdict() const {
    for (std::size_t rank = 0; rank < plans_.size(); ++rank) {
      for (std::size_t lane = 0; lane < plans_[rank].lanes.size(); ++lane) {
        if (done_[rank][lane] < plans_[rank].lanes[lane].steps.size()) {
          return wrong("deadlock: " + place_of(plans_[rank], lane, done_[rank][lane]) +
                       " never starts");
        }
      }
    }
    for (std::size_t rank = 0; rank < plans_.size(); ++rank) {
      for (std::size_t chunk = 0; chunk < plans_[rank].chunks_per_block; ++chunk) {
        if (Status status = check_chunk(rank, chunk); !status.ok()) return status;
      }
    }
    return ok_status();
  }

 private:
  struct Memory {
    std::vector<Contributions> input;
    std::vector<Contributions> output;
  };

  std::vector<Contributions>& buffer(std::size_t rank, BufferKind kind) {
    const bool is_output = is_in_place_ || kind == BufferKind::kOutput;
    return is_output ? memories_[rank].output : memories_[rank].input;
  }

  Status check_chunk(std::size_t rank, std::size_t chunk) const {
    for (std::size_t from = 0; from < plans_.size(); ++from) {
      const int times = memories_[rank].output[chunk][from];
      if (times != 1) {
        return wrong(absl::StrFormat("rank %d chunk %d holds rank %d's contribution %d times", rank,
                                     chunk, from, times));
      }
    }
    return ok_status();
  }

  const Step* ready_step(std::size_t rank, std::size_t lane) const {
    const Lane& steps = plans_[rank].lanes[lane];
    if (done_[rank][lane] == steps.steps.size()) return nullptr;
    const Step& step = steps.steps[done_[rank][lane]];
    for (const StepRef& wait : step.waits) {
      if (done_[rank][wait.lane] <= wait.step) return nullptr;
    }
    return &step;
  }

  // The peer's lane that a send of this lane meets, when it stands at a receive that may start.
  std::optional<std::size_t> meeting_lane(std::size_t rank, const Lane& lane) const {
    const Plan& peer = plans_[*lane.peer];
    for (std::size_t other = 0; other < peer.lanes.size(); ++other) {
      const Lane& candidate = peer.lanes[other];
      if (candidate.peer != rank || candidate.channel != lane.channel) continue;
      const Step* step = ready_step(*lane.peer, other);
      if (step != nullptr && is_receive(step->kind)) return other;
    }
    return std::nullopt;
  }

  // Sends pull their receive along, so receives never advance by themselves.
  bool advance(std::size_t rank, std::size_t lane_index) {
    const Step* step = ready_step(rank, lane_index);
    if (step == nullptr || is_receive(step->kind)) return false;
    const Lane& lane = plans_[rank].lanes[lane_index];
    if (step->kind == StepKind::kCopy) {
      for (std::uint32_t i = 0; i < step->chunks; ++i) {
        buffer(rank, step->target.buffer)[step->target.chunk + i] =
            buffer(rank, step->source.buffer)[step->source.chunk + i];
      }
    } else {
      const std::optional<std::size_t> other = meeting_lane(rank, lane);
      if (!other) return false;
      const Step& receive = *ready_step(*lane.peer, *other);
      if (receive.chunks != step->chunks) return false;
      transfer(rank, *step, *lane.peer, receive);
      ++done_[*lane.peer][*other];
    }
    ++done_[rank][lane_index];
    return true;
  }

  void transfer(std::size_t from, const Step& send, std::size_t to, const Step& receive) {
    for (std::uint32_t i = 0; i < send.chunks; ++i) {
      Contributions sum = buffer(from, send.source.buffer)[send.source.chunk + i];
      if (receive.kind == StepKind::kReceiveReduce) {
        const Contributions& local = buffer(to, receive.source.buffer)[receive.source.chunk + i];
        for (std::size_t rank = 0; rank < kMaxRanks; ++rank) {
          sum[rank] = static_cast<std::uint16_t>(sum[rank] + local[rank]);
        }
      }
      buffer(to, receive.target.buffer)[receive.target.chunk + i] = sum;
    }
  }

  std::span<const Plan> plans_;
  bool is_in_place_;
  std::vector<Memory> memories_;
  std::vector<std::vector<std::size_t>> done_;  // steps completed, by rank and lane
};

// What must have happened when: every step has a start and a completion. Per lane, starts are
// ordered and completions are ordered; a wait orders a completion before a start.
class Order {
 public:
  static constexpr std::size_t kMaxNodes = 2048;

  explicit Order(const Plan& plan) : plan_(plan) {
    for (const Lane& lane : plan.lanes) {
      first_step_.push_back(step_count_);
      step_count_ += lane.steps.size();
    }
    before_.resize(2 * step_count_);
    // Waits may point anywhere, so repeat until nothing is added.
    if (fits()) {
      while (add_all_edges()) {
      }
    }
  }

  bool fits() const { return 2 * step_count_ <= kMaxNodes; }
  bool is_over_before(StepRef earlier, StepRef later) const {
    return before_[start_of(later)].test(end_of(earlier));
  }

 private:
  std::size_t start_of(StepRef ref) const { return 2 * (first_step_[ref.lane] + ref.step); }
  std::size_t end_of(StepRef ref) const { return start_of(ref) + 1; }

  bool add_edge(std::size_t from, std::size_t to) {
    const std::bitset<kMaxNodes> old = before_[to];
    before_[to] |= before_[from];
    before_[to].set(from);
    return before_[to] != old;
  }

  bool add_all_edges() {
    bool has_changed = false;
    for (std::uint32_t lane = 0; lane < plan_.lanes.size(); ++lane) {
      for (std::uint32_t step = 0; step < plan_.lanes[lane].steps.size(); ++step) {
        const StepRef here{.lane = lane, .step = step};
        if (step > 0) {
          const StepRef previous{.lane = lane, .step = step - 1};
          has_changed |= add_edge(start_of(previous), start_of(here));
          has_changed |= add_edge(end_of(previous), end_of(here));
        }
        for (const StepRef& wait : plan_.lanes[lane].steps[step].waits) {
          has_changed |= add_edge(end_of(wait), start_of(here));
        }
        has_changed |= add_edge(start_of(here), end_of(here));
      }
    }
    return has_changed;
  }

  const Plan& plan_;
  std::vector<std::size_t> first_step_;
  std::size_t step_count_ = 0;
  std::vector<std::bitset<kMaxNodes>> before_;
};

struct Touch {
  StepRef step{};
  bool is_write = false;
};

// Input and output count as one memory: that is what "in place" makes of them.
std::vector<std::vector<Touch>> touches_by_chunk(const Plan& plan) {
  std::vector<std::vector<Touch>> touches(plan.chunks_per_block);
  for (std::uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    for (std::uint32_t index = 0; index < plan.lanes[lane].steps.size(); ++index) {
      const Step& step = plan.lanes[lane].steps[index];
      const StepRef here{.lane = lane, .step = index};
      for (std::uint32_t i = 0; i < step.chunks; ++i) {
        if (reads_source(step.kind)) touches[step.source.chunk + i].push_back({here, false});
        if (writes_target(step.kind)) touches[step.target.chunk + i].push_back({here, true});
      }
    }
  }
  return touches;
}

bool is_race(const Order& order, const Touch& a, const Touch& b) {
  const bool is_same = a.step.lane == b.step.lane && a.step.step == b.step.step;
  return !is_same && a.is_write && !order.is_over_before(a.step, b.step) &&
         !order.is_over_before(b.step, a.step);
}

Status check_races(const Plan& plan) {
  const Order order(plan);
  if (!order.fits()) return wrong("the plan has too many steps to check");
  const std::vector<std::vector<Touch>> touches = touches_by_chunk(plan);
  for (std::size_t chunk = 0; chunk < touches.size(); ++chunk) {
    for (const Touch& a : touches[chunk]) {
      for (const Touch& b : touches[chunk]) {
        if (!is_race(order, a, b)) continue;
        return wrong(absl::StrFormat("race on chunk %d: %s writes it while %s may be under way",
                                     chunk, place_of(plan, a.step.lane, a.step.step),
                                     place_of(plan, b.step.lane, b.step.step)));
      }
    }
  }
  return ok_status();
}

}  // namespace

Status check_all_reduce(std::span<const Plan> plans) {
  if (Status status = check_shape(plans); !status.ok()) return status;
  for (const bool is_in_place : {false, true}) {
    SymbolicRun run(plans, is_in_place);
    run.run();
    if (Status status = run.verdict(); !status.ok()) return status;
  }
  for (const Plan& plan : plans) {
    if (Status status = check_races(plan); !status.ok()) return status;
  }
  return ok_status();
}

}  // namespace spindrift::collectives
