#include "transport/base/rng.h"

#include <array>

#include <gtest/gtest.h>

namespace spindrift {
namespace {

TEST(Rng, FollowsXoshiro256StarStarSeededBySplitmix64) {
  // Values of a separate implementation of the published algorithms, seed 42.
  Rng rng(42);
  EXPECT_EQ(rng.next(), 0x15780b2e0c2ec716U);
  EXPECT_EQ(rng.next(), 0x6104d9866d113a7eU);
  EXPECT_EQ(rng.next(), 0xae17533239e499a1U);
}

TEST(Rng, RepeatsWithTheSeedAndDiffersWithout) {
  Rng a(7);
  Rng b(7);
  Rng c(8);
  int equal_to_other_seed = 0;
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t value = a.next();
    ASSERT_EQ(value, b.next());
    if (value == c.next()) ++equal_to_other_seed;
  }
  EXPECT_EQ(equal_to_other_seed, 0);
}

TEST(Rng, StaysBelowTheBoundAndReachesEveryValue) {
  Rng rng(9);
  std::array<int, 10> counts{};
  for (int i = 0; i < 10000; ++i) {
    const std::uint64_t value = rng.below(counts.size());
    ASSERT_LT(value, counts.size());
    ++counts[value];
  }
  for (const int count : counts) {
    EXPECT_GT(count, 850);
    EXPECT_LT(count, 1150);
  }
  EXPECT_EQ(rng.below(1), 0U);
}

TEST(Rng, TakesChancesAtTheirProbability) {
  Rng rng(10);
  int hits = 0;
  for (int i = 0; i < 100000; ++i) {
    if (rng.chance(0.01)) ++hits;
    ASSERT_FALSE(rng.chance(0));
    ASSERT_TRUE(rng.chance(1));
  }
  EXPECT_NEAR(hits, 1000, 150);
}

}  // namespace
}  // namespace spindrift
