#include "collectives/plan_order.h"

#include <cstdint>

#include <absl/strings/str_format.h>

#include "collectives/plan.h"

namespace spindrift::collectives {
namespace {

// What must have happened when: every step has a start and a completion. Per lane, starts are
// ordered and completions are ordered; a wait orders a completion before a start.
class Order final {
 public:
  explicit Order(const Plan& plan) : plan_(plan) {
    for (const Lane& lane : plan.lanes) {
      first_step_.push_back(step_count_);
      step_count_ += lane.steps.size();
    }
    words_ = (2 * step_count_ + 63) / 64;
    before_.resize(2 * step_count_ * words_);
    // Waits may point anywhere, so repeat until nothing is added.
    while (add_all_edges()) {
    }
  }

  bool is_over_before(StepRef earlier, StepRef later) const {
    const std::size_t end = end_of(earlier);
    return (before_[start_of(later) * words_ + end / 64] >> (end % 64) & 1U) != 0;
  }

 private:
  std::size_t start_of(StepRef ref) const { return 2 * (first_step_[ref.lane] + ref.step); }
  std::size_t end_of(StepRef ref) const { return start_of(ref) + 1; }

  bool add_edge(std::size_t from, std::size_t to) {
    std::uint64_t changed = 0;
    const auto add = [&](std::size_t word, std::uint64_t bits) {
      std::uint64_t& target = before_[to * words_ + word];
      changed |= bits & ~target;
      target |= bits;
    };
    for (std::size_t word = 0; word < words_; ++word)
      add(word, before_[from * words_ + word]);
    add(from / 64, std::uint64_t{1} << (from % 64));
    return changed != 0;
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
        for (const StepWait& wait : plan_.lanes[lane].steps[step].waits)
          has_changed |= add_edge(end_of(wait.on), start_of(here));
        has_changed |= add_edge(start_of(here), end_of(here));
      }
    }
    return has_changed;
  }

  const Plan& plan_;
  std::vector<std::size_t> first_step_;
  std::size_t step_count_ = 0;
  std::size_t words_ = 0;
  std::vector<std::uint64_t> before_;  // a row of bits for each start and completion
};

struct Touch {
  StepRef step{};
  bool is_write = false;
};

std::vector<std::vector<Touch>> touches_by_place(const Plan& plan, const PlaceMap& map) {
  std::vector<std::vector<Touch>> touches(map.count());
  const auto touch = [&](const Step& step, const ChunkRef& ref, Touch how) {
    for (std::uint32_t i = 0; i < step.chunks; ++i)
      touches[map.of({.buffer = ref.buffer, .chunk = ref.chunk + i})].push_back(how);
  };
  for (std::uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    for (std::uint32_t index = 0; index < plan.lanes[lane].steps.size(); ++index) {
      const Step& step = plan.lanes[lane].steps[index];
      const StepRef here{.lane = lane, .step = index};
      if (step.kind != StepKind::kReceive) touch(step, step.source, {here, false});
      if (step.kind == StepKind::kReduce) touch(step, step.operand, {here, false});
      if (step.kind != StepKind::kSend) touch(step, step.target, {here, true});
    }
  }
  return touches;
}

bool is_race(const Order& order, const Touch& a, const Touch& b) {
  return a.step != b.step && a.is_write && !order.is_over_before(a.step, b.step) &&
         !order.is_over_before(b.step, a.step);
}

}  // namespace

std::vector<ChunkRef> refs_of(const Step& step) {
  std::vector<ChunkRef> refs;
  if (step.kind != StepKind::kReceive) refs.push_back(step.source);
  if (step.kind == StepKind::kReduce) refs.push_back(step.operand);
  if (step.kind != StepKind::kSend) refs.push_back(step.target);
  return refs;
}

Status check_races(const Plan& plan, const PlanRequest& request) {
  const Order order(plan);
  const PlaceMap map(request, plan.chunks_per_block, plan.scratch_blocks);
  const std::vector<std::vector<Touch>> touches = touches_by_place(plan, map);
  for (std::size_t place = 0; place < touches.size(); ++place) {
    for (const Touch& a : touches[place]) {
      for (const Touch& b : touches[place]) {
        if (!is_race(order, a, b)) continue;
        return Error(
            ErrorCode::kInvalidArgument,
            absl::StrFormat("race on place %d of rank %d: lane %d step %d writes it while "
                            "lane %d step %d may be under way",
                            place, plan.rank, a.step.lane, a.step.step, b.step.lane, b.step.step));
      }
    }
  }
  return ok_status();
}

}  // namespace spindrift::collectives
