// DCQCN rule by rule, with numbers worked out by hand from uet.md C.1, and its fixed points.
#include "cc/dcqcn_tuning.h"
#include "tests/cc/algorithms_under_test.h"
#include "tests/cc/bottleneck.h"
#include "tests/cc/fluid_queue.h"

namespace spindrift::test {
namespace {

using std::chrono::milliseconds;

constexpr double kGbps = 1e9;
constexpr double kG = 1.0 / 256;

FlowInfo flow_of_40g() {
  return {.base_rtt = microseconds(4),
          .link_rate = Rate::gbps(40),
          .mtu_bytes = 1000,
          .max_window_bytes = 1'000'000};
}

class Dcqcn : public ::testing::Test {
 protected:
  Dcqcn() : cc_(make_default(kDcqcn, flow_of_40g())) { limits_ = cc_->initial(); }

  void notify(Duration at) { limits_ = cc_->on_signal(Time(at), CongestionNotification{}); }
  void fire(Duration at) { limits_ = cc_->on_signal(Time(at), TimerFired{}); }
  void ack(Duration at, std::uint64_t bytes) {
    limits_ = cc_->on_ack({.now = Time(at), .acked_bytes = bytes, .received_bytes = bytes});
  }
  double rate() const { return state_of(*cc_, "rate_bps"); }
  double target() const { return state_of(*cc_, "target_rate_bps"); }
  double alpha() const { return state_of(*cc_, "alpha"); }

