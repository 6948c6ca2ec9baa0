#include "providers/dpdk/rx_clock.h"

#include <cstddef>

#include <gtest/gtest.h>

namespace spindrift {
namespace {

using namespace std::chrono_literals;

constexpr Time kStart{1h};

// A packet as a driver hands it over; DPDK chooses the place and the flag when it runs.
TEST(RxTimestampField, IsReadWhereTheDriverPutIt) {
  const RxTimestampField field{.offset = offsetof(rte_mbuf, dynfield1) + 8, .flag = 1ULL << 27U};
  rte_mbuf frame{};
  *RTE_MBUF_DYNFIELD(&frame, field.offset, rte_mbuf_timestamp_t*) = 123456789;
  EXPECT_FALSE(field.ticks_of(frame));
  frame.ol_flags = field.flag | RTE_MBUF_F_RX_IP_CKSUM_GOOD;
  EXPECT_EQ(field.ticks_of(frame), 123456789U);
  EXPECT_FALSE(RxTimestampField{}.exists());
  EXPECT_FALSE(RxTimestampField{}.ticks_of(frame));
}

// 156.25 MHz: 6.4 ns per tick.
class Card {
 public:
  std::uint64_t ticks(Time at) const {
    return 1'000'000 + static_cast<std::uint64_t>((at - kStart).count()) * 10 / 64;
  }
};

TEST(RxClock, FindsTheRateAndFollowsIt) {
  const Card card;
  RxClock clock;
  Time now = kStart;
  clock.tell(card.ticks(now), now);
  EXPECT_FALSE(clock.is_known());
  for (int i = 0; i < 2000; ++i) {
    now += 5ms;
    clock.tell(card.ticks(now), now);
  }
  ASSERT_TRUE(clock.is_known());
  const Time seen = now + 40us;
  for (const Duration age : {Duration(1us), Duration(39us), Duration(3ms)})
    EXPECT_NEAR(static_cast<double>((seen - clock.arrival(card.ticks(seen - age), seen)).count()),
                static_cast<double>(age.count()), 100);
}

TEST(RxClock, NothingArrivesAfterItWasSeenOrLongBefore) {
  const Card card;
  RxClock clock;
  for (int i = 0; i < 10; ++i)
    clock.tell(card.ticks(kStart + i * 5ms), kStart + i * 5ms);
  ASSERT_TRUE(clock.is_known());
  const Time now = kStart + 50ms;
  EXPECT_EQ(clock.arrival(card.ticks(now + 1ms), now), now);
  EXPECT_EQ(clock.arrival(0, kStart + 1h), kStart + 1h);
}

TEST(RxClock, StartsAnewWithTheCard) {
  const Card card;
  RxClock clock;
  for (int i = 0; i < 10; ++i)
    clock.tell(card.ticks(kStart + i * 5ms), kStart + i * 5ms);
  ASSERT_TRUE(clock.is_known());
  clock.tell(5, kStart + 60ms);
  EXPECT_FALSE(clock.is_known());
}

}  // namespace
}  // namespace spindrift
