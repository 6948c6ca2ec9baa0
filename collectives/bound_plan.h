#pragma once
// A plan made ready to run for one count and type: places in bytes, messages cut into slices.
#include <cstdint>
#include <span>
#include <vector>

#include "spindrift/plan.h"

namespace spindrift::collectives {

// Messages of up to this many bytes travel with their header into memory that is always posted at
// the receiver, and are copied (or added) from there. Longer ones go in slices straight into place,
// when the receiver has said where.
inline constexpr std::uint32_t kSmallBytes = 32768;

struct BoundWait {
  std::uint32_t lane = 0;
  std::uint32_t step = 0;
  bool is_by_slice = false;
};

struct BoundStep {
  StepKind kind = StepKind::kSend;
  BufferKind source_buffer = BufferKind::kInput;
  BufferKind operand_buffer = BufferKind::kInput;
  BufferKind target_buffer = BufferKind::kOutput;
  bool is_incoming_first = false;
  bool is_final = false;
  bool is_small = false;
  std::uint32_t slices = 1;
  std::uint64_t source = 0;  // bytes from the start of the buffer
  std::uint64_t operand = 0;
  std::uint64_t target = 0;
  std::uint64_t bytes = 0;
  std::uint32_t first_wait = 0;
  std::uint32_t wait_count = 0;
};

enum class Direction : std::uint8_t { kLocal, kSend, kReceive };

struct BoundLane {
  Direction direction = Direction::kLocal;
  std::uint32_t peer = 0;  // rank in the group
  std::uint32_t channel = 0;
  std::uint32_t first_step = 0;
  std::uint32_t step_count = 0;
  std::uint32_t first_dependent = 0;  // lanes that wait for this one
  std::uint32_t dependent_count = 0;
};

// Bytes of a buffer's chunks where they are not blocks of equal length.
struct ChunkBytes {
  std::uint64_t first = 0;
  std::uint64_t bytes = 0;
};

struct BindRequest {
  std::uint64_t count = 0;  // elements of a block
  std::size_t element_bytes = 1;
  std::uint32_t slice_bytes = 0;
  // kAllToAllV and kSendReceive: chunk by chunk, instead of `count`.
  std::span<const ChunkBytes> input{};
  std::span<const ChunkBytes> output{};
};

class BoundPlan final {
 public:
  BoundPlan(const Plan& plan, const BindRequest& request);

  std::uint32_t slice_bytes() const { return slice_bytes_; }
  std::uint64_t scratch_bytes() const { return scratch_bytes_; }
  // Some message is not small, so that the buffers must be registered.
  bool has_large() const { return has_large_; }
  std::span<const BoundLane> lanes() const { return lanes_; }
  const BoundStep& step(const BoundLane& lane, std::uint32_t index) const {
    return steps_[lane.first_step + index];
  }
  std::span<const BoundWait> waits(const BoundStep& step) const {
    return {waits_.data() + step.first_wait, step.wait_count};
  }
  std::span<const std::uint32_t> dependents(const BoundLane& lane) const {
    return {dependents_.data() + lane.first_dependent, lane.dependent_count};
  }
  // kNoLane: none.
  static constexpr std::uint32_t kNoLane = UINT32_MAX;
  std::uint32_t find_lane(Direction direction, std::uint32_t peer, std::uint32_t channel) const;

  std::uint32_t slice_length(const BoundStep& step, std::uint32_t slice) const {
    if (step.is_small) return static_cast<std::uint32_t>(step.bytes);
    const std::uint64_t left = step.bytes - std::uint64_t{slice} * slice_bytes_;
    return static_cast<std::uint32_t>(left < slice_bytes_ ? left : slice_bytes_);
  }

 private:
  void bind_step(const Plan& plan, const BindRequest& request, const Step& step);
  void bind_dependents();

  std::uint32_t slice_bytes_ = 0;
  std::uint64_t scratch_bytes_ = 0;
  bool has_large_ = false;
  std::vector<BoundStep> steps_;
  std::vector<BoundWait> waits_;
  std::vector<BoundLane> lanes_;
  std::vector<std::uint32_t> dependents_;
  // Lanes to and from each peer: by direction and peer the first in peer_lanes_.
  std::vector<std::uint32_t> first_of_peer_;
  std::vector<std::uint32_t> peer_lanes_;
  std::uint32_t ranks_ = 0;
};

}  // namespace spindrift::collectives
