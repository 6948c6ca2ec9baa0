// Swift rule by rule, with numbers worked out by hand from its paper, algorithm 1.
//
// 100 Gb/s, 12 us, 4160-byte packets: base target 18 us, range 90 us, first window 36.0577 packets.
#include "tests/cc/algorithms_under_test.h"

namespace spindrift::test {
namespace {

constexpr double kMtu = 4'160;

class Swift : public ::testing::Test {
 protected:
  Swift() : cc_(make_default(kSwift, reference_flow())) {}

  void ack(std::int64_t at_us, double rtt_us, double packets) {
    limits_ = cc_->on_ack({.now = Time(microseconds(at_us)),
                           .rtt = Duration(static_cast<std::int64_t>(rtt_us * 1e3)),
                           .acked_bytes = static_cast<std::uint64_t>(packets * kMtu)});
  }
  void lose(std::int64_t at_us, LossCause cause) {
    limits_ = cc_->on_loss(
        {.now = Time(microseconds(at_us)), .lost_bytes = 4'160, .lost_packets = 1, .cause = cause});
  }
  double window() const { return state_of(*cc_, "window_packets"); }
  // Losses more than an RTT apart until the window is about this size.
  void shrink_below(double packets) {
    for (; window() > packets; now_us_ += 1000)
      lose(now_us_, LossCause::kReordered);
  }

  std::unique_ptr<CongestionControl> cc_;
  SendLimits limits_;
  std::int64_t now_us_ = 1000;
};

TEST_F(Swift, StartsWithOneBdpUnpaced) {
  EXPECT_EQ(cc_->initial(), (SendLimits{.window_bytes = 150'000}));
  EXPECT_EQ(state_of(*cc_, "base_target_us"), 18);
}

TEST_F(Swift, GrowsByOnePacketPerWindowBelowTarget) {
  const double before = window();
  ack(1, 12, 10);
  EXPECT_DOUBLE_EQ(window(), before + 10 / before);
}

TEST_F(Swift, TheTargetGrowsAsTheWindowShrinks) {
  // alpha = 90 / (1 / sqrt 0.1 - 1 / sqrt 100) = 29.38989, beta = -2.938989
  EXPECT_NEAR(state_of(*cc_, "target_delay_us"),
              18 + 29.38989 / std::sqrt(150'000 / kMtu) - 2.938989, 1e-4);
  shrink_below(1.2);
  EXPECT_NEAR(state_of(*cc_, "target_delay_us"), 18 + 29.38989 / std::sqrt(window()) - 2.938989,
              1e-4);
  shrink_below(0.1);
  EXPECT_DOUBLE_EQ(state_of(*cc_, "target_delay_us"), 108);
}

TEST_F(Swift, CutsByTheExcessOverTheTarget) {
  const double before = window();
  const double target = state_of(*cc_, "target_delay_us");
  ack(100, 30, 1);
  EXPECT_DOUBLE_EQ(window(), before * (1 - 0.8 * (30 - target) / 30));
}

TEST_F(Swift, OneCutTakesAtMostHalf) {
  const double before = window();
  ack(1'000, 500, 1);
  EXPECT_DOUBLE_EQ(window(), before / 2);
}

TEST_F(Swift, CutsAtMostOncePerRtt) {
  ack(1'000, 100, 1);
  const double once = window();
  ack(1'099, 100, 1);
  lose(1'099, LossCause::kReordered);
  EXPECT_DOUBLE_EQ(window(), once);
  ack(1'100, 100, 1);
  EXPECT_LT(window(), once);
}

TEST_F(Swift, ALossTakesHalfOncePerRtt) {
  const double before = window();
  lose(100, LossCause::kTrimmed);
  lose(101, LossCause::kReordered);
  EXPECT_DOUBLE_EQ(window(), before / 2);
}

TEST_F(Swift, FiveTimeoutsInARowGoToTheMinimum) {
  for (int i = 1; i <= 4; ++i)
    lose(i, LossCause::kTimeout);
  EXPECT_GT(window(), 10);
  lose(5, LossCause::kTimeout);
  EXPECT_DOUBLE_EQ(window(), 0.01);
}

TEST_F(Swift, AnAcknowledgementEndsTheRowOfTimeouts) {
  for (int i = 1; i <= 4; ++i)
    lose(i, LossCause::kTimeout);
  ack(5, 12, 1);
  lose(6, LossCause::kTimeout);
  EXPECT_GT(window(), 1);
}

TEST_F(Swift, BelowOnePacketItPaces) {
  shrink_below(0.6);
  ASSERT_LT(window(), 1);
  EXPECT_EQ(limits_.window_bytes, 4'160U);
  // A packet per rtt / window.
  EXPECT_NEAR(static_cast<double>(limits_.pacing_rate.bits_per_second()),
              window() * kMtu * 8 / 12e-6, 1);
}

TEST_F(Swift, BelowOnePacketEachPacketAddsAWholeOne) {
  shrink_below(0.3);
  const double before = window();
  ack(now_us_, 12, 1);
  EXPECT_DOUBLE_EQ(window(), before + 1);
  EXPECT_TRUE(limits_.pacing_rate.is_unlimited());
}

TEST_F(Swift, WithoutAnRttNothingMoves) {
  const double before = window();
  ack(100, 0, 10);
  EXPECT_DOUBLE_EQ(window(), before);
}

TEST_F(Swift, ALongerPathBringsALongerTarget) {
  (void)cc_->on_signal(Time(microseconds(5)),
                       PathChanged{.base_rtt = microseconds(40), .link_rate = Rate::gbps(100)});
  EXPECT_EQ(state_of(*cc_, "base_target_us"), 60);
}

TEST_F(Swift, WhatTheHostsAddCountsAsBaseRtt) {
  FlowInfo flow = reference_flow();
  flow.host_latency = microseconds(50);
  EXPECT_EQ(state_of(*make_default(kSwift, flow), "base_target_us"), 75);
}

}  // namespace
}  // namespace spindrift::test
