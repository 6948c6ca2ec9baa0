#include "collectives/planner.h"

#include <gtest/gtest.h>

#include "collectives/bound_plan.h"
#include "collectives/cost_model.h"

namespace spindrift::collectives {
namespace {

BoundPlan bound_ring(std::uint64_t count, std::uint32_t slice_bytes) {
  const CollectiveAlgorithm& ring =
      *find_collective_algorithm(Collective::kAllReduce, "ring").value();
  const Plan plan = build_plan(ring, {.rank = 1, .ranks = 4}).value();
  return {plan, {.count = count, .element_bytes = 4, .slice_bytes = slice_bytes}};
}

TEST(BoundPlan, CutsLongMessagesIntoSlicesAndLeavesShortOnesWhole) {
  const BoundPlan small = bound_ring(4 * kSmallBytes / 4, 262144);
  EXPECT_FALSE(small.has_large());
  const BoundLane& lane = small.lanes()[0];
  EXPECT_EQ(small.step(lane, 0).bytes, kSmallBytes);
  EXPECT_EQ(small.step(lane, 0).slices, 1U);

  const BoundPlan large = bound_ring(std::uint64_t{1} << 22U, 262144);
  EXPECT_TRUE(large.has_large());
  const BoundStep& step = large.step(large.lanes()[0], 0);
  EXPECT_EQ(step.bytes, std::uint64_t{1} << 22U);
  // Whole bursts of packets of the UDP provider; what is left over comes last.
  EXPECT_EQ(step.slices, 17U);
  EXPECT_EQ(large.slice_length(step, 15), 16U * 16256U);
  EXPECT_EQ(large.slice_length(step, 16), 16U * (262144U - 16U * 16256U));
}

TEST(BoundPlan, SlicesMiddlingMessagesSoThatTheNextHopStartsEarly) {
  const BoundPlan middling = bound_ring(std::uint64_t{1} << 20U, 1U << 24U);
  EXPECT_EQ(middling.step(middling.lanes()[0], 0).slices, 9U);
  // The last chunks are short, but whether they are small is said by the first.
  const BoundPlan uneven = bound_ring(4 * 1040 - 1000, 262144);
  for (const BoundLane& lane : uneven.lanes()) {
    for (std::uint32_t i = 0; i < lane.step_count; ++i)
      EXPECT_EQ(uneven.step(lane, i).is_small, uneven.step(lane, 0).is_small);
  }
}

TEST(BoundPlan, FindsLanesByPeerAndDirection) {
  const BoundPlan plan = bound_ring(100, 262144);
  const std::uint32_t out = plan.find_lane(Direction::kSend, 2, 0);
  ASSERT_NE(out, BoundPlan::kNoLane);
  EXPECT_EQ(plan.lanes()[out].direction, Direction::kSend);
  EXPECT_EQ(plan.find_lane(Direction::kSend, 0, 0), BoundPlan::kNoLane);
  EXPECT_EQ(plan.find_lane(Direction::kSend, 2, 1), BoundPlan::kNoLane);
  // A rank that is not of the group can send what it likes.
  EXPECT_EQ(plan.find_lane(Direction::kSend, UINT32_MAX, 0), BoundPlan::kNoLane);
  EXPECT_EQ(plan.find_lane(Direction::kReceive, 100, 0), BoundPlan::kNoLane);
}

TEST(CostModel, AddsStepsMessagesAndBytesOfNetworkAndHost) {
  CostModel model;
  model.network = {.latency_us = 10, .overhead_us = 1, .bandwidth_gbps = 2};
  model.near = {.latency_us = 1, .overhead_us = 0.5, .bandwidth_gbps = 4};
  const CollectiveAlgorithm& ring =
      *find_collective_algorithm(Collective::kAllReduce, "ring").value();
  PlanCost cost;
  cost.network = {.steps = 3, .messages = 5, .blocks = 2};
  EXPECT_DOUBLE_EQ(model.predict_us(ring, cost, 100, false), 30 + 5 + 0.1);
  // Long messages are granted first: one latency more.
  EXPECT_DOUBLE_EQ(model.predict_us(ring, cost, 1e6, false), 40 + 5 + 1000);
  model.factors["all_reduce:ring"] = 0.5;
  EXPECT_DOUBLE_EQ(model.predict_us(ring, cost, 1e6, false), 40 + 5 + 2000);
  cost.near = {.steps = 2, .messages = 2, .blocks = 1};
  EXPECT_DOUBLE_EQ(model.predict_us(ring, cost, 100, false), 30 + 5 + 0.2 + 2 + 1 + 0.05);
}

TEST(CostModel, TextsAndFilesKeepIt) {
  CostModel model;
  model.network.latency_us = 7.5;
  model.shared.bandwidth_gbps = 3.5;
  model.shared_limit_bytes = 4096;
  model.factors["all_reduce:ring"] = 0.25;
  EXPECT_EQ(cost_model_from_text(to_text(model)).value(), model);
  EXPECT_EQ(cost_model_from_text("").value(), CostModel{});
  for (const char* wrong : {"network=1,2", "near=1,2,0", "ring=1", "all_reduce:ring=-1",
                            "shared=1,2", "shared_limit=-1", "x"}) {
    const Result<CostModel> parsed = cost_model_from_text(wrong);
    ASSERT_FALSE(parsed.ok()) << wrong;
    EXPECT_NE(parsed.error().message().find(wrong), std::string::npos);
  }
  const std::string file = testing::TempDir() + "/spindrift_costs/of/this.costs";
  ASSERT_TRUE(save_cost_model(file, model).ok());
  EXPECT_EQ(load_cost_model(file).value(), model);
  EXPECT_EQ(load_cost_model(file + ".not_there").value(), CostModel{});
  EXPECT_EQ(load_cost_model("").value(), CostModel{});
}

TEST(Planner, MakesAPlanOnceForEachKindOfCall) {
  Planner planner = Planner::create({.rank = 0, .ranks = 4, .slice_bytes = 262144}).value();
  const PlanKey key{.element_bytes = 4, .count = 1000};
  Planner::Entry* const first = planner.find(key).value();
  EXPECT_EQ(planner.find(key).value(), first);
  PlanKey other = key;
  other.is_in_place = true;
  EXPECT_NE(planner.find(other).value(), first);
  EXPECT_EQ(planner.find(key).value(), first);
}

TEST(Planner, GivesUpOldPlansButNeverOnesInUse) {
  Planner planner = Planner::create({.rank = 0, .ranks = 2, .slice_bytes = 262144}).value();
  Planner::Entry* const used = planner.find({.element_bytes = 4, .count = 1}).value();
  ++used->users;
  for (std::uint64_t count = 2; count < 1000; ++count)
    ASSERT_TRUE(planner.find({.element_bytes = 4, .count = count}).ok());
  EXPECT_EQ(planner.find({.element_bytes = 4, .count = 1}).value(), used);
}

TEST(Planner, TakesNamesOfAlgorithmsForOneOrAllCollectives) {
  const auto chosen = [](const std::string& text, Collective collective) {
    const Result<Planner> planner =
        Planner::create({.rank = 0, .ranks = 8, .slice_bytes = 1024, .algorithm = text});
    if (!planner.ok()) return planner.error().message();
    return std::string(
        planner.value().choose({.collective = collective, .element_bytes = 4}).value()->name);
  };
  EXPECT_EQ(chosen("ring", Collective::kAllReduce), "ring");
  EXPECT_EQ(chosen("ring", Collective::kAllGather), "ring");
  EXPECT_EQ(chosen("allreduce:tree;broadcast:chain", Collective::kAllReduce), "tree");
  EXPECT_EQ(chosen("allreduce:tree;broadcast:chain", Collective::kBroadcast), "chain");
  EXPECT_NE(chosen("rign", Collective::kAllReduce).find("there are: direct"), std::string::npos);
  EXPECT_NE(chosen("gather:ring", Collective::kGather).find("binomial"), std::string::npos);
  EXPECT_NE(chosen("allreduc:ring", Collective::kGather).find("all_reduce"), std::string::npos);
}

}  // namespace
}  // namespace spindrift::collectives
