#include "collectives/plan.h"

#include <gtest/gtest.h>

#include "collectives/plan_builder.h"
#include "collectives/plan_check.h"
#include "collectives/plan_clock.h"
#include "collectives/plan_order.h"
#include "collectives/plan_symbols.h"

namespace spindrift::collectives {
namespace {

const CollectiveAlgorithm& algorithm(Collective collective, std::string_view name) {
  return *find_collective_algorithm(collective, name).value();
}

std::vector<Plan> plans_of(const CollectiveAlgorithm& algorithm, const PlanRequest& request) {
  std::vector<Plan> plans;
  for (std::uint32_t rank = 0; rank < request.ranks; ++rank)
    plans.push_back(build_plan(algorithm, request_of_rank(request, rank)).value());
  return plans;
}

std::vector<Plan> ring_plans(std::uint32_t ranks) {
  return plans_of(algorithm(Collective::kAllReduce, "ring"), {.ranks = ranks});
}

Status check_ring(const std::vector<Plan>& plans) {
  return check_plans(plans, {.ranks = static_cast<std::uint32_t>(plans.size())});
}

bool has_root(Collective collective) {
  return collective == Collective::kBroadcast || collective == Collective::kReduce ||
         collective == Collective::kGather || collective == Collective::kScatter;
}

// Hosts of equal size, of sizes that differ, and with ranks dealt out one by one.
std::vector<PlanTopology> topologies(std::uint32_t ranks) {
  std::vector<PlanTopology> made(4);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    made[0].hosts.push_back(rank / 2);
    made[1].hosts.push_back(rank < ranks / 3 ? 0 : rank < ranks - 1 ? 1 : 2);
    made[2].hosts.push_back(rank % 3);
    made[3].hosts.push_back(rank / 8);
  }
  // Numbers in order of appearance, without gaps.
  for (PlanTopology& topology : made) {
    std::vector<std::uint32_t> seen;
    for (std::uint32_t& host : topology.hosts) {
      const auto found = std::find(seen.begin(), seen.end(), host);
      const auto number = static_cast<std::uint32_t>(found - seen.begin());
      if (found == seen.end()) seen.push_back(host);
      host = number;
    }
  }
  return made;
}

class EveryAlgorithm : public testing::TestWithParam<const CollectiveAlgorithm*> {
 protected:
  void expect_right(const PlanRequest& request) {
    const CollectiveAlgorithm& algorithm = *GetParam();
    const std::vector<Plan> plans = plans_of(algorithm, request);
    const Status status =
        algorithm.is_rank_ordered ? check_rank_order(plans, request) : check_plans(plans, request);
    EXPECT_TRUE(status.ok()) << request.ranks << " ranks, root " << request.root << ", in place "
                             << request.is_in_place << ": " << status.error().message();
  }
};

TEST_P(EveryAlgorithm, DoesWhatItsCollectivePromisesForEveryGroupOfUpTo64) {
  for (std::uint32_t ranks = 1; ranks <= kMaxRanks; ++ranks) {
    std::vector<std::uint32_t> roots{0};
    if (has_root(GetParam()->collective)) {
      roots = {0, ranks / 2, ranks - 1};
      roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
    }
    for (const std::uint32_t root : roots) {
      for (const bool is_in_place : {false, true}) {
        if (is_in_place && GetParam()->collective == Collective::kAllToAllV) continue;
        PlanRequest request{.collective = GetParam()->collective,
                            .ranks = ranks,
                            .root = root,
                            .is_in_place = is_in_place};
        if (GetParam()->why_not == nullptr) expect_right(request);
        for (const PlanTopology& topology : topologies(ranks)) {
          request.topology = topology;
          if (GetParam()->why_not != nullptr && GetParam()->why_not(request).empty()) {
            expect_right(request);
          }
        }
        if (HasFailure()) return;
      }
    }
  }
}

std::string name_of(const testing::TestParamInfo<const CollectiveAlgorithm*>& info) {
  return std::string(to_string(info.param->collective)) + "_" + std::string(info.param->name);
}

INSTANTIATE_TEST_SUITE_P(Plans, EveryAlgorithm,
                         testing::ValuesIn(collective_algorithms().begin(),
                                           collective_algorithms().end()),
                         name_of);

TEST(FindAlgorithm, NamesWhatThereIsForThatCollective) {
  const auto found = find_collective_algorithm(Collective::kBroadcast, "rign");
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.error().message().find("binomial"), std::string::npos);
  EXPECT_EQ(found.error().message().find("doubling"), std::string::npos);
}

