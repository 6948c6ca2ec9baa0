// Hosts far apart are simulated one after another within a link's delay, for the sake of the
// caches. Nothing that a run tells may depend on it.
#include <gtest/gtest.h>

#include "spindrift/open.h"

#include "sim/simulation.h"

namespace spindrift::sim {
namespace {

struct Case {
  const char* name;
  Scenario scenario;
};

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.name;
}

Scenario busy_scenario() {
  Scenario scenario;
  scenario.topology.hosts = 32;
  scenario.workload.bytes = 1 << 20;
  scenario.transport.path_count = 32;
  return scenario;
}

std::vector<Case> cases() {
  Case marked{"marked", busy_scenario()};
  marked.scenario.workload.name = "all_to_all";
  marked.scenario.workload.bytes = 100'000;
  marked.scenario.transport.congestion_control = "dcqcn";
  Case paused{"paused", busy_scenario()};
  paused.scenario.workload.name = "incast";
  paused.scenario.network.has_pfc = true;
  paused.scenario.transport.congestion_control = "fixed_window";
  Case shared{"shared_buffers_and_losses", busy_scenario()};
  shared.scenario.topology.name = "fat_tree";
  shared.scenario.topology.hosts = 0;
  shared.scenario.network.buffer = BufferKind::kShared;
  shared.scenario.network.shared_bytes = 1 << 20;
  shared.scenario.faults = {{.kind = FaultSpec::Kind::kLoss, .from = "host0", .value = 0.02}};
  Case cut{"cut_and_sampled", busy_scenario()};
  cut.scenario.sample_every = 3 * kMicrosecond;
  cut.scenario.faults = {{.kind = FaultSpec::Kind::kDown,
                          .from = "leaf0",
                          .to = "spine1",
                          .at = 7 * kMicrosecond + 123}};
  Case credit{"several_planes_and_credit", busy_scenario()};
  credit.scenario.topology.name = "multi_plane";
  credit.scenario.workload.name = "random_pairs";
  credit.scenario.transport.congestion_control = "nscc+receiver_credit";
  credit.scenario.end = 500 * kMicrosecond;
  Case joined{"flows_that_start_each_other", busy_scenario()};
  joined.scenario.workload.name = "ring_all_reduce";
  Case cut_short{"cut_short", busy_scenario()};
  cut_short.scenario.end = 41 * kMicrosecond;
  return {marked, paused, shared, cut, credit, joined, cut_short};
}

Results run_well(const Scenario& scenario, bool is_in_order_of_time) {
  auto outcome = run(scenario, builtin_registry(), {.is_in_order_of_time = is_in_order_of_time});
  if (const auto* complaints = std::get_if<RunError>(&outcome)) {
    for (const Complaint& one : *complaints)
      ADD_FAILURE() << to_string(one);
    return {};
  }
  return std::get<Results>(std::move(outcome));
}

class Order : public testing::TestWithParam<Case> {};

TEST_P(Order, ChangesNothing) {
  const Results by_place = run_well(GetParam().scenario, false);
  const Results by_time = run_well(GetParam().scenario, true);
  EXPECT_GT(by_time.hops, 1000U);
  EXPECT_EQ(by_place.history, by_time.history);
  EXPECT_EQ(by_place.hops, by_time.hops);
  EXPECT_EQ(by_place.simulated, by_time.simulated);
  ASSERT_EQ(by_place.flows.size(), by_time.flows.size());
  for (std::size_t i = 0; i < by_time.flows.size(); ++i) {
    EXPECT_EQ(by_place.flows[i].finish, by_time.flows[i].finish) << i;
    EXPECT_EQ(by_place.flows[i].packets_sent, by_time.flows[i].packets_sent) << i;
  }
  ASSERT_EQ(by_place.ports.size(), by_time.ports.size());
  for (std::size_t i = 0; i < by_time.ports.size(); ++i) {
    const PortCounters& a = by_place.ports[i].counters;
    const PortCounters& b = by_time.ports[i].counters;
    EXPECT_EQ(a.packets, b.packets) << i;
    EXPECT_EQ(a.marks, b.marks) << i;
    EXPECT_EQ(a.paused, b.paused) << i;
    EXPECT_EQ(a.max_queue_bytes, b.max_queue_bytes) << i;
    EXPECT_EQ(a.mean_queue_bytes, b.mean_queue_bytes) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Scenarios, Order, testing::ValuesIn(cases()),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace spindrift::sim
