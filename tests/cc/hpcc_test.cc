// HPCC rule by rule, with numbers worked out by hand from its paper, algorithm 1.
//
// 100 Gb/s (12.5 bytes per ns), T = 12 us: W_init 150000, W_AI = 150000 x 0.05 / 5 = 1500.
#include "tests/cc/algorithms_under_test.h"

namespace spindrift::test {
namespace {

constexpr double kLine = 150'000;
constexpr double kIncrease = 1'500;

class Hpcc : public ::testing::Test {
 protected:
  Hpcc() : cc_(make_default(kHpcc, reference_flow())) {}

  struct Link {
    std::uint64_t tx_bytes = 0;
    std::uint32_t queue_bytes = 0;
    std::uint32_t id = 1;
    double gbps = 100;
  };
  // All links report the same moment.
  void ack(std::int64_t at_ns, std::uint64_t bytes, std::uint64_t in_flight,
           std::initializer_list<Link> links) {
    std::vector<HopTelemetry> hops;
    for (const Link& link : links)
      hops.push_back({.tx_bytes = link.tx_bytes,
                      .timestamp_ns = static_cast<std::uint64_t>(at_ns),
                      .queue_bytes = link.queue_bytes,
                      .link_id = link.id,
                      .link_rate = Rate::gbps(link.gbps)});
    limits_ = cc_->on_ack({.now = Time(Duration(at_ns)),
                           .acked_bytes = bytes,
                           .in_flight_bytes = in_flight,
                           .telemetry = hops});
  }
  void lose(std::int64_t at_us) {
    limits_ = cc_->on_loss({.now = Time(microseconds(at_us)), .lost_bytes = 4'160});
  }
  double window() const { return state_of(*cc_, "window_bytes"); }
  double reference() const { return state_of(*cc_, "reference_window_bytes"); }
  double utilisation() const { return state_of(*cc_, "utilisation"); }

  std::unique_ptr<CongestionControl> cc_;
  SendLimits limits_;
};

TEST_F(Hpcc, StartsAtLineRate) {
  EXPECT_EQ(cc_->initial(), (SendLimits{.window_bytes = 150'000, .pacing_rate = Rate::gbps(100)}));
}

TEST_F(Hpcc, TheFirstTelemetryIsOnlyRemembered) {
  ack(1'000, 4'160, 145'840, {{.tx_bytes = 1'000'000, .queue_bytes = 500'000}});
  EXPECT_DOUBLE_EQ(window(), kLine);
  EXPECT_EQ(state_of(*cc_, "rounds"), 0);
}

TEST_F(Hpcc, UtilisationIsTheRateAndTheSmallerQueue) {
  ack(0, 0, 0, {{.tx_bytes = 0, .queue_bytes = 60'000}});
  // Over a whole T: 150000 of 150000 bytes sent, and min(60000, 30000) of 150000 queued.
  ack(12'000, 4'160, 100'000, {{.tx_bytes = 150'000, .queue_bytes = 30'000}});
  EXPECT_DOUBLE_EQ(utilisation(), 1.2);
  EXPECT_DOUBLE_EQ(window(), kLine * 0.95 / 1.2 + kIncrease);
}

TEST_F(Hpcc, AShortSpanCountsByItsShareOfT) {
  ack(0, 0, 0, {{}});
  ack(3'000, 4'160, 100'000, {{.tx_bytes = 18'750}});  // half the rate for a quarter of T
  EXPECT_DOUBLE_EQ(utilisation(), 0.75 * 1 + 0.25 * 0.5);
}

TEST_F(Hpcc, TheFullestLinkCounts) {
  ack(0, 0, 0, {{.id = 1}, {.id = 2, .gbps = 400}, {.id = 3}});
  ack(12'000, 4'160, 100'000,
      {{.tx_bytes = 60'000, .id = 1},
       {.tx_bytes = 540'000, .id = 2, .gbps = 400},
       {.tx_bytes = 75'000, .id = 3}});
  EXPECT_DOUBLE_EQ(utilisation(), 0.9);
}

TEST_F(Hpcc, OtherLinksThanBeforeSayNothingYet) {
  ack(0, 0, 0, {{.id = 1}});
  ack(12'000, 4'160, 100'000, {{.tx_bytes = 900'000, .queue_bytes = 100'000, .id = 7}});
  EXPECT_DOUBLE_EQ(window(), kLine);
  ack(24'000, 4'160, 100'000, {{.tx_bytes = 1'125'000, .queue_bytes = 0, .id = 7}});
  EXPECT_DOUBLE_EQ(utilisation(), 1.5);
}

TEST_F(Hpcc, WithinARoundTheReferenceStays) {
  ack(0, 0, 0, {{}});
  ack(12'000, 4'160, 100'000, {{.tx_bytes = 300'000}});
  EXPECT_DOUBLE_EQ(reference(), kLine * 0.95 / 2 + kIncrease);
  const double first = reference();
  ack(24'000, 99'999, 50'000, {{.tx_bytes = 600'000}});
  EXPECT_DOUBLE_EQ(reference(), first);
  EXPECT_DOUBLE_EQ(window(), first * 0.95 / 2 + kIncrease);
  // 100000 bytes were in flight as the round began.
  ack(36'000, 1, 50'000, {{.tx_bytes = 900'000}});
  EXPECT_DOUBLE_EQ(reference(), first * 0.95 / 2 + kIncrease);
  EXPECT_EQ(state_of(*cc_, "rounds"), 2);
}

TEST_F(Hpcc, FiveAdditiveRoundsThenAMultiplicativeOne) {
  ack(0, 0, 0, {{}});
  std::uint64_t sent = 0;
  std::int64_t now = 0;
  const auto round = [&](double use) {
    sent += static_cast<std::uint64_t>(use * 150'000);
    now += 12'000;
    ack(now, 1, 0, {{.tx_bytes = sent}});
  };
  round(4);
  const double low = window();
  for (int i = 1; i <= 5; ++i) {
    round(0.5);
    EXPECT_DOUBLE_EQ(window(), low + i * kIncrease);
  }
  round(0.5);
  EXPECT_DOUBLE_EQ(window(), (low + 5 * kIncrease) * 0.95 / 0.5 + kIncrease);
}

TEST_F(Hpcc, TheRateIsTheWindowPerT) {
  ack(0, 0, 0, {{}});
  ack(12'000, 4'160, 0, {{.tx_bytes = 300'000}});
  EXPECT_NEAR(static_cast<double>(limits_.pacing_rate.bits_per_second()), window() * 8 / 12e-6, 1);
}

TEST_F(Hpcc, BelowOnePacketItPaces) {
  ack(0, 0, 0, {{}});
  for (int i = 1; i <= 100; ++i)
    ack(12'000 * i, 1, 0,
        {{.tx_bytes = 150'000ULL * static_cast<std::uint64_t>(i), .queue_bytes = 3'000'000}});
  EXPECT_LT(window(), 4'160);
  EXPECT_EQ(limits_.window_bytes, 4'160U);
  EXPECT_LT(limits_.pacing_rate, Rate::gbps(2));
}

TEST_F(Hpcc, LossesHalveOncePerT) {
  lose(100);
  lose(111);
  EXPECT_DOUBLE_EQ(window(), kLine / 2);
  lose(112);
  EXPECT_DOUBLE_EQ(window(), kLine / 4);
}

TEST_F(Hpcc, LooksAtFiveHopsAtMost) {
  ack(0, 0, 0, {{.id = 1}, {.id = 2}, {.id = 3}, {.id = 4}, {.id = 5}, {.id = 6}});
  EXPECT_EQ(state_of(*cc_, "hops"), 5);
}

TEST_F(Hpcc, FollowsThePath) {
  const PathChanged path{.base_rtt = microseconds(6), .link_rate = Rate::gbps(100)};
  EXPECT_EQ(cc_->on_signal(Time{}, path).window_bytes, 75'000U);
}

}  // namespace
}  // namespace spindrift::test