TEST(BuildPlan, RefusesRanksAndRootsThatAreNotThere) {
  const CollectiveAlgorithm& ring = algorithm(Collective::kAllReduce, "ring");
  EXPECT_FALSE(build_plan(ring, {.rank = 2, .ranks = 2}).ok());
  EXPECT_FALSE(build_plan(ring, {.ranks = 2, .root = 2}).ok());
  EXPECT_FALSE(build_plan(ring, {.ranks = kMaxRanks + 1}).ok());
  EXPECT_FALSE(build_plan(ring, {.ranks = 3, .topology = {.hosts = {0, 0}}}).ok());
}

TEST(PlanCostOf, CountsStepsMessagesAndBlocksOfWellKnownAlgorithms) {
  const auto cost = [](Collective collective, std::string_view name, std::uint32_t ranks) {
    return cost_of(algorithm(collective, name), {.collective = collective, .ranks = ranks})
        .value()
        .network;
  };
  const PlanCost::Traffic ring = cost(Collective::kAllReduce, "ring", 8);
  EXPECT_EQ(ring.steps, 14U);
  EXPECT_EQ(ring.messages, 14U);
  EXPECT_DOUBLE_EQ(ring.blocks, 14.0 / 8);
  const PlanCost::Traffic direct = cost(Collective::kAllReduce, "direct", 8);
  EXPECT_EQ(direct.steps, 1U);
  EXPECT_EQ(direct.messages, 7U);
  EXPECT_DOUBLE_EQ(direct.blocks, 7.0);
  EXPECT_EQ(cost(Collective::kAllReduce, "mesh", 8).steps, 2U);
  EXPECT_EQ(cost(Collective::kAllReduce, "doubling", 8).steps, 3U);
  EXPECT_EQ(cost(Collective::kAllReduce, "doubling", 9).steps, 4U);
  EXPECT_EQ(cost(Collective::kAllReduce, "halving_doubling", 16).steps, 8U);
  EXPECT_DOUBLE_EQ(cost(Collective::kAllReduce, "halving_doubling", 16).blocks, 30.0 / 16);
  EXPECT_EQ(cost(Collective::kAllGather, "bruck", 9).steps, 3U);
  EXPECT_EQ(cost(Collective::kBroadcast, "binomial", 9).steps, 3U);
  EXPECT_EQ(cost(Collective::kAllToAll, "bruck", 16).steps, 4U);
  EXPECT_DOUBLE_EQ(cost(Collective::kAllToAll, "bruck", 16).blocks, 32.0);
}

TEST(PlanCostOf, HierarchicalPlansSendBetweenHostsWhatARingOfHostsWould) {
  // Four hosts of four: each rank sends 2 (4-1)/4 of a quarter of the vector to another host.
  PlanRequest request{.ranks = 16};
  for (std::uint32_t rank = 0; rank < 16; ++rank)
    request.topology.hosts.push_back(rank / 4);
  const PlanCost cost = cost_of(algorithm(Collective::kAllReduce, "hierarchical"), request).value();
  EXPECT_DOUBLE_EQ(cost.network.blocks, 2.0 * 3 / 4 / 4);
  EXPECT_EQ(cost.network.steps, 6U);
  EXPECT_DOUBLE_EQ(cost.near.blocks, 2.0 * 3 / 4);
}

TEST(PlanCostOf, HierarchicalPlansOfBlocksTakeEachOutOfItsHostOnce) {
  // hierarchical_blocks.cc: four hosts of four; an owner has one block of each host.
  PlanRequest request{.ranks = 16};
  for (std::uint32_t rank = 0; rank < 16; ++rank)
    request.topology.hosts.push_back(rank / 4);
  for (const Collective collective : {Collective::kAllGather, Collective::kReduceScatter}) {
    request.collective = collective;
    const PlanCost cost = cost_of(algorithm(collective, "hierarchical"), request).value();
    EXPECT_DOUBLE_EQ(cost.network.blocks, 3.0) << to_string(collective);
    EXPECT_EQ(cost.network.steps, 3U) << to_string(collective);
  }
  request.collective = Collective::kReduce;
  EXPECT_DOUBLE_EQ(
      cost_of(algorithm(Collective::kReduce, "hierarchical"), request).value().network.blocks, 2.0)
      << "that the root receives";
}

