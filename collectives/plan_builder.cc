#include "collectives/plan_builder.h"

namespace spindrift::collectives {
namespace {

bool is_receive(StepKind kind) {
  return kind == StepKind::kReceive || kind == StepKind::kReceiveReduce;
}

}  // namespace

PlanBuilder::PlanBuilder(const PlanRequest& request, std::uint32_t chunks_per_block,
                         std::uint32_t scratch_blocks)
    : plan_{.rank = request.rank,
            .ranks = request.ranks,
            .chunks_per_block = chunks_per_block,
            .scratch_blocks = scratch_blocks},
      map_(request, chunks_per_block, scratch_blocks),
      places_(map_.count()) {}

void PlanBuilder::send(std::uint32_t peer, ChunkRef source, std::uint32_t chunks) {
  add(peer, {.kind = StepKind::kSend, .source = source, .chunks = chunks});
}

void PlanBuilder::receive(std::uint32_t peer, ChunkRef target, std::uint32_t chunks) {
  add(peer, {.kind = StepKind::kReceive, .target = target, .chunks = chunks});
}

void PlanBuilder::receive_reduce(std::uint32_t peer, ChunkRef source, ChunkRef target,
                                 Addition addition, std::uint32_t chunks) {
  add(peer, {.kind = StepKind::kReceiveReduce,
             .source = source,
             .target = target,
             .chunks = chunks,
             .is_incoming_first = addition.is_incoming_first,
             .is_final = addition.is_final});
}

void PlanBuilder::copy(ChunkRef source, ChunkRef target, std::uint32_t chunks) {
  if (place_of(source) == place_of(target)) return;
  add({}, {.kind = StepKind::kCopy, .source = source, .target = target, .chunks = chunks});
}

void PlanBuilder::reduce(ChunkRef source, ChunkRef operand, ChunkRef target, bool is_final,
                         std::uint32_t chunks) {
  add({}, {.kind = StepKind::kReduce,
           .source = source,
           .operand = operand,
           .target = target,
           .chunks = chunks,
           .is_final = is_final});
}

void PlanBuilder::next_round() {
  previous_round_.swap(this_round_);
  this_round_.clear();
}

void PlanBuilder::add(std::optional<std::uint32_t> peer, Step step) {
  const std::uint32_t lane = lane_for(peer, step.kind);
  const StepRef here{.lane = lane,
                     .step = static_cast<std::uint32_t>(plan_.lanes[lane].steps.size())};
  for (const StepRef& earlier : previous_round_)
    step.waits.push_back({.on = earlier});
  if (step.kind != StepKind::kReceive) read(step, here, step.source);
  if (step.kind == StepKind::kReduce) read(step, here, step.operand);
  if (step.kind != StepKind::kSend) write(step, here, step.target);
  this_round_.push_back(here);
  plan_.lanes[lane].steps.push_back(std::move(step));
}

// Local steps have a lane each: they run whenever they may.
std::uint32_t PlanBuilder::lane_for(std::optional<std::uint32_t> peer, StepKind kind) {
  for (std::uint32_t i = 0; peer && i < plan_.lanes.size(); ++i) {
    const Lane& lane = plan_.lanes[i];
    if (lane.peer == peer && lane.channel == channel_ &&
        is_receive(lane.steps.front().kind) == is_receive(kind)) {
      return i;
    }
  }
  plan_.lanes.push_back({.peer = peer, .channel = channel_, .steps = {}});
  return static_cast<std::uint32_t>(plan_.lanes.size() - 1);
}

void PlanBuilder::wait_for(Step& step, const Use& use, std::size_t first_place) {
  const bool is_aligned = use.first_place == first_place && use.chunks == step.chunks;
  for (StepWait& wait : step.waits) {
    if (wait.on != use.step) continue;
    wait.is_by_slice = wait.is_by_slice && is_aligned;
    return;
  }
  step.waits.push_back({.on = use.step, .is_by_slice = is_aligned});
}

void PlanBuilder::read(Step& step, StepRef here, const ChunkRef& ref) {
  for (std::uint32_t i = 0; i < step.chunks; ++i) {
    Place& place = places_[place_of({ref.buffer, ref.chunk + i})];
    for (const Use& writer : place.writers)
      wait_for(step, writer, place_of(ref));
    place.readers.push_back({.step = here, .first_place = place_of(ref), .chunks = step.chunks});
  }
}

// Readers waited for the writer before them, so who waits for them waits for it too.
void PlanBuilder::write(Step& step, StepRef here, const ChunkRef& ref) {
  for (std::uint32_t i = 0; i < step.chunks; ++i) {
    Place& place = places_[place_of({ref.buffer, ref.chunk + i})];
    const std::vector<Use>& before = place.readers.empty() ? place.writers : place.readers;
    for (const Use& use : before) {
      if (use.step != here) wait_for(step, use, place_of(ref));
    }
    place.readers.clear();
    place.writers.assign(1, {.step = here, .first_place = place_of(ref), .chunks = step.chunks});
  }
}

}  // namespace spindrift::collectives
