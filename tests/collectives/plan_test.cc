#include "collectives/plan.h"

#include <gtest/gtest.h>

#include "collectives/plan_check.h"

namespace spindrift::collectives {
namespace {

std::vector<Plan> ring_plans(std::uint32_t ranks) {
  std::vector<Plan> plans;
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    plans.push_back(ring_all_reduce(rank, ranks));
  return plans;
}

TEST(RingAllReduce, EveryChunkHoldsEveryContributionOnceForAllGroupsOfUpTo64) {
  for (std::uint32_t ranks = 1; ranks <= kMaxRanks; ++ranks) {
    const Status status = check_all_reduce(ring_plans(ranks));
    EXPECT_TRUE(status.ok()) << ranks << " ranks: " << status.error().message();
  }
}

TEST(RingAllReduce, SendsTwiceRanksMinusOneChunksToTheNextRankOnly) {
  for (std::uint32_t ranks = 2; ranks <= kMaxRanks; ++ranks) {
    const Plan plan = ring_all_reduce(ranks - 1, ranks);
    ASSERT_EQ(plan.lanes.size(), 2U);
    EXPECT_EQ(plan.lanes[0].steps.size(), 2 * (ranks - 1));
    EXPECT_EQ(plan.lanes[0].peer, 0U);
    EXPECT_EQ(plan.lanes[1].peer, ranks - 2);
  }
}

TEST(PlanCheck, FindsAMissingContribution) {
  std::vector<Plan> plans = ring_plans(4);
  plans[2].lanes[1].steps[1].kind = StepKind::kReceive;  // overwrites instead of adding
  const Status status = check_all_reduce(plans);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message().find("0 times"), std::string::npos)
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
  const Status status = check_all_reduce(plans);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message().find("times"), std::string::npos);
}

TEST(PlanCheck, FindsADeadlock) {
  std::vector<Plan> plans = ring_plans(3);
  // Every rank waits for the finished sum before it starts.
  for (Plan& plan : plans)
    plan.lanes[0].steps[0].waits.push_back({.lane = 1, .step = 3});
  const Status status = check_all_reduce(plans);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message().find("deadlock"), std::string::npos);
}

TEST(PlanCheck, FindsAReceiveThatMayOverwriteWhatIsStillBeingSent) {
  std::vector<Plan> plans = ring_plans(4);
  plans[1].lanes[1].steps[4].waits.clear();
  const Status status = check_all_reduce(plans);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message().find("race"), std::string::npos) << status.error().message();
}

TEST(PlanCheck, FindsASendThatDoesNotWaitForItsData) {
  std::vector<Plan> plans = ring_plans(4);
  plans[1].lanes[0].steps[2].waits.clear();
  EXPECT_FALSE(check_all_reduce(plans).ok());
}

TEST(PlanCheck, RefusesPlacesThatAreNotThere) {
  std::vector<Plan> plans = ring_plans(2);
  plans[0].lanes[0].steps[0].source.chunk = 2;
  EXPECT_FALSE(check_all_reduce(plans).ok());
  plans = ring_plans(2);
  plans[0].lanes[0].steps[0].waits.push_back({.lane = 9, .step = 0});
  EXPECT_FALSE(check_all_reduce(plans).ok());
  plans = ring_plans(2);
  plans[1].lanes[0].peer = 7;
  EXPECT_FALSE(check_all_reduce(plans).ok());
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
    }
  }
}

}  // namespace
}  // namespace spindrift::collectives