TEST(BuildPlan, HierarchicalNeedsSeveralHostsWithSeveralRanks) {
  const CollectiveAlgorithm& one = algorithm(Collective::kAllReduce, "hierarchical");
  EXPECT_EQ(build_plan(one, {.ranks = 3}).error().code(), ErrorCode::kUnsupported);
  EXPECT_FALSE(build_plan(one, {.ranks = 3, .topology = {.hosts = {0, 0, 0}}}).ok());
  EXPECT_FALSE(build_plan(one, {.ranks = 3, .topology = {.hosts = {0, 1, 2}}}).ok());
  EXPECT_TRUE(build_plan(one, {.ranks = 3, .topology = {.hosts = {0, 1, 0}}}).ok());
}

TEST(PlanClock, AMessageLeavesWhenWhatItCarriesIsThere) {
  const std::vector<Plan> plans = ring_plans(3);
  PlanClock clock(plans, {});
  EXPECT_EQ(clock.run(), (Moment{.network = 4, .near = 0}));
  ASSERT_EQ(clock.messages().size(), 12U);
  for (const PlanMessage& message : clock.messages()) {
    EXPECT_EQ(message.to, (message.from + 1) % 3);
    // The reduce-scatter, which adds, takes the first two steps.
    EXPECT_EQ(message.receive->kind == StepKind::kReceiveReduce, message.start.network < 2);
  }
}

TEST(PlanCheck, FindsAMissingContribution) {
  std::vector<Plan> plans = ring_plans(4);
  plans[2].lanes[1].steps[1].kind = StepKind::kReceive;  // overwrites instead of adding
  const Status status = check_ring(plans);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message().find("every contribution once"), std::string::npos)
      << status.error().message();
}

TEST(PlanCheck, FindsAContributionAddedTwice) {
  std::vector<Plan> plans = ring_plans(3);
  for (Plan& plan : plans) {
    // The all-gather adds the finished sum to the partial one.
    Step& step = plan.lanes[1].steps[3];
    step.kind = StepKind::kReceiveReduce;
    step.source = step.target;
  }
  EXPECT_FALSE(check_ring(plans).ok());
}

TEST(PlanCheck, FindsADeadlock) {
  std::vector<Plan> plans = ring_plans(3);
  // Every rank waits for the finished sum before it starts.
  for (Plan& plan : plans)
    plan.lanes[0].steps[0].waits.push_back({.on = {.lane = 1, .step = 3}});
  const Status status = check_ring(plans);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message().find("deadlock"), std::string::npos);
}

TEST(PlanCheck, FindsAReceiveThatMayOverwriteWhatIsStillBeingSent) {
  std::vector<Plan> plans = ring_plans(4);
  plans[1].lanes[1].steps[4].waits.clear();
  const Status status = check_ring(plans);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message().find("race"), std::string::npos) << status.error().message();
}

TEST(PlanCheck, FindsASendThatDoesNotWaitForItsData) {
  std::vector<Plan> plans = ring_plans(4);
  plans[1].lanes[0].steps[2].waits.clear();
  EXPECT_FALSE(check_ring(plans).ok());
}

TEST(PlanCheck, FindsRanksThatAddInDifferentOrders) {
  std::vector<Plan> plans = plans_of(algorithm(Collective::kAllReduce, "doubling"), {.ranks = 2});
  plans[1].lanes[1].steps[0].is_incoming_first = false;
  const Status status = check_plans(plans, {.ranks = 2});
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message().find("another order"), std::string::npos)
      << status.error().message();
}

TEST(PlanCheck, FindsASumThatIsNotInTheOrderOfTheRanks) {
  EXPECT_TRUE(check_ring(ring_plans(3)).ok());
  EXPECT_FALSE(check_rank_order(ring_plans(3), {.ranks = 3}).ok());
}

TEST(PlanCheck, FindsASumThatNobodyMadeFinal) {
  std::vector<Plan> plans = ring_plans(3);
  plans[0].lanes[1].steps[1].is_final = false;
  const Status status = check_ring(plans);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message().find("final"), std::string::npos) << status.error().message();
}

TEST(PlanCheck, FindsAWaitBySliceForWhatLiesElsewhere) {
  const PlanRequest request{.collective = Collective::kBroadcast, .ranks = 2};
  std::vector<Plan> plans = plans_of(algorithm(Collective::kBroadcast, "tree"), request);
  ASSERT_TRUE(check_plans(plans, request).ok());
  std::vector<Plan> rings = ring_plans(3);
  for (StepWait& wait : rings[0].lanes[0].steps[1].waits)
    wait.on = {.lane = 0, .step = 0};
  EXPECT_FALSE(check_ring(rings).ok());
}

