// The clock of providers: follows the kernel's, never goes backwards, and gives the counter up
// where it runs otherwise.
#include "providers/tick_clock.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "providers/monotonic_clock.h"

namespace spindrift::testing {
namespace {

// Time as a test has it: each look at the counter takes some.
struct MadeUpTime {
  static inline double ticks_per_ns = 2.1;
  static inline double true_ns = 0;
  static inline double ns_per_look = 10;
  static inline std::int64_t kernel_ahead = 0;
  static inline std::int64_t tick_offset = 0;
  static inline bool is_steady = true;
  static inline int kernel_looks = 0;

  static std::uint64_t ticks() {
    true_ns += ns_per_look;
    return static_cast<std::uint64_t>(true_ns * ticks_per_ns) +
           static_cast<std::uint64_t>(tick_offset);
  }
  static std::int64_t nanoseconds() {
    ++kernel_looks;
    return static_cast<std::int64_t>(true_ns) + kernel_ahead;
  }
  static bool has_steady_ticks() { return is_steady; }
};

class TickClockTest : public ::testing::Test {
 protected:
  void SetUp() override {
    MadeUpTime::ticks_per_ns = 2.1;
    MadeUpTime::true_ns = 1e9;
    MadeUpTime::ns_per_look = 10;
    MadeUpTime::kernel_ahead = 0;
    MadeUpTime::tick_offset = 0;
    MadeUpTime::is_steady = true;
    MadeUpTime::kernel_looks = 0;
  }
  static void pass(double ns) { MadeUpTime::true_ns += ns; }
  // How far it is from the kernel's; never before what it said last.
  std::int64_t error() {
    const std::int64_t now = clock_.now();
    EXPECT_GE(now, newest_);
    newest_ = now;
    return now - static_cast<std::int64_t>(MadeUpTime::true_ns) - MadeUpTime::kernel_ahead;
  }
  void settle() {
    for (int i = 0; i < 40; ++i) {
      pass(100'000);
      error();
    }
  }

  TickClock<MadeUpTime> clock_;
  std::int64_t newest_ = 0;
};

TEST_F(TickClockTest, FollowsTheKernelsClockAndSeldomLooksAtIt) {
  settle();
  ASSERT_TRUE(clock_.uses_ticks());
  const int looks = MadeUpTime::kernel_looks;
  for (int i = 0; i < 100'000; ++i) {
    pass(100);
    EXPECT_LE(std::abs(error()), 100) << i;
  }
  EXPECT_LE(MadeUpTime::kernel_looks - looks, 15);  // in 11 ms
}

TEST_F(TickClockTest, FollowsARateThatChangesALittle) {
  settle();
  for (int i = 0; i < 2000; ++i) {
    pass(50'000);
    // As NTP slews the kernel's clock: one part in 2000.
    MadeUpTime::kernel_ahead += i < 1000 ? 25 : -25;
    EXPECT_LE(std::abs(error()), 2000) << i;
  }
  EXPECT_TRUE(clock_.uses_ticks());
}

TEST_F(TickClockTest, IsRightAfterALongSleep) {
  settle();
  for (const double seconds : {0.01, 1.0, 3600.0, 86400.0}) {
    pass(seconds * 1e9);
    EXPECT_LE(std::abs(error()), 200) << seconds;
    EXPECT_TRUE(clock_.uses_ticks());
  }
}

TEST_F(TickClockTest, DoesNotMeasureWhileItsProcessorIsTakenAway) {
  settle();
  for (int i = 0; i < 300; ++i) {
    MadeUpTime::ns_per_look = i % 3 == 0 ? 50'000 : 10;
    pass(400'000);
    EXPECT_LE(std::abs(error()), 110'000) << i;
  }
  MadeUpTime::ns_per_look = 10;
  pass(2'000'000);
  error();
  EXPECT_LE(std::abs(error()), 200);
  EXPECT_TRUE(clock_.uses_ticks());
}

TEST_F(TickClockTest, ReadsTheKernelsClockWhereTicksAreNotSteady) {
  MadeUpTime::is_steady = false;
  settle();
  EXPECT_FALSE(clock_.uses_ticks());
  EXPECT_EQ(error(), 0);
}

TEST_F(TickClockTest, GivesTheCounterUpWhenItJumps) {
  settle();
  MadeUpTime::tick_offset = 10'000'000'000;
  error();
  EXPECT_FALSE(clock_.uses_ticks());
  EXPECT_LE(error(), 0);
}

TEST_F(TickClockTest, GivesTheCounterUpWhenItStartsAnew) {
  settle();
  MadeUpTime::tick_offset = -2'000'000'000;
  error();
  EXPECT_FALSE(clock_.uses_ticks());
  EXPECT_EQ(error(), 0);
}

TEST_F(TickClockTest, GivesTheCounterUpWhenTheKernelsClockStoodStill) {
  settle();
  MadeUpTime::kernel_ahead = -500'000'000;
  pass(600'000'000);
  newest_ = 0;
  clock_.now();
  EXPECT_FALSE(clock_.uses_ticks());
  EXPECT_EQ(error(), 0);
}

TEST(MonotonicClock, NeverGoesBackwardsAndIsTheKernels) {
  std::int64_t last = 0;
  const std::int64_t start = ProcessorTicks::nanoseconds();
  while (last < start + 30'000'000) {
    const std::int64_t before = ProcessorTicks::nanoseconds();
    const std::int64_t now = monotonic_now().time_since_epoch().count();
    const std::int64_t after = ProcessorTicks::nanoseconds();
    ASSERT_GE(now, last);
    ASSERT_GE(now, before - 50'000);
    ASSERT_LE(now, after + 50'000);
    last = now;
  }
}

// What one thread has read is never before what another has read; but a little where they change
// over from the kernel's clock, by as much as the first rate is wrong.
TEST(MonotonicClock, GoesOnForAllThreads) {
  std::atomic<std::int64_t> newest{0};
  std::atomic<std::int64_t> worst{0};
  std::vector<std::thread> threads;
  threads.reserve(3);
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      for (int turn = 0; turn < 200'000; ++turn) {
        const std::int64_t seen = newest.load();
        const std::int64_t now = monotonic_now().time_since_epoch().count();
        if (seen - now > worst.load()) worst.store(seen - now);
        std::int64_t expected = seen;
        while (expected < now && !newest.compare_exchange_weak(expected, now)) {
        }
      }
    });
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_LE(worst.load(), 1000);
}

}  // namespace
}  // namespace spindrift::testing
