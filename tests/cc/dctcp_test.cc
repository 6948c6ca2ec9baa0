// DCTCP rule by rule, with numbers worked out by hand from RFC 8257.
//
// 100 Gb/s, 12 us, 4160-byte packets: the first window is one BDP, 150000 bytes.
#include "tests/cc/algorithms_under_test.h"

namespace spindrift::test {
namespace {

class Dctcp : public ::testing::Test {
 protected:
  Dctcp() : cc_(make_default(kDctcp, reference_flow())) {}

  struct Ack {
    std::uint64_t bytes = 0;
    std::uint64_t in_flight = 0;
    bool is_marked = false;
  };
  std::uint64_t ack(const Ack& a) {
    return cc_
        ->on_ack({.acked_bytes = a.bytes,
                  .received_bytes = a.bytes,
                  .in_flight_bytes = a.in_flight,
                  .is_marked = a.is_marked})
        .window_bytes;
  }
  std::uint64_t lose(std::uint64_t bytes, std::uint64_t in_flight,
                     LossCause cause = LossCause::kReordered) {
    return cc_
        ->on_loss(
            {.lost_bytes = bytes, .in_flight_bytes = in_flight, .lost_packets = 1, .cause = cause})
        .window_bytes;
  }
  double alpha() const { return state_of(*cc_, "alpha"); }

  std::unique_ptr<CongestionControl> cc_;
};

TEST_F(Dctcp, StartsWithOneBdpAndDoublesUntilTheFirstMark) {
  EXPECT_EQ(cc_->initial(), (SendLimits{.window_bytes = 150'000}));
  EXPECT_EQ(ack({.bytes = 150'000, .in_flight = 150'000}), 300'000U);
}

TEST_F(Dctcp, TakesTheChosenFirstWindow) {
  std::vector<double> values = default_values(kDctcp);
  values[2] = 10;
  EXPECT_EQ(kDctcp.make(reference_flow(), values)->initial().window_bytes, 41'600U);
}

TEST_F(Dctcp, TheFirstMarkHalvesBecauseAlphaStartsAtOne) {
  EXPECT_EQ(ack({.bytes = 4'160, .in_flight = 145'840, .is_marked = true}), 75'000U);
}

TEST_F(Dctcp, CutsOncePerWindowOfData) {
  ASSERT_EQ(ack({.bytes = 4'160, .in_flight = 100'000, .is_marked = true}), 75'000U);
  EXPECT_EQ(ack({.bytes = 99'999, .in_flight = 50'000, .is_marked = true}), 75'000U);
  // 100000 bytes are accounted for: all of them marked, so alpha is still 1.
  EXPECT_EQ(ack({.bytes = 1, .in_flight = 50'000, .is_marked = true}), 37'500U);
}

TEST_F(Dctcp, DoesNotGrowWhileTheCutWindowIsUnderWay) {
  ASSERT_EQ(ack({.bytes = 4'160, .in_flight = 100'000, .is_marked = true}), 75'000U);
  EXPECT_EQ(ack({.bytes = 50'000, .in_flight = 50'000}), 75'000U);
  EXPECT_EQ(ack({.bytes = 50'000, .in_flight = 0}), 75'000U + 2'773);  // 4160 x 50000 / 75000
}

TEST_F(Dctcp, AlphaFollowsTheMarkedShareOncePerWindow) {
  (void)ack({.in_flight = 100'000});
  (void)ack({.bytes = 25'000, .in_flight = 75'000, .is_marked = true});
  EXPECT_DOUBLE_EQ(alpha(), 1);
  (void)ack({.bytes = 75'000, .in_flight = 60'000});
  EXPECT_DOUBLE_EQ(alpha(), 15.0 / 16 + 0.25 / 16);
  (void)ack({.bytes = 60'000, .in_flight = 60'000});
  EXPECT_DOUBLE_EQ(alpha(), (15.0 / 16 + 0.25 / 16) * 15 / 16);
}

TEST_F(Dctcp, ACutFollowsAlpha) {
  std::vector<double> values = default_values(kDctcp);
  values[1] = 0.25;
  values[0] = 0.5;
  cc_ = kDctcp.make(reference_flow(), values);
  // The round that ends with this packet was marked throughout: 0.5 x 0.25 + 0.5 = 0.625.
  EXPECT_EQ(ack({.bytes = 4'160, .in_flight = 145'840, .is_marked = true}), 103'125U);
}

TEST_F(Dctcp, GrowsByOnePacketPerWindowAfterACut) {
  ASSERT_EQ(ack({.bytes = 4'160, .is_marked = true}), 75'000U);
  EXPECT_EQ(ack({.bytes = 75'000, .in_flight = 75'000}), 79'160U);
}

TEST_F(Dctcp, ALossHalvesOncePerWindow) {
  EXPECT_EQ(lose(4'160, 100'000), 75'000U);
  EXPECT_EQ(lose(4'160, 95'840, LossCause::kTrimmed), 75'000U);
  EXPECT_EQ(lose(95'840, 0, LossCause::kTrimmedLastHop), 37'500U);
}

TEST_F(Dctcp, ATimeoutLeavesOnePacketThenSlowStartToHalf) {
  EXPECT_EQ(lose(4'160, 0, LossCause::kTimeout), 4'160U);
  EXPECT_EQ(ack({.bytes = 4'160}), 8'320U);
  EXPECT_EQ(state_of(*cc_, "slow_start_threshold_bytes"), 75'000);
}

TEST_F(Dctcp, NeverExceedsTheReceiversBuffers) {
  for (int i = 0; i < 20; ++i)
    EXPECT_LE(ack({.bytes = 4'000'000, .in_flight = 4'000'000}), 8'000'000U);
}

}  // namespace
}  // namespace spindrift::test
