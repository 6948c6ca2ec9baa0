#include "tools/perf/plan.h"

#include <gtest/gtest.h>

#include "tools/perf/units.h"

namespace spindrift::perf {
namespace {

TEST(Operation, NamesSurviveARoundTrip) {
  for (const Operation operation : kAllOperations) {
    EXPECT_EQ(parse_operation(to_string(operation)).value(), operation);
  }
  EXPECT_FALSE(parse_operation("WRITE").ok());
}

TEST(PlanRun, GivesEveryMessageInFlightItsOwnSlotWhenVerifying) {
  const TestShape shape{.sizes = {65536}, .connections = 4, .has_verify = true};
  const RunPlan run = plan_run(shape, 65536);
  EXPECT_EQ(run.depth, 64u);
  EXPECT_EQ(run.slots, 64u);
}

TEST(PlanRun, LowersTheDepthWhereVerificationWouldTakeTooMuchMemory) {
  const TestShape shape{.sizes = {64u << 20}, .depth = 128, .connections = 2, .has_verify = true};
  const RunPlan run = plan_run(shape, 64u << 20);
  EXPECT_EQ(run.slots, 2u);
  EXPECT_EQ(run.depth, 2u);
}

TEST(PlanRun, SharesSlotsWithoutVerification) {
  const TestShape shape{.sizes = {8u << 20}, .depth = 16};
  const RunPlan run = plan_run(shape, 8u << 20);
  EXPECT_EQ(run.depth, 16u);
  EXPECT_EQ(run.slots, 1u);
}

TEST(PlanRun, HasRoomForMessagesWithoutBytes) {
  const RunPlan run = plan_run({.sizes = {0}}, 0);
  EXPECT_GE(run.slots, 1u);
  EXPECT_GT(run.slot_bytes, 0u);
}

TEST(PlanMemory, NeverLetsAreasOverlapOrLeaveTheRegion) {
  for (const Operation operation : kAllOperations) {
    for (const bool has_verify : {false, true}) {
      const TestShape shape{.operation = operation,
                            .sizes = size_ladder(),
                            .connections = 3,
                            .has_verify = has_verify};
      const MemoryPlan memory = plan_memory(shape);
      std::uint64_t free_from = 0;
      for (std::uint32_t c = 0; c < shape.connections; ++c) {
        for (const std::uint64_t bytes : shape.sizes) {
          const RunPlan run = plan_run(shape, bytes);
          EXPECT_LE(run.slots * run.slot_bytes, memory.source_bytes);
        }
        EXPECT_GE(memory.source_offset(c), free_from);
        EXPECT_EQ(memory.target_offset(c), memory.source_offset(c) + memory.source_bytes);
        free_from = memory.target_offset(c) + memory.target_bytes;
        for (std::uint32_t r = 0; r < memory.receives; ++r) {
          EXPECT_GE(memory.receive_offset(c, r), free_from);
          EXPECT_LE(memory.receive_offset(c, r) + memory.receive_slot_bytes,
                    free_from + memory.receive_bytes);
        }
        free_from += memory.receive_bytes;
      }
      EXPECT_EQ(memory.total_bytes(), free_from);
    }
  }
}

TEST(PlanMemory, GivesEveryReceiveItsOwnPlaceWhenVerifying) {
  const MemoryPlan memory =
      plan_memory({.operation = Operation::kSend, .sizes = size_ladder(), .has_verify = true});
  EXPECT_GT(memory.receives, 1u);
  EXPECT_EQ(memory.receives, memory.receive_places);
  EXPECT_GE(memory.receive_slot_bytes, kLargestLadderBytes);
}

TEST(PlanMemory, PostsReceivesOnlyForOperationsThatUseThem) {
  EXPECT_EQ(plan_memory({.operation = Operation::kWrite, .sizes = {64}}).receives, 0u);
  EXPECT_EQ(plan_memory({.operation = Operation::kWriteImm, .sizes = {64}}).receives, 256u);
  EXPECT_EQ(plan_memory({.operation = Operation::kWriteImm, .sizes = {64}}).receive_slot_bytes, 0u);
}

}  // namespace
}  // namespace spindrift::perf
