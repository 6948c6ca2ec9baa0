// TIMELY rule by rule, with numbers worked out by hand from the two papers.
//
// 10 Gb/s, 20 us, the network of the first paper: T_low 50 us, T_high 500 us, step 10 Mb/s.
#include "tests/cc/algorithms_under_test.h"

namespace spindrift::test {
namespace {

constexpr double kGbps = 1e9;
constexpr double kStep = 10e6;

FlowInfo flow_of_10g() {
  return {.base_rtt = microseconds(20),
          .link_rate = Rate::gbps(10),
          .mtu_bytes = 1'000,
          .max_window_bytes = 1'000'000};
}

class Timely : public ::testing::Test {
 protected:
  Timely() { use(1); }

  void use(double is_patched) {
    std::vector<double> values = default_values(kTimely);
    values[0] = is_patched;
    cc_ = kTimely.make(flow_of_10g(), values);
  }
  // A whole segment with this RTT.
  void segment(std::int64_t rtt_us) { ack(rtt_us, 16'384); }
  void ack(std::int64_t rtt_us, std::uint64_t bytes) {
    limits_ = cc_->on_ack({.now = now_, .rtt = microseconds(rtt_us), .acked_bytes = bytes});
  }
  void lose(std::int64_t at_us) {
    limits_ = cc_->on_loss({.now = Time(microseconds(at_us)), .lost_bytes = 1'000});
  }
  // Away from the line rate, with a gradient of zero at this RTT.
  void settle_at(std::int64_t rtt_us) {
    for (int i = 0; i < 4; ++i)
      lose(1'000 * (i + 1));
    for (int i = 0; i < 60; ++i)
      segment(rtt_us);
  }
  double rate() const { return state_of(*cc_, "rate_bps"); }
  double gradient() const { return state_of(*cc_, "gradient"); }

  std::unique_ptr<CongestionControl> cc_;
  SendLimits limits_;
  Time now_{};
};

TEST_F(Timely, StartsAtLineRate) {
  EXPECT_EQ(cc_->initial(), (SendLimits{.window_bytes = 1'000'000, .pacing_rate = Rate::gbps(10)}));
  EXPECT_EQ(state_of(*cc_, "low_us"), 50);
  EXPECT_EQ(state_of(*cc_, "high_us"), 500);
  EXPECT_EQ(state_of(*cc_, "step_bps"), kStep);
}

TEST_F(Timely, BelowTLowItAddsAStepPerSegment) {
  lose(1);
  ASSERT_DOUBLE_EQ(rate(), 5 * kGbps);
  segment(30);
  segment(49);
  EXPECT_DOUBLE_EQ(rate(), 5 * kGbps + 2 * kStep);
}

TEST_F(Timely, DecidesOncePerSegment) {
  lose(1);
  ack(30, 16'000);
  EXPECT_DOUBLE_EQ(rate(), 5 * kGbps);
  ack(30, 384);
  EXPECT_DOUBLE_EQ(rate(), 5 * kGbps + kStep);
}

TEST_F(Timely, AboveTHighItFallsByTheExcess) {
  segment(1'000);
  EXPECT_DOUBLE_EQ(rate(), 10 * kGbps * (1 - 0.8 * 0.5));
}

TEST_F(Timely, TheGradientIsSmoothedAndCountedInBaseRtts) {
  segment(100);
  EXPECT_EQ(gradient(), 0);  // one RTT alone has no difference
  segment(108);
  EXPECT_DOUBLE_EQ(gradient(), 0.875 * 8 / 20);
  segment(108);
  EXPECT_DOUBLE_EQ(gradient(), 0.125 * 0.875 * 8 / 20);
}

TEST_F(Timely, UnpatchedARisingRttCutsByItsGradient) {
  use(0);
  segment(100);
  segment(108);
  EXPECT_DOUBLE_EQ(rate(), 10 * kGbps * (1 - 0.8 * 0.35));
}

TEST_F(Timely, UnpatchedAFallingRttAddsAStepAndAfterFiveFive) {
  use(0);
  lose(1);
  segment(400);
  const double before = rate();
  for (int i = 1; i <= 3; ++i)
    segment(400 - 10 * i);
  EXPECT_DOUBLE_EQ(rate(), before + 3 * kStep);
  segment(360);  // the fifth without a rise, the first one counted
  EXPECT_DOUBLE_EQ(rate(), before + 8 * kStep);
  segment(370);  // a rise ends it
  segment(350);
  EXPECT_DOUBLE_EQ(state_of(*cc_, "falls_in_row"), 1);
}

TEST_F(Timely, PatchedASteadyRttWeighsStepAgainstDistanceFromTLow) {
  settle_at(100);
  ASSERT_NEAR(gradient(), 0, 1e-12);
  const double before = rate();
  segment(100);  // weight 0.5, error 1
  EXPECT_NEAR(rate(), kStep / 2 + before * (1 - 0.008 * 0.5), 1);
}

TEST_F(Timely, PatchedASteepRiseCountsInFullAndASteepFallNotAtAll) {
  settle_at(100);
  double before = rate();
  segment(110);  // gradient 0.4375: weight 1, error 1.2
  EXPECT_NEAR(rate(), before * (1 - 0.008 * 1.2), 1);
  settle_at(100);
  before = rate();
  segment(90);
  EXPECT_NEAR(rate(), before + kStep, 1);
}

TEST_F(Timely, LossesHalveOncePerBaseRtt) {
  lose(100);
  lose(119);
  EXPECT_DOUBLE_EQ(rate(), 5 * kGbps);
  lose(120);
  EXPECT_DOUBLE_EQ(rate(), 2.5 * kGbps);
}

TEST_F(Timely, NeverGoesBelowItsSmallestRate) {
  for (int i = 0; i < 100; ++i)
    lose(1'000 * (i + 1));
  EXPECT_EQ(limits_.pacing_rate, Rate::bits_per_second(40'000'000));
}

TEST_F(Timely, FollowsTheLink) {
  limits_ =
      cc_->on_signal(now_, PathChanged{.base_rtt = microseconds(40), .link_rate = Rate::gbps(100)});
  EXPECT_EQ(limits_.pacing_rate, Rate::gbps(100));
  EXPECT_EQ(state_of(*cc_, "low_us"), 100);
  EXPECT_EQ(state_of(*cc_, "step_bps"), 100e6);
}

}  // namespace
}  // namespace spindrift::test
