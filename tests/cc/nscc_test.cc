// NSCC rule by rule, with numbers worked out by hand from uet.md B.2.
//
// Unless stated: 100 Gb/s, 12 us, 4160-byte packets. So BDP 150000, largest window 225000, target
// delay 12 us, fi 20800, eta 624, alpha 1386.67 bytes per us, adjust_bytes 33280.
#include "cc/nscc_tuning.h"
#include "tests/cc/algorithms_under_test.h"

namespace spindrift::test {
namespace {

constexpr std::uint64_t kTenPackets = 41'600;

double to_double(std::uint64_t value) {
  return static_cast<double>(value);
}

class Nscc : public ::testing::Test {
 protected:
  Nscc() : cc_(make_default(kNscc, reference_flow())) {}

  void use(std::string_view name, double value) {
    std::vector<double> values = default_values(kNscc);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (kNscc.parameters[i].name == name) values[i] = value;
    }
    cc_ = kNscc.make(reference_flow(), values);
  }

  struct Ack {
    std::int64_t at_us = 0;
    std::int64_t rtt_us = 0;
    std::uint64_t bytes = 0;
    std::uint64_t in_flight = 0;
    bool is_marked = false;
    std::uint8_t penalty = 0;
    bool restores = false;
  };
  double ack(const Ack& a) {
    return to_double(cc_->on_ack({.now = Time(microseconds(a.at_us)),
                                  .rtt = microseconds(a.rtt_us),
                                  .acked_bytes = a.bytes,
                                  .received_bytes = a.bytes,
                                  .in_flight_bytes = a.in_flight,
                                  .receiver_penalty = a.penalty,
                                  .restores_window = a.restores,
                                  .is_marked = a.is_marked})
                         .window_bytes);
  }
  double lose(std::int64_t at_us, std::uint64_t bytes, LossCause cause,
              std::uint64_t in_flight = 0) {
    return to_double(cc_->on_loss({.now = Time(microseconds(at_us)),
                                   .lost_bytes = bytes,
                                   .in_flight_bytes = in_flight,
                                   .lost_packets = 1,
                                   .cause = cause})
                         .window_bytes);
  }
  // Brings the window to 100000 without touching anything else that these tests look at.
  void start_at_100000() { ASSERT_EQ(lose(0, 125'000, LossCause::kReordered), 100'000); }
  double state(std::string_view name) const { return state_of(*cc_, name); }

  std::unique_ptr<CongestionControl> cc_;
};

TEST_F(Nscc, StartsWithTheLargestWindowUnpacedAndWithoutTimer) {
  EXPECT_EQ(cc_->initial(), (SendLimits{.window_bytes = 225'000}));
}

// ---- derived values ----

struct Derived {
  double gbps, rtt_us, mtu, max_window, alpha, fi, fi_scale, eta, gate, target_trim_us, target_us,
      qa_trim_us, qa_us;
};

TEST(NsccDerivedValues, MatchTheTable) {
  const Derived rows[] = {
      {100, 12, 4160, 225'000, 1386.7, 20'800, 0.25, 624, 28'125, 9, 12, 21, 24},
      {400, 12, 4160, 900'000, 5546.7, 83'200, 1.0, 2496, 112'500, 9, 12, 21, 24},
      {400, 6, 4160, 450'000, 2773.3, 41'600, 0.5, 1248, 56'250, 4.5, 6, 10.5, 12},
      {800, 6, 4160, 900'000, 5546.7, 83'200, 1.0, 2496, 112'500, 4.5, 6, 10.5, 12},
      {25, 20, 1500, 93'750, 208.3, 3'125, 0.104, 93.8, 11'719, 15, 20, 35, 40},
      {10, 50, 1500, 93'750, 208.3, 3'125, 0.104, 93.8, 11'719, 37.5, 50, 87.5, 100},
  };
  for (const Derived& row : rows) {
    const FlowInfo flow{.base_rtt = Duration(static_cast<std::int64_t>(row.rtt_us * 1000)),
                        .link_rate = Rate::gbps(row.gbps),
                        .mtu_bytes = static_cast<std::uint32_t>(row.mtu)};
    for (const bool has_trimming : {false, true}) {
      std::vector<double> values = default_values(kNscc);
      values[2] = has_trimming ? 1 : 0;
      ASSERT_EQ(kNscc.parameters[2].name, "has_trimming");
      const auto cc = kNscc.make(flow, values);
      SCOPED_TRACE(row.gbps);
      EXPECT_EQ(to_double(cc->initial().window_bytes), row.max_window);
      EXPECT_NEAR(state_of(*cc, "alpha_bytes_per_us"), row.alpha, 0.05);
      EXPECT_NEAR(state_of(*cc, "fair_increase_bytes"), row.fi, 0.5);
      EXPECT_NEAR(state_of(*cc, "fast_increase_scale"), row.fi_scale, 0.0005);
      EXPECT_NEAR(state_of(*cc, "eta_bytes"), row.eta, 0.06);
      EXPECT_NEAR(state_of(*cc, "quick_adapt_gate_bytes"), row.gate, 0.5);
      EXPECT_DOUBLE_EQ(state_of(*cc, "target_delay_us"),
                       has_trimming ? row.target_trim_us : row.target_us);
      EXPECT_DOUBLE_EQ(state_of(*cc, "quick_adapt_window_us"),
                       has_trimming ? row.qa_trim_us : row.qa_us);
      if (has_trimming) {
        EXPECT_GT(state_of(*cc, "quick_adapt_delay_us"), 1e9);
      } else {
        EXPECT_DOUBLE_EQ(state_of(*cc, "quick_adapt_delay_us"), 4 * row.target_us);
      }
    }
  }
}

TEST(NsccDerivedValues, EveryParameterReachesItsField) {
  ASSERT_EQ(kNscc.parameters.size(), kNsccParameterCount);
  std::vector<double> values(kNsccParameterCount);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>(i + 1);
  const NsccChosen chosen = chosen_from(values);
  EXPECT_EQ(chosen.base_rtt_us, 1);
  EXPECT_EQ(chosen.gamma, 11);
  EXPECT_EQ(chosen.delay_gain, 18);
  EXPECT_EQ(kNscc.parameters[10].name, "gamma");
  EXPECT_EQ(kNscc.parameters[17].name, "delay_gain");
}

TEST(NsccDerivedValues, UnknownNetworkIsTheReferenceNetwork) {
  const auto cc = make_default(kNscc, {.mtu_bytes = 4160});
  EXPECT_EQ(cc->initial().window_bytes, 225'000U);
}

TEST(NsccDerivedValues, TheReceiversBuffersCapTheWindow) {
  FlowInfo flow = reference_flow();
  flow.max_window_bytes = 50'000;
  EXPECT_EQ(make_default(kNscc, flow)->initial().window_bytes, 50'000U);
}

// ---- step 3: receiver penalty ----

TEST_F(Nscc, APenaltyOf64HalvesWhatIsReceived) {
  start_at_100000();
  // min(100000, 80000) - 64 x 41600 / 128
  EXPECT_EQ(ack({.at_us = 1, .bytes = kTenPackets, .in_flight = 80'000, .penalty = 64}), 59'200);
  EXPECT_EQ(state("saved_window_bytes"), 100'000);
}

TEST_F(Nscc, APenaltyNeverGoesBelowOnePacket) {
  EXPECT_EQ(ack({.at_us = 1, .bytes = 1'000'000, .in_flight = 8'320, .penalty = 127}), 4'160);
}

TEST_F(Nscc, RestoreBringsTheFirstSavedWindowBackOnce) {
  start_at_100000();
  (void)ack({.at_us = 1, .bytes = kTenPackets, .in_flight = 80'000, .penalty = 64});
  (void)ack({.at_us = 2, .bytes = kTenPackets, .in_flight = 40'000, .penalty = 64});
  EXPECT_EQ(ack({.at_us = 3, .restores = true}), 100'000);
  EXPECT_EQ(lose(3, 50'000, LossCause::kReordered), 50'000);
  EXPECT_EQ(ack({.at_us = 4, .restores = true}), 50'000);
}

TEST_F(Nscc, AReceiverLimitedAckIncreasesNothing) {
  start_at_100000();
  // 100000 - (1 x 41600) / 128, and no proportional increase although there is no delay.
  EXPECT_EQ(
      ack({.at_us = 1, .rtt_us = 12, .bytes = kTenPackets, .in_flight = 100'000, .penalty = 1}),
      99'675);
}

// ---- step 4: RTT ----

TEST_F(Nscc, WithoutAValidRttNothingMoves) {
  start_at_100000();
  EXPECT_EQ(ack({.at_us = 50, .bytes = 200'000, .is_marked = true}), 100'000);
  EXPECT_EQ(state("average_delay_us"), 0);
}

TEST_F(Nscc, AShorterRttLowersBaseRttAndTheLargestWindow) {
  EXPECT_EQ(ack({.at_us = 1, .rtt_us = 8, .bytes = 4'160}), 150'000);
  EXPECT_EQ(state("base_rtt_us"), 8);
  (void)ack({.at_us = 2, .rtt_us = 20, .bytes = 4'160});
  EXPECT_EQ(state("base_rtt_us"), 8);
}

TEST_F(Nscc, TheFloorKeepsBaseRttUp) {
  use("base_rtt_floor_us", 10);
  (void)ack({.at_us = 1, .rtt_us = 2, .bytes = 4'160});
  EXPECT_EQ(state("base_rtt_us"), 10);
  EXPECT_EQ(state("average_delay_us"), 0);
}

TEST_F(Nscc, DelayIsAveragedByShareOfTheWindow) {
  start_at_100000();
  (void)ack({.at_us = 1, .rtt_us = 32, .bytes = 4'160, .is_marked = true});
  EXPECT_DOUBLE_EQ(state("average_delay_us"), 20);
  (void)ack({.at_us = 2, .rtt_us = 12, .bytes = 25'000});
  EXPECT_DOUBLE_EQ(state("average_delay_us"), 15);
}

// ---- step 5: quick adapt ----

TEST_F(Nscc, QuickAdaptSetsTheWindowToWhatWasAchieved) {
  (void)ack({.at_us = 1, .rtt_us = 12, .bytes = 4'160});  // first check: only starts the period
  // The period is base RTT + target: over at 25 us. Delay 49 > 4 x 12, 12480 < 225000 / 8.
  EXPECT_EQ(ack({.at_us = 25, .rtt_us = 61, .bytes = 12'480, .in_flight = 200'000}), 12'480);
  EXPECT_EQ(state("quick_adapts"), 1);
  EXPECT_EQ(state("bytes_to_ignore"), 200'000);
}

TEST_F(Nscc, QuickAdaptWaitsForTheEndOfItsPeriod) {
  (void)ack({.at_us = 1, .rtt_us = 12, .bytes = 4'160});
  (void)ack({.at_us = 24, .rtt_us = 61, .bytes = 12'480});
  EXPECT_EQ(state("quick_adapts"), 0);
}

TEST_F(Nscc, QuickAdaptNeedsMoreDelayThanItsThreshold) {
  (void)ack({.at_us = 1, .rtt_us = 12, .bytes = 4'160});
  (void)ack({.at_us = 25, .rtt_us = 60, .bytes = 12'480});
  EXPECT_EQ(state("quick_adapts"), 0);
}

TEST_F(Nscc, QuickAdaptSparesAFlowThatAchievedTheGate) {
  (void)ack({.at_us = 1, .rtt_us = 12, .bytes = 4'160});
  (void)ack({.at_us = 25, .rtt_us = 61, .bytes = 28'125});
  EXPECT_EQ(state("quick_adapts"), 0);
}

TEST_F(Nscc, AfterQuickAdaptMarkedOldNewsIsIgnored) {
  (void)ack({.at_us = 1, .rtt_us = 12, .bytes = 4'160});
  ASSERT_EQ(ack({.at_us = 25, .rtt_us = 61, .bytes = 20'800, .in_flight = 10'000}), 20'800);
  // 8320 and 12480 of the 10000 bytes that were in flight: the first is old news, the second not.
  EXPECT_EQ(ack({.at_us = 40, .rtt_us = 61, .bytes = 8'320, .is_marked = true}), 20'800);
  EXPECT_EQ(state("decreases"), 0);
  EXPECT_LT(ack({.at_us = 41, .rtt_us = 61, .bytes = 4'160, .is_marked = true}), 20'800);
  EXPECT_EQ(state("decreases"), 1);
}

TEST_F(Nscc, QuickAdaptCanBeSwitchedOff) {
  use("has_quick_adapt", 0);
  (void)ack({.at_us = 1, .rtt_us = 12, .bytes = 4'160});
  (void)ack({.at_us = 25, .rtt_us = 61, .bytes = 12'480});
  EXPECT_EQ(state("quick_adapts"), 0);
}

// ---- steps 6 and 7: four cases ----

TEST_F(Nscc, FairIncreaseAboveTargetWithoutMark) {
  start_at_100000();
  // fi x n / window = 20800 x 41600 / 100000
  EXPECT_EQ(ack({.at_us = 1, .rtt_us = 32, .bytes = kTenPackets}), 108'652);
}

TEST_F(Nscc, DelayExactlyAtTargetIsAbove) {
  start_at_100000();
  EXPECT_EQ(ack({.at_us = 1, .rtt_us = 24, .bytes = kTenPackets}), 108'652);
}

TEST_F(Nscc, ProportionalIncreaseBelowTarget) {
  start_at_100000();
  // alpha x n x (12 - 6) / window = 1386.67 x 41600 x 6 / 100000 = 3461.12
  EXPECT_EQ(ack({.at_us = 1, .rtt_us = 18, .bytes = kTenPackets}), 103'461);
}

TEST_F(Nscc, AMarkWithLittleDelayChangesNothing) {
  start_at_100000();
  EXPECT_EQ(ack({.at_us = 1, .rtt_us = 18, .bytes = kTenPackets, .is_marked = true}), 100'000);
}

TEST_F(Nscc, MultiplicativeDecreaseFollowsTheAverage) {
  start_at_100000();
  // 1 - 0.8 x (24 - 12) / 24 = 0.6; eta, because the adjustment period is over as well.
  EXPECT_EQ(ack({.at_us = 13, .rtt_us = 36, .bytes = 4'160, .is_marked = true}), 60'624);
}

TEST_F(Nscc, OneDecreaseTakesAtMostHalf) {
  start_at_100000();
  // 1 - 0.8 x (36 - 12) / 36 = 0.467
  EXPECT_EQ(ack({.at_us = 13, .rtt_us = 48, .bytes = 4'160, .is_marked = true}), 50'624);
}

TEST_F(Nscc, DecreasesAreMoreThanOneBaseRttApart) {
  start_at_100000();
  EXPECT_EQ(ack({.at_us = 12, .rtt_us = 36, .bytes = 4'160, .is_marked = true}), 100'624);
  (void)ack({.at_us = 13, .rtt_us = 36, .bytes = 4'160, .is_marked = true});
  EXPECT_EQ(state("decreases"), 1);
  (void)ack({.at_us = 25, .rtt_us = 36, .bytes = 4'160, .is_marked = true});
  EXPECT_EQ(state("decreases"), 1);
  (void)ack({.at_us = 26, .rtt_us = 36, .bytes = 4'160, .is_marked = true});
  EXPECT_EQ(state("decreases"), 2);
}

TEST_F(Nscc, NoDecreaseWhileTheAverageIsAtTarget) {
  start_at_100000();
  EXPECT_EQ(ack({.at_us = 13, .rtt_us = 24, .bytes = 4'160, .is_marked = true}), 100'624);
}

TEST_F(Nscc, TheWindowWaitsForEightPacketsOrAPeriod) {
  start_at_100000();
  EXPECT_EQ(ack({.at_us = 1, .rtt_us = 32, .bytes = 33'280}), 100'000);
  // One byte more than 8 MTU: 20800 x 33281 / 100000 = 6922.4
  EXPECT_EQ(ack({.at_us = 2, .rtt_us = 32, .bytes = 1}), 106'922);
}

TEST_F(Nscc, EtaComesOncePerPeriod) {
  start_at_100000();
  EXPECT_EQ(ack({.at_us = 12, .rtt_us = 18, .bytes = 0}), 100'624);
  EXPECT_EQ(ack({.at_us = 23, .rtt_us = 18, .bytes = 0}), 100'624);
  EXPECT_EQ(ack({.at_us = 24, .rtt_us = 18, .bytes = 0}), 101'248);
}

TEST_F(Nscc, FastIncreaseStartsAfterAWindowWithoutDelay) {
  start_at_100000();
  const Ack idle{.at_us = 1, .rtt_us = 12, .bytes = kTenPackets};
  // 1386.67 x 41600 x 12 = 6.92224e8, divided by the window
  EXPECT_EQ(ack(idle), 106'922);
  EXPECT_EQ(ack(idle), 113'396);
  EXPECT_EQ(state("is_fast"), 0);
  // 124800 bytes without delay exceed the window: + 41600 x 0.25
  EXPECT_EQ(ack(idle), 123'796);
  EXPECT_EQ(state("is_fast"), 1);
  EXPECT_EQ(ack(idle), 134'196);
  // Any delay ends it: 1386.67 x 41600 x 6 / 134196 = 2579
  EXPECT_EQ(ack({.at_us = 1, .rtt_us = 18, .bytes = kTenPackets}), 136'775);
  EXPECT_EQ(state("is_fast"), 0);
}

TEST_F(Nscc, NeverExceedsTheLargestWindow) {
  for (int i = 1; i < 200; ++i) {
    EXPECT_LE(ack({.at_us = i, .rtt_us = 12, .bytes = kTenPackets}), 225'000);
  }
}

// ---- losses ----

TEST_F(Nscc, AnInferredLossTakesItsSize) {
  EXPECT_EQ(lose(1, 4'160, LossCause::kReordered), 220'840);
  EXPECT_EQ(lose(1, 4'160, LossCause::kTimeout), 216'680);
  EXPECT_EQ(state("bytes_ignored"), 8'320);
  EXPECT_EQ(lose(1, 1'000'000, LossCause::kTimeout), 4'160);
}

TEST_F(Nscc, ASpuriousLossGivesItBack) {
  (void)lose(1, 41'600, LossCause::kReordered);
  EXPECT_EQ(cc_->on_signal(Time(microseconds(2)), LossWasSpurious{41'600}).window_bytes, 225'000U);
}

TEST_F(Nscc, ATrimTakesItsSizeAndCountsAsADelaySample) {
  for (const LossCause cause : {LossCause::kTrimmed, LossCause::kTrimmedLastHop}) {
    cc_ = make_default(kNscc, reference_flow());
    EXPECT_EQ(lose(1, 4'160, cause), 220'840);
    EXPECT_EQ(state("average_delay_us"), 12);
    EXPECT_EQ(state("bytes_ignored"), 4'160);
  }
}

TEST_F(Nscc, ATrimAfterThePeriodAdaptsAtOnce) {
  (void)lose(1, 4'160, LossCause::kTrimmed);
  (void)ack({.at_us = 2, .bytes = 20'800});
  EXPECT_EQ(lose(25, 4'160, LossCause::kTrimmed, 90'000), 20'800);
  EXPECT_EQ(state("bytes_to_ignore"), 90'000);
}

TEST_F(Nscc, ATrimIsRememberedUntilTheNextCheck) {
  (void)lose(1, 4'160, LossCause::kTrimmed);
  // No delay at all, but the trim triggers it.
  EXPECT_EQ(ack({.at_us = 25, .rtt_us = 12, .bytes = 12'480}), 12'480);
}

TEST_F(Nscc, QuickAdaptMayRaiseAWindowThatTrimsBroughtDown) {
  (void)lose(1, 4'160, LossCause::kTrimmed);
  ASSERT_EQ(lose(2, 1'000'000, LossCause::kTrimmed), 4'160);
  (void)ack({.at_us = 3, .bytes = 20'800});
  EXPECT_EQ(lose(25, 4'160, LossCause::kTrimmed), 20'800);
}

// ---- path changes ----

TEST_F(Nscc, ANewPathBringsNewParameters) {
  const SendLimits limits =
      cc_->on_signal(Time(microseconds(5)),
                     PathChanged{.base_rtt = microseconds(6), .link_rate = Rate::gbps(100)});
  EXPECT_EQ(limits.window_bytes, 112'500U);
  EXPECT_EQ(state("target_delay_us"), 6);
}

}  // namespace
}  // namespace spindrift::test
