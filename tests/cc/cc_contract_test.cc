// What every congestion control algorithm promises (CONTRIBUTING: CC contract), over all of them.
#include <set>

#include "tests/cc/algorithms_under_test.h"
#include "tests/cc/bottleneck.h"
#include "tests/cc/random_events.h"
#include "tests/paths/allocation_count.h"
#include "transport/base/rng.h"

namespace spindrift::test {
namespace {

class CcContract : public ::testing::TestWithParam<const CcInfo*> {
 protected:
  const CcInfo& info() const { return *GetParam(); }
  bool is_fixed() const { return info().name == "fixed_window"; }
};

// What the contract leaves to the algorithm, by its documentation.
struct Terms {
  // RTTs until nine tenths of the first allowance are back after ten RTTs with losses.
  int recovery_rtts_max = 200;
  Duration delay_above_target = microseconds(100);
  Duration convergence = std::chrono::milliseconds(20);
  bool heeds_marks_or_delay = true;
};

Terms terms_of(const CcInfo& info) {
  if (info.name == "dcqcn")
    return {.recovery_rtts_max = 5'000, .convergence = std::chrono::milliseconds(80)};
  // T_high is 25 RTTs; a step is a thousandth of the link rate.
  if (info.name == "timely")
    return {.recovery_rtts_max = 1'000, .delay_above_target = microseconds(400)};
  if (info.name == "fixed_window" || info.name == "receiver_credit")
    return {.heeds_marks_or_delay = false};
  return {};
}

// The documented lower bound of the rate. That of the window is one packet for all.
double rate_min_bps(const CcInfo& info, std::span<const double> values) {
  for (std::size_t i = 0; i < info.parameters.size(); ++i)
    if (info.parameters[i].name == "rate_min_mbps") return values[i] * 1e6;
  return 1e6;
}

void expect_sane(const SendLimits& limits, const FlowInfo& flow, Time now, double rate_min) {
  ASSERT_GE(limits.window_bytes, std::max<std::uint64_t>(flow.mtu_bytes, 1));
  ASSERT_GT(limits.timer, now);
  const auto link_bps = static_cast<double>(flow.link_rate.bits_per_second());
  if (link_bps <= 0 || limits.pacing_rate.is_unlimited()) return;
  const auto rate_bps = static_cast<double>(limits.pacing_rate.bits_per_second());
  ASSERT_LE(rate_bps, link_bps);
  ASSERT_GE(rate_bps, std::min(link_bps, rate_min));
}

TEST_P(CcContract, ParametersAreDocumentedAndDefaultsLieWithinBounds) {
  std::set<std::string_view> names;
  for (const ParameterInfo& parameter : info().parameters) {
    EXPECT_TRUE(names.insert(parameter.name).second) << parameter.name;
    EXPECT_GE(parameter.default_value, parameter.min) << parameter.name;
    EXPECT_LE(parameter.default_value, parameter.max) << parameter.name;
    EXPECT_FALSE(parameter.help.empty()) << parameter.name;
    EXPECT_FALSE(parameter.source.empty()) << parameter.name;
  }
  EXPECT_FALSE(info().summary.empty());
  EXPECT_FALSE(names.contains("set"));  // what chooses a set
}

TEST_P(CcContract, SetsLieWithinTheBoundsAndTheFirstIsTheDefault) {
  std::set<std::string_view> names;
  for (const ParameterSet& set : info().sets) {
    EXPECT_TRUE(names.insert(set.name).second) << set.name;
    EXPECT_FALSE(set.summary.empty()) << set.name;
    EXPECT_FALSE(set.source.empty()) << set.name;
    ASSERT_EQ(set.values.size(), info().parameters.size());
    for (std::size_t i = 0; i < set.values.size(); ++i) {
      EXPECT_GE(set.values[i], info().parameters[i].min) << set.name;
      EXPECT_LE(set.values[i], info().parameters[i].max) << set.name;
    }
  }
  if (info().sets.empty()) return;
  const std::span<const double> first = info().sets[0].values;
  EXPECT_EQ(default_values(info()), std::vector<double>(first.begin(), first.end()));
}

TEST_P(CcContract, FirstWindowIsAtLeastAPacketAndWithinTheReceiversBuffers) {
  for (const Duration rtt : {Duration(0), Duration(1), Duration(2000), Duration(1'000'000'000)}) {
    for (const double gbps : {0.0, 0.001, 10.0, 100.0, 800.0}) {
      for (const std::uint64_t cap : {std::uint64_t{16'320}, std::uint64_t{100'000}, kNoLimit}) {
        const FlowInfo flow{.base_rtt = rtt,
                            .link_rate = Rate::gbps(gbps),
                            .mtu_bytes = 16'320,
                            .max_window_bytes = cap};
        const SendLimits limits = make_default(info(), flow)->initial();
        expect_sane(limits, flow, flow.now, rate_min_bps(info(), default_values(info())));
        EXPECT_LE(limits.window_bytes, cap);
      }
    }
  }
}

TEST_P(CcContract, KeepsItsLowerBoundThroughAnyStorm) {
  const FlowInfo flow = reference_flow();
  Driver driver(info(), flow);
  const double rate_min = rate_min_bps(info(), default_values(info()));
  for (int i = 0; i < 2'000; ++i) {
    driver.run_rtt({.delay = microseconds(200), .is_marked = true, .lost_share = 1});
    driver.lose(1'000'000, LossCause::kTrimmed);
    driver.lose(1'000'000, LossCause::kTimeout);
    expect_sane(driver.limits(), flow, driver.now(), rate_min);
  }
}

TEST_P(CcContract, LimitsDoNotRiseOverAnRttOfMarksAboveTarget) {
  Driver driver(info(), reference_flow());
  const Driver::Weather storm{.delay = terms_of(info()).delay_above_target, .is_marked = true};
  driver.run_rtt(storm);
  for (int i = 0; i < 500; ++i) {
    const SendLimits before = driver.limits();
    driver.run_rtt(storm);
    ASSERT_LE(driver.limits().window_bytes, before.window_bytes) << "RTT " << i;
    if (before.pacing_rate.is_unlimited()) continue;
    ASSERT_LE(driver.limits().pacing_rate, before.pacing_rate) << "RTT " << i;
  }
}

TEST_P(CcContract, SendsLessAfterManyRttsOfMarksAboveTarget) {
  if (!terms_of(info()).heeds_marks_or_delay) return;
  Driver driver(info(), reference_flow());
  const Duration base_rtt = reference_flow().base_rtt;
  const double before = driver.allowed_bytes(base_rtt);
  for (int i = 0; i < 50; ++i)
    driver.run_rtt({.delay = terms_of(info()).delay_above_target, .is_marked = true});
  EXPECT_LT(driver.allowed_bytes(base_rtt), before / 4);
}

TEST_P(CcContract, RecoversAfterLossesStop) {
  Driver driver(info(), reference_flow());
  const Duration base_rtt = reference_flow().base_rtt;
  const double before = driver.allowed_bytes(base_rtt);
  for (int i = 0; i < 10; ++i)
    driver.run_rtt({.lost_share = 0.2});
  int rtts = 0;
  for (; driver.allowed_bytes(base_rtt) < 0.9 * before; ++rtts) {
    ASSERT_LT(rtts, terms_of(info()).recovery_rtts_max);
    driver.run_rtt({});
  }
}

TEST_P(CcContract, RecoversFromItsLowestPoint) {
  Driver driver(info(), reference_flow());
  const Duration base_rtt = reference_flow().base_rtt;
  const double before = driver.allowed_bytes(base_rtt);
  for (int i = 0; i < 200; ++i) {
    driver.run_rtt({.delay = microseconds(100), .is_marked = true, .lost_share = 1});
  }
  for (int rtts = 0; driver.allowed_bytes(base_rtt) < 0.9 * before; ++rtts) {
    ASSERT_LT(rtts, 10 * terms_of(info()).recovery_rtts_max);
    driver.run_rtt({});
  }
}

double jain(double a, double b) {
  return (a + b) * (a + b) / (2 * (a * a + b * b));
}

// A second flow, far below its share, joins one that has the link to itself.
TEST_P(CcContract, TwoFlowsConvergeToEqualShares) {
  const Duration base_rtt = microseconds(12);
  // Marks between 0.2 and 0.8 BDP, as uet.md B.5 sets switches; for DCQCN as its paper does.
  const bool is_dcqcn = info().name == "dcqcn";
  const Bottleneck::Config config{.rate = Rate::gbps(is_dcqcn ? 40 : 100),
                                  .base_rtt = base_rtt,
                                  .packet_bytes = is_dcqcn ? 1000U : 4160U,
                                  .mark_min_bytes = is_dcqcn ? 5e3 : 30e3,
                                  .mark_max_bytes = is_dcqcn ? 200e3 : 120e3,
                                  .mark_probability = is_dcqcn ? 0.01 : 1.0};
  Bottleneck network(config);
  const FlowInfo flow = network.flow_info();
  auto first = make_default(info(), flow);
  const SendLimits first_limits = first->initial();
  network.add(info(), std::move(first), first_limits);
  if (!is_fixed()) network.run_for(std::chrono::milliseconds(2));

  auto second = make_default(info(), network.flow_info());
  SendLimits second_limits = second->initial();
  Time now = network.now();
  for (int i = 0; i < 3 && !is_fixed(); ++i) {
    second_limits = second->on_loss({.now = now, .lost_bytes = 60'000, .lost_packets = 1});
    if (info().traits.needs_cnp) second_limits = second->on_signal(now, CongestionNotification{});
  }
  network.add(info(), std::move(second), second_limits);
  network.run_for(terms_of(info()).convergence);
  const std::uint64_t start[] = {network.flow(0).delivered_bytes, network.flow(1).delivered_bytes};
  const Duration measured = std::chrono::milliseconds(is_dcqcn ? 20 : 5);
  network.run_for(measured);
  const auto a = static_cast<double>(network.flow(0).delivered_bytes - start[0]);
  const auto b = static_cast<double>(network.flow(1).delivered_bytes - start[1]);
  EXPECT_GT(jain(a, b), 0.95) << a << " and " << b;
  const double link_bytes = static_cast<double>(config.rate.bits_per_second()) / 8e9 *
                            static_cast<double>(measured.count());
  EXPECT_GT((a + b) / link_bytes, 0.9);
}

// ---- random events ----

std::vector<SendLimits> random_run(const CcInfo& info, std::span<const double> values,
                                   std::uint64_t seed, int events) {
  Rng rng(seed);
  FlowInfo flow = reference_flow();
  const auto cc = info.make(flow, values);
  std::vector<SendLimits> result{cc->initial()};
  Time now = flow.now;
  for (int i = 0; i < events; ++i) {
    // Often not at all, sometimes by hours.
    now += Duration(
        static_cast<std::int64_t>(rng.chance(0.3) ? 0 : rng.next() >> (24 + rng.below(40))));
    result.push_back(random_event(*cc, rng, now, flow));
    expect_sane(result.back(), flow, now, rate_min_bps(info, values));
    if (::testing::Test::HasFatalFailure()) return result;
    if (i % 100 != 0) continue;
    for (const auto& field : StateCollector(*cc).fields) {
      EXPECT_TRUE(std::isfinite(field.second)) << field.first;
    }
  }
  return result;
}

TEST_P(CcContract, HostileEventsNeverBreakItsBounds) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    random_run(info(), default_values(info()), seed, 100'000);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  for (const ParameterSet& set : info().sets) {
    random_run(info(), set.values, 6, 100'000);
    ASSERT_FALSE(HasFailure()) << set.name;
  }
}

TEST_P(CcContract, SameEventsSameLimits) {
  const std::vector<double> values = default_values(info());
  EXPECT_EQ(random_run(info(), values, 9, 10'000), random_run(info(), values, 9, 10'000));
}

TEST_P(CcContract, NoAllocationInEvents) {
  FlowInfo flow = reference_flow();
  const auto cc = make_default(info(), flow);
  Rng rng(3);
  const std::uint64_t before = allocation_count();
  ASSERT_GT(before, 0U) << "nothing is counted";
  for (int i = 0; i < 10'000; ++i) {
    (void)random_event(*cc, rng, Time(microseconds(i)), flow);
  }
  EXPECT_EQ(allocation_count(), before);
}

TEST_P(CcContract, StateNamesAreStableAndLowerCase) {
  Driver driver(info(), reference_flow());
  const std::vector<std::string> first = StateCollector(driver.cc()).names();
  for (int i = 0; i < 50; ++i)
    driver.run_rtt({.is_marked = i % 2 == 0, .lost_share = 0.1});
  EXPECT_EQ(first, StateCollector(driver.cc()).names());
  EXPECT_EQ(std::set<std::string>(first.begin(), first.end()).size(), first.size());
  for (const std::string& name : first) {
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), std::string::npos)
        << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, CcContract, ::testing::ValuesIn(kAlgorithms), test_name);

}  // namespace
}  // namespace spindrift::test
