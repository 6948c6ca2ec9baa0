// What each single policy promises beyond the contract.
#include <algorithm>
#include <map>

#include "tests/paths/policies_under_test.h"
#include "transport/paths/oblivious_walk.h"
#include "transport/paths/penalties.h"
#include "transport/paths/recycled.h"

namespace spindrift::test {
namespace {

using std::chrono::microseconds;

std::map<std::uint16_t, int> share(PathSelector& selector, int picks) {
  std::map<std::uint16_t, int> result;
  for (int i = 0; i < picks; ++i)
    ++result[pick_one(selector).value];
  return result;
}

TEST(ObliviousWalk, VisitsEveryPathOncePerRound) {
  for (std::uint32_t n = 1; n <= kMaxPaths; ++n) {
    ObliviousWalk walk(n, n);
    for (int round = 0; round < 3; ++round) {
      std::set<PathId> seen;
      for (std::uint32_t i = 0; i < n; ++i)
        seen.insert(walk.next());
      ASSERT_EQ(seen.size(), n) << "round " << round;
    }
  }
}

TEST(ObliviousWalk, ChangesItsOrderBetweenRounds) {
  ObliviousWalk walk(64, 1);
  std::vector<PathId> first, second;
  for (int i = 0; i < 64; ++i)
    first.push_back(walk.next());
  for (int i = 0; i < 64; ++i)
    second.push_back(walk.next());
  EXPECT_NE(first, second);
}

TEST(SinglePath, StaysThroughMarksAndSingleLosses) {
  const auto selector = kSinglePathPolicy.make(16, 3);
  const PathId home = pick_one(*selector);
  for (int i = 0; i < 100; ++i) {
    tell(*selector, feedback_of(home.value, PathOutcome::kMarked));
    tell(*selector, feedback_of(home.value, PathOutcome::kLost));
  }
  EXPECT_EQ(pick_one(*selector), home);
}

TEST(SinglePath, MovesWhenItsPathIsDark) {
  const auto selector = kSinglePathPolicy.make(16, 3);
  const PathId home = pick_one(*selector);
  tell(*selector, feedback_of((home.value + 1U) % 16, PathOutcome::kLost, 64));
  EXPECT_EQ(pick_one(*selector), home);
  tell(*selector, feedback_of(home.value, PathOutcome::kLost, 64));
  EXPECT_NE(pick_one(*selector), home);
}

TEST(RoundRobinPath, SharesExactlyWhateverHappens) {
  const auto selector = kRoundRobinPathPolicy.make(16, 3);
  tell(*selector, feedback_of(4, PathOutcome::kLost, 99));
  const auto counts = share(*selector, 1600);
  for (const auto& [path, count] : counts)
    EXPECT_EQ(count, 100) << path;
}

TEST(BitmapPath, PassesOverAPathOfManyLossesFifteenTimes) {
  const auto selector = kBitmapPathPolicy.make(16, 3);
  for (int i = 0; i < 4; ++i)
    tell(*selector, feedback_of(4, PathOutcome::kLost));
  EXPECT_EQ(share(*selector, 15 * 15)[4], 0);
  EXPECT_GT(share(*selector, 16 * 16)[4], 10);
}

TEST(BitmapPath, PassesOverAMarkedPathOnce) {
  const auto selector = kBitmapPathPolicy.make(2, 3);
  tell(*selector, feedback_of(1, PathOutcome::kMarked));
  EXPECT_EQ(share(*selector, 2)[1], 0);
  EXPECT_GE(share(*selector, 8)[1], 3);
}

TEST(BitmapPath, KeepsPickingWhenEveryPathIsPenalised) {
  const auto selector = kBitmapPathPolicy.make(16, 3);
  for (std::uint32_t i = 0; i < 16; ++i)
    tell(*selector, feedback_of(i, PathOutcome::kLost));
  EXPECT_EQ(share(*selector, 16).size(), 16U);
}

TEST(PenaltyWalk, PenaltiesSaturateAndAreWorkedOffOnePerPick) {
  PenaltyWalk walk(1, 1);
  const PathId only{};
  walk.on_feedback(feedback_of(0, PathOutcome::kMarked));
  EXPECT_EQ(walk.penalty(only), 1);
  walk.on_feedback(feedback_of(0, PathOutcome::kTrimmed));
  EXPECT_EQ(walk.penalty(only), 5);
  for (int i = 0; i < 3; ++i)
    walk.on_feedback(feedback_of(0, PathOutcome::kLost));
  EXPECT_EQ(walk.penalty(only), PenaltyWalk::kPenaltyMax);
  EXPECT_EQ(walk.next(), only);
  EXPECT_EQ(walk.penalty(only), PenaltyWalk::kPenaltyMax - 1);
}

TEST(PenaltyWalk, FindsTheOneCleanPathOf256) {
  PenaltyWalk walk(256, 1);
  for (std::uint32_t i = 0; i < 4 * 256; ++i) {
    if (i % 256 != 77) walk.on_feedback(feedback_of(i % 256, PathOutcome::kLost));
  }
  // Each pick forgives one point of one path, so no other becomes clean this early.
  for (int i = 0; i < 15; ++i)
    EXPECT_EQ(walk.next().value, 77);
}

TEST(RecycledPaths, OldestFirstEachOnce) {
  RecycledPaths recycled;
  recycled.store(PathId{3});
  recycled.store(PathId{5});
  EXPECT_EQ(recycled.take(), PathId{3});
  EXPECT_EQ(recycled.take(), PathId{5});
  EXPECT_EQ(recycled.take(), std::nullopt);
}

TEST(RecycledPaths, KeepsTheNewestEight) {
  RecycledPaths recycled;
  for (std::uint16_t i = 0; i < 20; ++i)
    recycled.store(PathId{i});
  for (std::uint16_t i = 12; i < 20; ++i)
    EXPECT_EQ(recycled.take(), PathId{i});
  EXPECT_EQ(recycled.take(), std::nullopt);
}

TEST(RecycledPaths, OneBurstSpokenOfTwiceWaitsOnce) {
  RecycledPaths recycled;
  recycled.store(PathId{3});
  recycled.store(PathId{3});
  EXPECT_EQ(recycled.fresh(), 1U);
}

TEST(RepsPath, UsesADeliveredPathAgainButNotAMarkedOrLostOne) {
  const auto selector = kRepsPathPolicy.make(256, 3);
  tell(*selector, feedback_of(10, PathOutcome::kMarked));
  tell(*selector, feedback_of(11, PathOutcome::kLost));
  tell(*selector, feedback_of(12, PathOutcome::kTrimmed));
  tell(*selector, feedback_of(42, PathOutcome::kDelivered));
  EXPECT_EQ(pick_one(*selector).value, 42);
}

TEST(MixedPath, UsesADeliveredPathAgainUnlessItWasMarkedSince) {
  const auto selector = kMixedPathPolicy.make(256, 3);
  tell(*selector, feedback_of(42, PathOutcome::kDelivered));
  EXPECT_EQ(pick_one(*selector).value, 42);
  tell(*selector, feedback_of(42, PathOutcome::kDelivered));
  tell(*selector, feedback_of(42, PathOutcome::kMarked));
  EXPECT_NE(pick_one(*selector).value, 42);
}

TEST(LeastRttPath, PrefersFasterPathsButKeepsMeasuringTheSlowest) {
  const auto selector = kLeastRttPathPolicy.make(16, 3);
  for (std::uint32_t i = 0; i < 16; ++i) {
    tell(*selector, feedback_of(i, PathOutcome::kDelivered, 1, microseconds(10 + 10 * i)));
  }
  auto counts = share(*selector, 16'000);
  EXPECT_GT(counts[0], 4 * counts[14]);
  EXPECT_GT(counts[15], 30);
  EXPECT_LT(counts[15], 200);
}

TEST(LeastRttPath, APathThatLosesCountsAsSlow) {
  const auto selector = kLeastRttPathPolicy.make(2, 3);
  for (std::uint32_t i = 0; i < 2; ++i) {
    tell(*selector, feedback_of(i, PathOutcome::kDelivered, 1, microseconds(10)));
  }
  tell(*selector, feedback_of(0, PathOutcome::kLost));
  EXPECT_LT(share(*selector, 160)[0], 20);
}

}  // namespace
}  // namespace spindrift::test
