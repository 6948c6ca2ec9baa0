#include "transport/base/ring.h"

#include <deque>

#include <gtest/gtest.h>

#include "transport/base/rng.h"

namespace spindrift {
namespace {

TEST(Ring, IsFullAtItsCapacityEvenWhenThatIsNoPowerOfTwo) {
  Ring<int> ring(5);
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(ring.is_full());
    ring.push_back(i);
  }
  EXPECT_TRUE(ring.is_full());
  EXPECT_EQ(ring.size(), 5U);
  EXPECT_EQ(ring.capacity(), 5U);
  ring.pop_front();
  EXPECT_FALSE(ring.is_full());
}

TEST(Ring, OfCapacityZeroIsEmptyAndFull) {
  const Ring<int> ring(0);
  EXPECT_TRUE(ring.is_empty());
  EXPECT_TRUE(ring.is_full());
}

TEST(Ring, BehavesAsADequeUnderRandomPushesAndPops) {
  Ring<std::uint64_t> ring(7);
  std::deque<std::uint64_t> model;
  Rng rng(4);
  for (int step = 0; step < 10000; ++step) {
    if (!ring.is_full() && (ring.is_empty() || rng.chance(0.5))) {
      const std::uint64_t value = rng.next();
      ring.push_back(value);
      model.push_back(value);
    } else {
      ring.pop_front();
      model.pop_front();
    }
    ASSERT_EQ(ring.size(), model.size());
    for (std::size_t i = 0; i < model.size(); ++i)
      ASSERT_EQ(ring[i], model[i]);
    if (!model.empty()) {
      ASSERT_EQ(ring.front(), model.front());
    }
  }
}

TEST(Ring, FindsElementsByTheirSerialNumber) {
  Ring<int> ring(4);
  for (int i = 0; i < 10; ++i) {
    if (ring.is_full()) ring.pop_front();
    ring.push_back(i);
  }
  EXPECT_EQ(ring.front_serial(), 6U);
  EXPECT_EQ(ring.end_serial(), 10U);
  EXPECT_FALSE(ring.contains_serial(5));
  EXPECT_TRUE(ring.contains_serial(6));
  EXPECT_TRUE(ring.contains_serial(9));
  EXPECT_FALSE(ring.contains_serial(10));
  EXPECT_EQ(ring.at_serial(8), 8);
}

TEST(Ring, KeepsCountingSerialsAfterClear) {
  Ring<int> ring(4);
  ring.push_back(1);
  ring.push_back(2);
  ring.clear();
  EXPECT_TRUE(ring.is_empty());
  EXPECT_FALSE(ring.contains_serial(1));
  ring.push_back(3);
  EXPECT_EQ(ring.front_serial(), 2U);
  EXPECT_EQ(ring.front(), 3);
}

}  // namespace
}  // namespace spindrift
