#include "collectives/bound_plan.h"

#include <algorithm>

#include "collectives/plan.h"

namespace spindrift::collectives {
namespace {

Direction direction_of(const Lane& lane) {
  if (!lane.peer) return Direction::kLocal;
  return lane.steps.front().kind == StepKind::kSend ? Direction::kSend : Direction::kReceive;
}

// By slices an eighth of a message or so, so that the next hop starts early; the same at both ends.
constexpr std::uint32_t kSlicesPerMessage = 8;
constexpr std::uint32_t kMinSliceBytes = 32768;
// What fills a packet of the UDP provider where the network lets it, and a burst of them that goes
// out in one piece: slices that are multiples leave no short packet behind, which would end a
// burst.
constexpr std::uint32_t kPacketBytes = 16256;
constexpr std::uint32_t kBurstBytes = 4 * kPacketBytes;

std::uint32_t whole_packets(std::uint32_t bytes) {
  if (bytes >= kBurstBytes) return bytes - bytes % kBurstBytes;
  return bytes >= kPacketBytes ? bytes - bytes % kPacketBytes : bytes;
}

std::uint32_t choose_slice(const Plan& plan, const BindRequest& request) {
  if (!request.input.empty() || !request.output.empty()) return request.slice_bytes;
  const std::uint64_t chunk =
      range_of(request.count, plan.chunks_per_block, 0).count * request.element_bytes;
  const std::uint64_t part = (chunk / kSlicesPerMessage + 127) / 128 * 128;
  return whole_packets(static_cast<std::uint32_t>(
      std::min<std::uint64_t>(request.slice_bytes, std::max<std::uint64_t>(part, kMinSliceBytes))));
}

}  // namespace

BoundPlan::BoundPlan(const Plan& plan, const BindRequest& request)
    : slice_bytes_(choose_slice(plan, request)),
      scratch_bytes_(plan.scratch_blocks * request.count * request.element_bytes),
      ranks_(plan.ranks) {
  for (const Lane& lane : plan.lanes) {
    BoundLane bound{.direction = direction_of(lane),
                    .peer = lane.peer.value_or(0),
                    .channel = lane.channel,
                    .first_step = static_cast<std::uint32_t>(steps_.size()),
                    .step_count = static_cast<std::uint32_t>(lane.steps.size())};
    lanes_.push_back(bound);
    for (const Step& step : lane.steps)
      bind_step(plan, request, step);
  }
  bind_dependents();
}

void BoundPlan::bind_step(const Plan& plan, const BindRequest& request, const Step& step) {
  const auto place = [&](const ChunkRef& ref) {
    const bool is_input = ref.buffer == BufferKind::kInput;
    const std::span<const ChunkBytes> table = is_input ? request.input : request.output;
    if (ref.buffer != BufferKind::kScratch && !table.empty()) {
      // Only one chunk at a time has a place in a table.
      return table[ref.chunk];
    }
    const ElementRange range =
        range_of(request.count, plan.chunks_per_block, ref.chunk, step.chunks);
    return ChunkBytes{.first = range.first * request.element_bytes,
                      .bytes = range.count * request.element_bytes};
  };
  BoundStep bound{.kind = step.kind,
                  .source_buffer = step.source.buffer,
                  .operand_buffer = step.operand.buffer,
                  .target_buffer = step.target.buffer,
                  .is_incoming_first = step.is_incoming_first,
                  .is_final = step.is_final};
  if (step.kind != StepKind::kReceive) {
    const ChunkBytes source = place(step.source);
    bound.source = source.first;
    bound.bytes = source.bytes;
  }
  if (step.kind == StepKind::kReduce) bound.operand = place(step.operand).first;
  if (step.kind != StepKind::kSend) {
    const ChunkBytes target = place(step.target);
    bound.target = target.first;
    bound.bytes = target.bytes;
  }
  // By the first chunk, which is the longest: so both ends decide alike for chunks cut short.
  const bool has_table = !request.input.empty() || !request.output.empty();
  const std::uint64_t nominal = has_table
                                    ? bound.bytes
                                    : range_of(request.count, plan.chunks_per_block, 0).count *
                                          request.element_bytes * step.chunks;
  bound.is_small = nominal <= kSmallBytes;
  const bool is_message = step.kind != StepKind::kCopy && step.kind != StepKind::kReduce;
  if (is_message && !bound.is_small && bound.bytes > 0) has_large_ = true;
  bound.slices = bound.is_small ? 1
                                : static_cast<std::uint32_t>(std::max<std::uint64_t>(
                                      1, (bound.bytes + slice_bytes_ - 1) / slice_bytes_));
  bound.first_wait = static_cast<std::uint32_t>(waits_.size());
  bound.wait_count = static_cast<std::uint32_t>(step.waits.size());
  for (const StepWait& wait : step.waits) {
    waits_.push_back({.lane = wait.on.lane, .step = wait.on.step, .is_by_slice = wait.is_by_slice});
  }
  steps_.push_back(bound);
}

void BoundPlan::bind_dependents() {
  std::vector<std::vector<std::uint32_t>> waiting(lanes_.size());
  std::vector<std::vector<std::uint32_t>> by_peer(std::size_t{2} * ranks_);
  for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane) {
    const BoundLane& bound = lanes_[lane];
    for (std::uint32_t i = 0; i < bound.step_count; ++i) {
      for (const BoundWait& wait : waits(step(bound, i))) {
        std::vector<std::uint32_t>& list = waiting[wait.lane];
        if (wait.lane != lane && (list.empty() || list.back() != lane)) list.push_back(lane);
      }
    }
    if (bound.direction == Direction::kLocal) continue;
    by_peer[(bound.direction == Direction::kSend ? 0 : ranks_) + bound.peer].push_back(lane);
  }
  for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane) {
    lanes_[lane].first_dependent = static_cast<std::uint32_t>(dependents_.size());
    lanes_[lane].dependent_count = static_cast<std::uint32_t>(waiting[lane].size());
    dependents_.insert(dependents_.end(), waiting[lane].begin(), waiting[lane].end());
  }
  for (const std::vector<std::uint32_t>& list : by_peer) {
    first_of_peer_.push_back(static_cast<std::uint32_t>(peer_lanes_.size()));
    peer_lanes_.insert(peer_lanes_.end(), list.begin(), list.end());
  }
  first_of_peer_.push_back(static_cast<std::uint32_t>(peer_lanes_.size()));
}

std::uint32_t BoundPlan::find_lane(Direction direction, std::uint32_t peer,
                                   std::uint32_t channel) const {
  if (peer >= ranks_) return kNoLane;
  const std::size_t row = (direction == Direction::kSend ? 0 : ranks_) + peer;
  for (std::uint32_t i = first_of_peer_[row]; i < first_of_peer_[row + 1]; ++i) {
    if (lanes_[peer_lanes_[i]].channel == channel) return peer_lanes_[i];
  }
  return kNoLane;
}

}  // namespace spindrift::collectives
