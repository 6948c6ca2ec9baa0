// HPCC on a simulated network with telemetry against what its paper says of it (Li et al., SIGCOMM
// 2019): links are used to about eta, and queues are nearly empty from the second RTT on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spindrift/open.h"

#include "sim/simulation.h"
#include "tests/sim/link_averages.h"

namespace spindrift::sim {
namespace {

constexpr double kEta = 0.95;
constexpr double kLinkBps = 100e9;
constexpr std::uint64_t kFrame = 4096 + 56 + 66 + kTelemetryBytes;

Scenario incast(std::uint32_t fan_in) {
  Scenario scenario;
  scenario.network.has_telemetry = true;
  scenario.network.queue_bytes = 4'000'000;
  scenario.transport.congestion_control = "hpcc";
  scenario.transport.path_selector = "single";
  scenario.transport.path_count = 1;
  scenario.workload.name = "incast";
  scenario.workload.fan_in = fan_in;
  scenario.workload.bytes = 64U << 20U;
  scenario.end = 4 * kMillisecond;
  return scenario;
}

class HpccNetwork : public testing::TestWithParam<std::uint32_t> {};

TEST_P(HpccNetwork, UsesTheLinkToItsTargetWithAlmostNoQueue) {
  Scenario scenario = incast(GetParam());
  // W_AI must suit the number of flows (section 3.3): with fewer in mind they push beyond eta.
  scenario.transport.congestion_control = "hpcc:flows=" + std::to_string(2 * GetParam());
  // Some tens of RTTs after the start, in which everybody sent a window's worth at once.
  constexpr Picoseconds kSettled = 500 * kMicrosecond;
  LinkAverages link("leaf0", "host1", {.from = kSettled, .to = scenario.end});
  const auto outcome = run(scenario, builtin_registry(), {.observer = &link});
  ASSERT_TRUE(std::holds_alternative<Results>(outcome));
  const double seconds = static_cast<double>(scenario.end - kSettled) * 1e-12;
  const double use = static_cast<double>(link.bytes()) * 8 / seconds / kLinkBps;
  EXPECT_NEAR(use, kEta, 0.05);
  EXPECT_LT(link.mean_queue_bytes(), 2 * static_cast<double>(kFrame));
  EXPECT_EQ(std::get<Results>(outcome).total.trims, 0U);
}

INSTANTIATE_TEST_SUITE_P(FanIn, HpccNetwork, testing::Values(1, 2, 8, 15));

TEST(HpccNetwork, TheQueueOfTheFirstRttIsGoneAfterAFewMore) {
  const Scenario scenario = incast(8);
  LinkAverages first("leaf0", "host1", {.to = 30 * kMicrosecond});
  ASSERT_TRUE(
      std::holds_alternative<Results>(run(scenario, builtin_registry(), {.observer = &first})));
  LinkAverages later("leaf0", "host1", {.from = 150 * kMicrosecond, .to = 300 * kMicrosecond});
  ASSERT_TRUE(
      std::holds_alternative<Results>(run(scenario, builtin_registry(), {.observer = &later})));
  EXPECT_GT(first.max_queue_bytes(), 20 * kFrame);
  EXPECT_LT(later.max_queue_bytes(), 8 * kFrame);
}

TEST(HpccNetwork, IsRefusedBeforeTheRunWhereSwitchesSayNothing) {
  Scenario scenario = incast(8);
  scenario.network.has_telemetry = false;
  const auto outcome = run(scenario, builtin_registry());
  ASSERT_TRUE(std::holds_alternative<RunError>(outcome));
  EXPECT_EQ(std::get<RunError>(outcome)[0].key, "transport.congestion_control");
  EXPECT_THAT(std::get<RunError>(outcome)[0].limit,
              testing::HasSubstr("network.has_telemetry=true"));
}

// Two bytes and eight for each of five links, in both directions.
TEST(HpccNetwork, TelemetryTakesItsTimeOnTheWire) {
  Scenario scenario = incast(1);
  scenario.transport.congestion_control = "fixed_window:window_bytes=1000000";
  scenario.workload.bytes = 4096;
  const auto with = run(scenario, builtin_registry());
  scenario.network.has_telemetry = false;
  const auto without = run(scenario, builtin_registry());
  const FlowRecord& longer = std::get<Results>(with).flows[0];
  const FlowRecord& shorter = std::get<Results>(without).flows[0];
  constexpr Picoseconds kPerLink = Picoseconds{2} * kTelemetryBytes * 80;
  EXPECT_EQ((longer.finish - shorter.finish) % kPerLink, 0);
  EXPECT_GE(longer.finish - shorter.finish, 2 * kPerLink);
  EXPECT_EQ(longer.finish, longer.ideal);
}

}  // namespace
}  // namespace spindrift::sim