  std::unique_ptr<CongestionControl> cc_;
  SendLimits limits_;
};

TEST_F(Dcqcn, StartsAtLineRateWithoutATimer) {
  EXPECT_EQ(limits_, (SendLimits{.window_bytes = 1'000'000, .pacing_rate = Rate::gbps(40)}));
  EXPECT_EQ(alpha(), 1);
}

TEST_F(Dcqcn, FirstCutsHalveBecauseAlphaStartsAtOne) {
  notify(microseconds(10));
  EXPECT_DOUBLE_EQ(rate(), 20 * kGbps);
  EXPECT_DOUBLE_EQ(target(), 40 * kGbps);
  EXPECT_DOUBLE_EQ(alpha(), 1);  // (1 - g) 1 + g
  notify(microseconds(60));
  EXPECT_DOUBLE_EQ(rate(), 10 * kGbps);
  EXPECT_DOUBLE_EQ(target(), 20 * kGbps);
}

TEST_F(Dcqcn, TheCutUsesTheOldAlphaThenAlphaRises) {
  notify(microseconds(560));  // 10 periods of 55 us without a notification
  const double decayed = std::pow(1 - kG, 10);
  EXPECT_NEAR(rate(), 40 * kGbps * (1 - decayed / 2), 1);
  EXPECT_NEAR(alpha(), (1 - kG) * decayed + kG, 1e-12);
}

TEST_F(Dcqcn, AlphaDecaysOncePerPeriodSinceTheLastNotification) {
  notify(microseconds(30));
  ack(microseconds(84), 1000);
  EXPECT_DOUBLE_EQ(alpha(), 1);
  ack(microseconds(85), 1000);
  EXPECT_DOUBLE_EQ(alpha(), 1 - kG);
  ack(microseconds(140), 1000);
  EXPECT_DOUBLE_EQ(alpha(), (1 - kG) * (1 - kG));
}

TEST_F(Dcqcn, FiveTimerEventsRecoverTheSixthIsAdditive) {
  notify({});
  notify({});  // 10 of 20 Gb/s
  const double expected[] = {15, 17.5, 18.75, 19.375, 19.6875};
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(limits_.timer, Time(microseconds(55 * (i + 1))));
    fire(microseconds(55 * (i + 1)));
    EXPECT_DOUBLE_EQ(rate(), expected[i] * kGbps);
    EXPECT_DOUBLE_EQ(target(), 20 * kGbps);
  }
  fire(microseconds(330));
  EXPECT_DOUBLE_EQ(target(), 20.04 * kGbps);
  EXPECT_DOUBLE_EQ(rate(), 19.86375 * kGbps);
}

TEST_F(Dcqcn, TenMegabytesAreAnIncreaseToo) {
  notify({});
  ack(microseconds(1), 9'999'999);
  EXPECT_DOUBLE_EQ(rate(), 20 * kGbps);
  ack(microseconds(2), 1);
  EXPECT_DOUBLE_EQ(rate(), 30 * kGbps);
  EXPECT_EQ(state_of(*cc_, "byte_stage"), 1);
  EXPECT_EQ(state_of(*cc_, "timer_stage"), 0);
}

TEST_F(Dcqcn, HyperIncreaseNeedsBothStagesBeyondFive) {
  notify({});
  notify({});
  for (int i = 1; i <= 6; ++i)
    fire(microseconds(55 * i));
  for (int i = 1; i <= 6; ++i)
    ack(microseconds(331), 10'000'000);
  // One additive timer event, six additive byte events: min(T, BC) was not beyond F yet.
  EXPECT_DOUBLE_EQ(target(), 20.28 * kGbps);
  ack(microseconds(331), 10'000'000);
  EXPECT_DOUBLE_EQ(target(), 20.68 * kGbps);  // T = BC = 6, i = 1: + R_HAI = 400 Mb/s
  fire(microseconds(385));
  EXPECT_DOUBLE_EQ(target(), 21.08 * kGbps);  // T = 6: i = 1 still
  ack(microseconds(386), 10'000'000);
  EXPECT_DOUBLE_EQ(target(), 21.88 * kGbps);  // T = BC = 7: i = 2
}

TEST_F(Dcqcn, ANotificationStartsTheStagesAgain) {
  notify({});
  for (int i = 1; i <= 3; ++i)
    fire(microseconds(55 * i));
  ack(microseconds(170), 9'000'000);
  notify(microseconds(180));
  EXPECT_EQ(state_of(*cc_, "timer_stage"), 0);
  EXPECT_EQ(limits_.timer, Time(microseconds(235)));
  const double before = rate();
  ack(microseconds(181), 9'000'000);
  EXPECT_DOUBLE_EQ(rate(), before);
}

TEST_F(Dcqcn, ALateTimerCountsOnce) {
  notify({});
  fire(milliseconds(20));
  EXPECT_DOUBLE_EQ(rate(), 30 * kGbps);
  EXPECT_EQ(limits_.timer, Time(milliseconds(20) + microseconds(55)));
}

TEST_F(Dcqcn, StopsItsTimerBackAtLineRate) {
  notify({});
  for (int i = 1; i < 100; ++i)
    fire(microseconds(55 * i));
  EXPECT_EQ(limits_.pacing_rate, Rate::gbps(40));
  EXPECT_EQ(limits_.timer, kNever);
}

TEST_F(Dcqcn, NeverGoesBelowItsSmallestRate) {
  for (int i = 0; i < 100; ++i)
    notify(microseconds(50 * i));
  EXPECT_EQ(limits_.pacing_rate, Rate::bits_per_second(40'000'000));
}

TEST_F(Dcqcn, LossesCutAtMostOncePer50Us) {
  const auto lose = [&](Duration at) {
    limits_ = cc_->on_loss({.now = Time(at), .lost_bytes = 1000, .lost_packets = 1});
  };
  lose(microseconds(1));
  lose(microseconds(2));
  lose(microseconds(50));
  EXPECT_DOUBLE_EQ(rate(), 20 * kGbps);
  lose(microseconds(51));
  EXPECT_DOUBLE_EQ(rate(), 10 * kGbps);
}

TEST_F(Dcqcn, IgnoresLossesIfTold) {
  std::vector<double> values = default_values(kDcqcn);
  ASSERT_EQ(kDcqcn.parameters.back().name, "cuts_on_loss");
  values.back() = 0;
  const auto cc = kDcqcn.make(flow_of_40g(), values);
  EXPECT_EQ(cc->on_loss({.lost_bytes = 1000, .lost_packets = 1}).pacing_rate, Rate::gbps(40));
}

TEST_F(Dcqcn, MarksWithin50UsAreOneNotification) {
  const auto mark = [&](Duration at) {
    limits_ = cc_->on_ack({.now = Time(at), .acked_bytes = 1000, .is_marked = true});
  };
  mark(microseconds(1));
  mark(microseconds(2));
  mark(microseconds(50));
  EXPECT_DOUBLE_EQ(rate(), 20 * kGbps);
  mark(microseconds(51));
  EXPECT_DOUBLE_EQ(rate(), 10 * kGbps);
}

// Figure 6 of the paper: what is marked while a notification is still fresh is not forgotten. If it
// were, the queue would settle 20..28 % higher (sim/dcqcn_network_test.cc).
TEST_F(Dcqcn, MarksWithin50UsAreToldOfAtTheirEnd) {
  const auto mark = [&](Duration at) {
    limits_ = cc_->on_ack({.now = Time(at), .acked_bytes = 1000, .is_marked = true});
  };
  mark(microseconds(1));
  EXPECT_EQ(limits_.timer, Time(microseconds(56)));
  mark(microseconds(30));
  mark(microseconds(40));
  EXPECT_DOUBLE_EQ(rate(), 20 * kGbps);
  EXPECT_EQ(limits_.timer, Time(microseconds(51)));
  fire(microseconds(51));
  EXPECT_DOUBLE_EQ(rate(), 10 * kGbps);
  EXPECT_EQ(limits_.timer, Time(microseconds(106)));
  fire(microseconds(106));
  EXPECT_DOUBLE_EQ(rate(), 15 * kGbps);
}

TEST_F(Dcqcn, FollowsTheLinkRate) {
  limits_ = cc_->on_signal(Time{},
                           PathChanged{.base_rtt = microseconds(4), .link_rate = Rate::gbps(100)});
  EXPECT_EQ(limits_.pacing_rate, Rate::gbps(100));
  limits_ =
      cc_->on_signal(Time{}, PathChanged{.base_rtt = microseconds(4), .link_rate = Rate::gbps(10)});
  EXPECT_EQ(limits_.pacing_rate, Rate::gbps(10));
}

// ---- the sets of the firmware and of the ns-3 model ----

class DcqcnSets : public Dcqcn {
 protected:
  void use(std::string_view name) {
    for (const ParameterSet& set : kDcqcn.sets)
      if (set.name == name) cc_ = kDcqcn.make(flow_of_40g(), set.values);
    limits_ = cc_->initial();
  }
};

TEST_F(DcqcnSets, Ns3AlphaWaitsForTheFirstNotificationThenMovesOncePerMicrosecond) {
  use("ns3");
  ack(milliseconds(10), 1000);
  EXPECT_DOUBLE_EQ(alpha(), 1);
  notify(milliseconds(20));
  EXPECT_DOUBLE_EQ(rate(), 20 * kGbps);
  ack(milliseconds(20) + microseconds(3), 1000);
  EXPECT_NEAR(alpha(), std::pow(1 - kG, 3), 1e-12);
  // A notification counts at the end of its microsecond, however many come in it.
  notify(milliseconds(20) + microseconds(3));
  notify(milliseconds(20) + Duration(3'500));
  EXPECT_NEAR(alpha(), std::pow(1 - kG, 3), 1e-12);
  ack(milliseconds(20) + microseconds(4), 1000);
  EXPECT_NEAR(alpha(), std::pow(1 - kG, 4) + kG, 1e-12);
}

TEST_F(DcqcnSets, Ns3CutsWaitForTheEndOfTheirPeriod) {
  use("ns3");
  notify(microseconds(10));
  ASSERT_DOUBLE_EQ(rate(), 20 * kGbps);
  notify(microseconds(11));
  EXPECT_DOUBLE_EQ(rate(), 20 * kGbps);
  EXPECT_EQ(limits_.timer, Time(microseconds(14)));
  fire(microseconds(14));
  EXPECT_DOUBLE_EQ(rate(), 20 * kGbps * (1 - alpha() / 2));
  EXPECT_EQ(state_of(*cc_, "cuts"), 2);
}

TEST_F(DcqcnSets, Ns3KeepsItsTargetUnlessTheRateRoseBetweenCuts) {
  use("ns3");
  notify(microseconds(10));
  notify(microseconds(20));
  EXPECT_DOUBLE_EQ(target(), 40 * kGbps);
  EXPECT_LT(rate(), 11 * kGbps);
  fire(microseconds(320));
  const double risen = rate();
  notify(microseconds(330));
  EXPECT_DOUBLE_EQ(target(), risen);
}

TEST_F(DcqcnSets, Ns3RecoversOnceAddsOnceThenAddsMore) {
  use("ns3");
  for (int i = 0; i < 2; ++i)
    notify(microseconds(10 * i));
  const double start = target();
  ack(microseconds(20), 100'000'000);  // no byte counter
  fire(microseconds(310));
  EXPECT_DOUBLE_EQ(target(), start);
  notify(microseconds(320));
  notify(microseconds(330));
  const double low = target();
  fire(microseconds(630));
  EXPECT_DOUBLE_EQ(target(), low);
  fire(microseconds(930));
  EXPECT_DOUBLE_EQ(target(), low + 5e6);
  fire(microseconds(1'230));
  fire(microseconds(1'530));
  EXPECT_DOUBLE_EQ(target(), low + 105e6);
}

TEST_F(DcqcnSets, TheTuningFollowsTheValues) {
  std::vector<double> values(kDcqcnParameterCount);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>(i + 1);
  const DcqcnTuning tuning = dcqcn_tuning(values);
  EXPECT_EQ(tuning.alpha_period, microseconds(2));
  EXPECT_EQ(tuning.notification_spacing, microseconds(5));
  EXPECT_EQ(tuning.byte_counter, 9);
  EXPECT_EQ(tuning.rate_hai_bps, 12e6);
  values[11] = 0;
  EXPECT_EQ(dcqcn_tuning(values).rate_hai_bps, 110e6);
}

TEST_F(DcqcnSets, Mlx5ThinsMarksTo4Us) {
  use("mlx5");
  EXPECT_DOUBLE_EQ(alpha(), 1023.0 / 1024);
  for (int i = 0; i < 9; ++i)
    limits_ = cc_->on_ack({.now = Time(microseconds(i)), .acked_bytes = 1000, .is_marked = true});
  EXPECT_EQ(state_of(*cc_, "cuts"), 3);
}

// ---- shared queues: the fixed points of uet.md C.1 ----

struct FixedPoint {
  double gbps;
  std::size_t flows;
  double probability;
  double alpha;
  double queue_bytes;
};

std::string row_name(const ::testing::TestParamInfo<FixedPoint>& param) {
  return std::to_string(static_cast<int>(param.param.gbps)) + "G_" +
         std::to_string(param.param.flows);
}

class DcqcnFluid : public ::testing::TestWithParam<FixedPoint> {};

TEST_P(DcqcnFluid, SettlesWithin15PercentOfTheFixedPoint) {
  const FixedPoint& expected = GetParam();
  const FluidQueue::Config config{.gbps = expected.gbps};
  FluidQueue queue(config);
  FlowInfo flow = flow_of_40g();
  flow.link_rate = Rate::gbps(expected.gbps);
  for (std::size_t i = 0; i < expected.flows * static_cast<std::size_t>(config.copies); ++i)
    queue.add(make_default(kDcqcn, flow));
  queue.run_for(milliseconds(80));
  double queue_bytes = 0, probability = 0, alpha = 0;
  constexpr int kSamples = 400;
  for (int i = 0; i < kSamples; ++i) {
    queue.run_for(microseconds(100));
    queue_bytes += queue.queue_bytes() / kSamples;
    probability += queue.mark_probability() / kSamples;
    for (std::size_t f = 0; f < queue.flow_count(); ++f)
      alpha += state_of(queue.cc(f), "alpha") / kSamples / static_cast<double>(queue.flow_count());
  }
  EXPECT_NEAR(probability / expected.probability, 1, 0.15) << probability;
  EXPECT_NEAR(alpha / expected.alpha, 1, 0.15) << alpha;
  EXPECT_NEAR(queue_bytes / expected.queue_bytes, 1, 0.15) << queue_bytes;
}

INSTANTIATE_TEST_SUITE_P(Rows, DcqcnFluid,
                         ::testing::Values(FixedPoint{40, 2, 7.77e-4, 0.101, 20.2e3},
                                           FixedPoint{40, 4, 1.89e-3, 0.122, 41.8e3},
                                           FixedPoint{40, 8, 4.55e-3, 0.145, 93.8e3},
                                           FixedPoint{40, 10, 6.03e-3, 0.153, 122.6e3},
                                           FixedPoint{25, 2, 1.42e-3, 0.115, 32.7e3}),
                         row_name);

// Few flows, packet by packet: their steps are as large as the fixed point itself.
class DcqcnFixedPoint : public ::testing::TestWithParam<FixedPoint> {};

TEST_P(DcqcnFixedPoint, QueueAndAlphaSettleWhereTheFluidModelSays) {
  const FixedPoint& expected = GetParam();
  Bottleneck network({.rate = Rate::gbps(expected.gbps), .base_rtt = microseconds(4)});
  for (std::size_t i = 0; i < expected.flows; ++i) {
    auto cc = make_default(kDcqcn, network.flow_info());
    const SendLimits limits = cc->initial();
    network.add(kDcqcn, std::move(cc), limits);
  }
  network.run_for(milliseconds(60));
  double queue_bytes = 0, alpha = 0;
  constexpr int kSamples = 6'000;
  for (int i = 0; i < kSamples; ++i) {
    network.run_for(microseconds(10));
    queue_bytes += static_cast<double>(network.queue_bytes()) / kSamples;
    for (std::size_t f = 0; f < expected.flows; ++f) {
      alpha +=
          state_of(*network.flow(f).cc, "alpha") / kSamples / static_cast<double>(expected.flows);
    }
  }
  RecordProperty("queue_bytes", std::to_string(queue_bytes));
  RecordProperty("alpha", std::to_string(alpha));
  EXPECT_NEAR(alpha / expected.alpha, 1, 0.25) << alpha;
  EXPECT_NEAR(queue_bytes / expected.queue_bytes, 1, 0.4) << queue_bytes;
}

INSTANTIATE_TEST_SUITE_P(Rows, DcqcnFixedPoint,
                         ::testing::Values(FixedPoint{40, 2, 7.77e-4, 0.101, 20.2e3},
                                           FixedPoint{40, 4, 1.89e-3, 0.122, 41.8e3},
                                           FixedPoint{40, 8, 4.55e-3, 0.145, 93.8e3},
                                           FixedPoint{25, 2, 1.42e-3, 0.115, 32.7e3}),
                         row_name);

// Mean rates of flows that start at 40 and 5 Gb/s, around the given times. Single flows take their
// first cuts by half; the model has their mean, so there are several of each, on a link as large.
TEST(DcqcnConvergence, TwoFlowsApproachEachOtherAsFastAsInTheFluidModel) {
  struct Row {
    double from_ms, to_ms, fast_gbps, slow_gbps;
  };
  constexpr Row kRows[] = {
      {9, 11, 29.0, 11.0}, {18, 22, 24.7, 15.3}, {27, 33, 22.3, 17.7}, {45, 55, 20.4, 19.6}};
  constexpr std::size_t kCopies = 5;
  double mean_gbps[std::size(kRows)][2] = {};
  Bottleneck network({.rate = Rate::gbps(40 * kCopies),
                      .mark_min_bytes = 5e3 * kCopies,
                      .mark_max_bytes = 200e3 * kCopies});
  FlowInfo info = network.flow_info();
  for (std::size_t i = 0; i < 2 * kCopies; ++i) {
    const bool is_slow = i % 2 == 1;
    info.link_rate = Rate::gbps(is_slow ? 10 : 40);
    auto cc = make_default(kDcqcn, info);
    SendLimits limits = cc->initial();
    if (is_slow) {  // the first cut halves; then its link is as fast as that of the others
      limits = cc->on_signal(Time{}, CongestionNotification{});
      for (const double gbps : {5.0001, 40.0})
        limits = cc->on_signal(Time{}, PathChanged{.base_rtt = info.base_rtt,
                                                   .link_rate = Rate::bits_per_second(
                                                       static_cast<std::uint64_t>(gbps * kGbps))});
    }
    network.add(kDcqcn, std::move(cc), limits);
  }
  const auto delivered = [&network](std::size_t f) {
    std::uint64_t sum = 0;
    for (std::size_t i = f; i < 2 * kCopies; i += 2)
      sum += network.flow(i).delivered_bytes;
    return sum;
  };
  for (std::size_t row = 0; row < std::size(kRows); ++row) {
    const auto at = [](double ms) { return Time(Duration(static_cast<std::int64_t>(ms * 1e6))); };
    network.run_for(at(kRows[row].from_ms) - network.now());
    const std::uint64_t before[] = {delivered(0), delivered(1)};
    network.run_for(at(kRows[row].to_ms) - network.now());
    for (std::size_t f = 0; f < 2; ++f)
      mean_gbps[row][f] = static_cast<double>(delivered(f) - before[f]) * 8e-6 /
                          (kRows[row].to_ms - kRows[row].from_ms) / kCopies;
  }
  for (std::size_t row = 0; row < std::size(kRows); ++row) {
    EXPECT_NEAR(mean_gbps[row][0], kRows[row].fast_gbps, 3) << kRows[row].from_ms << " ms";
    EXPECT_NEAR(mean_gbps[row][1], kRows[row].slow_gbps, 3) << kRows[row].from_ms << " ms";
  }
}

}  // namespace
}  // namespace spindrift::test
