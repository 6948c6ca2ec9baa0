#include "tools/perf/plan.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "tools/perf/units.h"

namespace spindrift::perf {
namespace {

constexpr std::uint64_t kVerifyBudgetBytes = 256ULL << 20;
constexpr std::uint64_t kSharedBytes = 4ULL << 20;
constexpr std::uint64_t kSlotAlignment = 64;

std::uint64_t slot_bytes_for(std::uint64_t message_bytes) {
  const std::uint64_t bytes = std::max<std::uint64_t>(message_bytes, 1);
  return (bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
}

// How many of `wanted` slots get memory of their own.
std::uint32_t places_for(const TestShape& shape, std::uint64_t slot_bytes, std::uint32_t wanted) {
  const std::uint64_t budget =
      (shape.has_verify ? kVerifyBudgetBytes : kSharedBytes) / shape.connections;
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(budget / slot_bytes, 1, std::max<std::uint32_t>(wanted, 1)));
}

std::uint32_t depth_for(const TestShape& shape, std::uint64_t message_bytes) {
  return shape.depth != 0 ? shape.depth : default_depth(message_bytes);
}

}  // namespace

std::string_view to_string(Operation operation) {
  switch (operation) {
    case Operation::kWrite:
      return "write";
    case Operation::kWriteImm:
      return "write-imm";
    case Operation::kSend:
      return "send";
    case Operation::kRead:
      return "read";
    case Operation::kAtomic:
      return "atomic";
  }
  return "unknown";
}

Result<Operation> parse_operation(std::string_view name) {
  for (const Operation operation : kAllOperations) {
    if (to_string(operation) == name) return operation;
  }
  return Error(ErrorCode::kInvalidArgument,
               absl::StrFormat("there is no operation '%s'; choose write, write-imm, send, read or "
                               "atomic",
                               name));
}

bool uses_receives(Operation operation) {
  return operation == Operation::kSend || operation == Operation::kWriteImm;
}

RunPlan plan_run(const TestShape& shape, std::uint64_t message_bytes) {
  RunPlan run{.message_bytes = message_bytes, .slot_bytes = slot_bytes_for(message_bytes)};
  run.depth = depth_for(shape, message_bytes);
  run.slots = places_for(shape, run.slot_bytes, run.depth);
  if (shape.has_verify) run.depth = std::min(run.depth, run.slots);
  return run;
}

MemoryPlan plan_memory(const TestShape& shape) {
  MemoryPlan memory{.connections = shape.connections};
  std::uint64_t largest_bytes = 0;
  std::uint32_t deepest = 1;
  for (const std::uint64_t bytes : shape.sizes) {
    const RunPlan run = plan_run(shape, bytes);
    memory.source_bytes = std::max(memory.source_bytes, run.slot_bytes * run.slots);
    largest_bytes = std::max(largest_bytes, bytes);
    deepest = std::max(deepest, run.depth);
  }
  memory.target_bytes = memory.source_bytes;
  if (!uses_receives(shape.operation)) return memory;

  // Twice the depth: the peer must not run dry while completions wait to be polled.
  memory.receives = std::min(2 * deepest, kMaxDepth);
  if (shape.operation == Operation::kWriteImm) return memory;
  memory.receive_slot_bytes = slot_bytes_for(largest_bytes);
  memory.receive_places = places_for(shape, memory.receive_slot_bytes, memory.receives);
  if (shape.has_verify) memory.receives = memory.receive_places;
  memory.receive_bytes = memory.receive_slot_bytes * memory.receive_places;
  return memory;
}

}  // namespace spindrift::perf
