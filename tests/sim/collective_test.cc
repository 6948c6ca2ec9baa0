// The real collective layer on simulated hosts.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spindrift/open.h"
#include "spindrift/seat.h"

#include "sim/simulation.h"

namespace spindrift::sim {
namespace {

using testing::HasSubstr;

Scenario of(std::uint32_t hosts, std::string operation, std::string algorithm) {
  Scenario scenario;
  scenario.topology.hosts = hosts;
  scenario.topology.hosts_per_leaf = std::min(hosts, 8U);
  scenario.workload.name = "collective";
  scenario.workload.operation = std::move(operation);
  scenario.workload.algorithm = std::move(algorithm);
  scenario.workload.bytes = 1U << 20U;
  return scenario;
}

std::variant<Results, RunError> run_it(const Scenario& scenario) {
  return run(scenario, builtin_registry(), {.take_seat = CommunicatorSeat::take});
}

Results must_be_right(const Scenario& scenario) {
  auto outcome = run_it(scenario);
  if (const auto* complaints = std::get_if<RunError>(&outcome)) {
    ADD_FAILURE() << to_string(complaints->front());
    return {};
  }
  auto results = std::get<Results>(std::move(outcome));
  EXPECT_EQ(results.flows.size(), scenario.topology.hosts * scenario.workload.repeats);
  for (const FlowRecord& call : results.flows)
    EXPECT_TRUE(call.is_done()) << "rank " << call.source << ": " << call.error;
  EXPECT_EQ(results.payload_errors, 0U);
  return results;
}

std::string complaint(const Scenario& scenario) {
  auto outcome = run_it(scenario);
  const auto* complaints = std::get_if<RunError>(&outcome);
  return complaints == nullptr ? std::string() : to_string(complaints->front());
}

// Links lose one packet in a thousand; every result is compared with a plain reference.
TEST(CollectiveInASimulation, SixtyFourRanksGetEveryOperationRightOverALossyNetwork) {
  const std::pair<std::string_view, std::string_view> calls[] = {
      {"all_reduce", "ring"},    {"reduce_scatter", "ring"}, {"all_gather", "ring"},
      {"broadcast", "binomial"}, {"reduce", "binomial"},     {"all_to_all", "direct"},
      {"gather", "direct"},      {"scatter", "direct"},      {"barrier", "bruck"}};
  std::uint64_t lost = 0;
  for (const auto& [operation, algorithm] : calls) {
    SCOPED_TRACE(operation);
    Scenario scenario = of(64, std::string(operation), std::string(algorithm));
    scenario.workload.bytes = 256U << 10U;
    scenario.topology.host_link.loss = 0.001;
    scenario.topology.fabric_link.loss = 0.001;
    lost += must_be_right(scenario).total.drops_loss;
  }
  EXPECT_GT(lost, 20U);
}

TEST(CollectiveInASimulation, IsNoFasterThanItsBytesAndRepeats) {
  Scenario scenario = of(16, "all_reduce", "ring");
  scenario.workload.bytes = 8U << 20U;
  scenario.workload.repeats = 2;
  const Results results = must_be_right(scenario);
  for (const FlowRecord& call : results.flows) {
    EXPECT_EQ(call.bytes, (8U << 20U) / 16 * 15 * 2);
    EXPECT_GE(call.finish - call.start, call.ideal);
    EXPECT_LE(call.finish - call.start, 2 * call.ideal);
  }
  EXPECT_EQ(results.history, must_be_right(scenario).history);
}

TEST(CollectiveInASimulation, RunsOverLanes) {
  Scenario scenario = of(8, "all_reduce", "ring");
  scenario.transport.engine = Engine::kLanes;
  scenario.transport.congestion_control = "fixed_window";
  scenario.transport.path_count = 4;
  scenario.network.has_pfc = true;
  static_cast<void>(must_be_right(scenario));
}

TEST(CollectiveInASimulation, IsRefusedWhatItCannotDo) {
  EXPECT_THAT(complaint(of(16, "all_reduce", "no_such")), HasSubstr("no_such"));
  EXPECT_THAT(complaint(of(16, "sort", "ring")), HasSubstr("all_reduce, reduce_scatter"));
  EXPECT_THAT(complaint(of(128, "all_reduce", "ring")), HasSubstr("2..64"));
  EXPECT_THAT(complaint(of(16, "all_reduce", "")), HasSubstr("must be named"));
  auto outcome = run(of(16, "all_reduce", "ring"), builtin_registry());
  ASSERT_TRUE(std::holds_alternative<RunError>(outcome));
  EXPECT_THAT(to_string(std::get<RunError>(outcome)[0]), HasSubstr("take_seat"));
}

}  // namespace
}  // namespace spindrift::sim