TEST(PlanCheck, FindsABufferThatOnlyTheRootHas) {
  const PlanRequest request{.collective = Collective::kReduce, .ranks = 2};
  std::vector<Plan> plans = plans_of(algorithm(Collective::kReduce, "direct"), request);
  plans[1].lanes[0].steps[0].source = output(0);
  const Status status = check_plans(plans, request);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message().find("root"), std::string::npos);
}

TEST(PlanCheck, RefusesPlacesThatAreNotThere) {
  std::vector<Plan> plans = ring_plans(2);
  plans[0].lanes[0].steps[0].source.chunk = 2;
  EXPECT_FALSE(check_ring(plans).ok());
  plans = ring_plans(2);
  plans[0].lanes[0].steps[0].waits.push_back({.on = {.lane = 9, .step = 0}});
  EXPECT_FALSE(check_ring(plans).ok());
  plans = ring_plans(2);
  plans[1].lanes[0].peer = 7;
  EXPECT_FALSE(check_ring(plans).ok());
}

TEST(PlanBuilder, StepsWaitForWhoeverWroteOrReadTheirPlacesBefore) {
  PlanBuilder builder({.rank = 0, .ranks = 2, .is_in_place = true}, 2, 1);
  builder.send(1, input(0));
  builder.receive(1, output(0));  // the same place, in place
  builder.receive(1, scratch(0), 2);
  builder.copy(scratch(1), output(1));
  const Plan plan = builder.finish();
  const std::vector<StepWait>& receive = plan.lanes[1].steps[0].waits;
  ASSERT_EQ(receive.size(), 1U);
  EXPECT_EQ(receive[0].on, (StepRef{.lane = 0, .step = 0}));
  EXPECT_TRUE(receive[0].is_by_slice);
  const std::vector<StepWait>& copy = plan.lanes[2].steps[0].waits;
  ASSERT_EQ(copy.size(), 1U);
  EXPECT_EQ(copy[0].on, (StepRef{.lane = 1, .step = 1}));
  EXPECT_FALSE(copy[0].is_by_slice) << "half of what was received";
}

TEST(PlanOrder, AStepTouchesWhatItsKindSays) {
  Step step{.kind = StepKind::kSend, .source = input(1), .operand = input(2), .target = output(3)};
  EXPECT_EQ(refs_of(step), std::vector<ChunkRef>{input(1)});
  step.kind = StepKind::kReceive;
  EXPECT_EQ(refs_of(step), std::vector<ChunkRef>{output(3)});
  step.kind = StepKind::kReduce;
  EXPECT_EQ(refs_of(step), (std::vector<ChunkRef>{input(1), input(2), output(3)}));
}

TEST(Symbols, EqualExpressionsAreOneAndOrderCounts) {
  Symbols symbols;
  const std::uint32_t a = symbols.leaf(0, 3);
  const std::uint32_t b = symbols.leaf(1, 3);
  EXPECT_EQ(symbols.sum(a, b), symbols.sum(a, b));
  EXPECT_NE(symbols.sum(a, b), symbols.sum(b, a));
  EXPECT_TRUE(symbols.holds_all_once(symbols.sum(a, b), 2, 3));
  EXPECT_FALSE(symbols.holds_all_once(symbols.sum(a, a), 2, 3));
  EXPECT_FALSE(symbols.holds_all_once(symbols.sum(a, b), 2, 4));
}

TEST(RangeOf, ChunksCoverEveryElementOnceWithoutGaps) {
  for (const std::uint64_t count :
       {0ULL, 1ULL, 31ULL, 32ULL, 33ULL, 1000ULL, 4097ULL, 1ULL << 33}) {
    for (std::uint32_t chunks = 1; chunks <= kMaxRanks; ++chunks) {
      std::uint64_t next = 0;
      for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
        const ElementRange range = range_of(count, chunks, chunk);
        ASSERT_EQ(range.first, next) << count << " in " << chunks;
        next += range.count;
      }
      ASSERT_EQ(next, count) << count << " in " << chunks;
      ASSERT_EQ(range_of(count, chunks, 0, chunks).count, count);
      // The second and third of several blocks.
      const ElementRange blocks = range_of(count, chunks, chunks, 2 * chunks);
      ASSERT_EQ(blocks.first, count);
      ASSERT_EQ(blocks.count, 2 * count);
    }
  }
}

}  // namespace
}  // namespace spindrift::collectives
