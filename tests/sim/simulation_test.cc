// Whole runs: real endpoints in a simulated network, against arithmetic.
#include "sim/simulation.h"

#include <algorithm>
#include <cstdio>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spindrift/open.h"

namespace spindrift::sim {
namespace {

// Frames of 4160 and 64 bytes: 332.8 ns and 5.12 ns at 100 Gb/s.
Scenario plain_scenario() {
  Scenario scenario;
  scenario.transport.frame_overhead_bytes = 8;
  scenario.transport.min_frame_bytes = 64;
  scenario.transport.path_count = 16;
  return scenario;
}

Results run_well(const Scenario& scenario) {
  auto outcome = run(scenario, builtin_registry());
  if (const auto* complaints = std::get_if<RunError>(&outcome)) {
    for (const Complaint& one : *complaints)
      ADD_FAILURE() << to_string(one);
    return {};
  }
  return std::get<Results>(std::move(outcome));
}

Picoseconds last_finish(const Results& results) {
  Picoseconds last = 0;
  for (const FlowRecord& flow : results.flows) {
    EXPECT_TRUE(flow.is_done()) << flow.source << "->" << flow.destination << flow.error;
    last = std::max(last, flow.finish);
  }
  return last;
}

struct OneFlow {
  const char* topology;
  std::uint64_t gbps;
  std::uint64_t bytes;
  Picoseconds links;
};
void PrintTo(const OneFlow& flow, std::ostream* out) {
  *out << flow.topology << ", " << flow.gbps << " Gb/s, " << flow.bytes << " bytes";
}

class OneFlowTime : public testing::TestWithParam<OneFlow> {};

// (packets + links - 1) serialisations and the links' delays there; the acknowledgement's on every
// link back.
TEST_P(OneFlowTime, IsExactToThePicosecond) {
  const OneFlow& given = GetParam();
  Scenario scenario = plain_scenario();
  scenario.topology.name = given.topology;
  scenario.topology.hosts_per_leaf = 2;
  scenario.topology.host_link.rate_bps = given.gbps * 1'000'000'000;
  scenario.topology.fabric_link.rate_bps = given.gbps * 1'000'000'000;
  scenario.workload.name = "one_flow";
  scenario.workload.bytes = given.bytes;
  scenario.workload.destination = given.links == 1 ? 1 : 15;
  scenario.transport.congestion_control = "fixed_window:window_bytes=1000000";
  const Results results = run_well(scenario);
  const auto ps_per_byte = static_cast<Picoseconds>(8000 / given.gbps);
  const auto packets = static_cast<Picoseconds>(given.bytes / 4096);
  const Picoseconds expected = (packets + given.links - 1) * 4160 * ps_per_byte +
                               given.links * kMicrosecond +
                               given.links * (kMicrosecond + 64 * ps_per_byte);
  ASSERT_EQ(results.flows.size(), 1U);
  EXPECT_EQ(results.flows[0].finish, expected);
  EXPECT_EQ(results.flows[0].ideal, expected);
}

INSTANTIATE_TEST_SUITE_P(Networks, OneFlowTime,
                         testing::Values(OneFlow{"two_hosts", 100, 16 << 20, 1},
                                         OneFlow{"leaf_spine", 100, 16 << 20, 4},
                                         OneFlow{"leaf_spine", 400, 16 << 20, 4},
                                         OneFlow{"fat_tree", 100, 16 << 20, 6}));

// Nothing is better than the bottleneck allows, and what is sent for a crowd comes near it.
TEST(Simulation, IncastComesNearTheBoundOfItsLastLinkAndNeverBelow) {
  Scenario scenario = plain_scenario();
  scenario.workload.name = "incast";
  scenario.workload.fan_in = 15;
  scenario.workload.bytes = 1 << 20;
  const Results results = run_well(scenario);
  // Of 15 x 256 packets on the last link; the nearest senders are two links away.
  const Picoseconds packets = 15 * 256;
  const Picoseconds bound = (packets + 1) * 332'800 + 2 * kMicrosecond + 2 * (kMicrosecond + 5'120);
  EXPECT_GE(last_finish(results), bound);
  EXPECT_LT(last_finish(results), bound * 103 / 100);
}

// Published results of the public Ultra Ethernet simulator: uet.md B.7, 2 MB to one of 16 and of
// 128 hosts, frames of 4150 bytes. The bound: all of it on the last link.
struct PublishedIncast {
  std::uint32_t hosts = 0;
  const char* algorithm = "";
  double published_us = 0;
};
void PrintTo(const PublishedIncast& incast, std::ostream* out) {
  *out << incast.hosts << " hosts, " << incast.algorithm;
}

class PublishedIncasts : public testing::TestWithParam<PublishedIncast> {};

TEST_P(PublishedIncasts, EndWithinThreePercentOfWhatIsPublishedAndAboveTheBound) {
  const PublishedIncast& given = GetParam();
  Scenario scenario = plain_scenario();
  scenario.topology.name = "fat_tree";
  scenario.topology.radix = given.hosts == 16 ? 4 : 8;
  scenario.topology.hosts = given.hosts;
  scenario.workload.name = "incast";
  scenario.workload.fan_in = given.hosts - 1;
  scenario.workload.bytes = 2'000'000;
  scenario.transport.congestion_control = given.algorithm;
  scenario.transport.path_count = 128;
  const Results results = run_well(scenario);
  const double end_us = static_cast<double>(last_finish(results)) / kMicrosecond;
  const double bound_us = (given.hosts - 1) * 2'000'000.0 * (4160.0 / 4096) * 8 / 100e3;
  EXPECT_GT(end_us, bound_us);
  EXPECT_LT(end_us, bound_us * 1.03);
  EXPECT_NEAR(end_us / given.published_us, 1, 0.03);
}

INSTANTIATE_TEST_SUITE_P(Simulation, PublishedIncasts,
                         testing::Values(PublishedIncast{16, "nscc", 2478.5},
                                         PublishedIncast{16, "receiver_credit", 2464.4},
                                         PublishedIncast{16, "nscc+receiver_credit", 2462.9},
                                         PublishedIncast{128, "nscc", 21029},
                                         PublishedIncast{128, "receiver_credit", 20891},
                                         PublishedIncast{128, "nscc+receiver_credit", 20892}));

TEST(Simulation, FlowsThroughOneBottleneckShareIt) {
  for (const char* algorithm : {"nscc", "dcqcn"}) {
    Scenario scenario = plain_scenario();
    scenario.topology.name = "dumbbell";
    scenario.topology.hosts = 8;
    scenario.workload.name = "flow_list";
    scenario.workload.file = testing::TempDir() + "flows.txt";
    std::ofstream(scenario.workload.file)
        << "0 4 2000000000 0\n1 5 2000000000 0\n2 6 2000000000 0\n3 7 2000000000 0\n";
    scenario.transport.congestion_control = algorithm;
    scenario.end = 20 * kMillisecond;
    scenario.sample_every = kMillisecond;
    const Results results = run_well(scenario);
    // The second half of 20 ms.
    std::vector<double> begin(4, 0);
    std::vector<double> end(4, 0);
    for (const FlowSample& sample : results.flow_samples) {
      if (sample.at == 10 * kMillisecond)
        begin[sample.flow] = static_cast<double>(sample.received_bytes);
      end[sample.flow] = static_cast<double>(sample.received_bytes);
    }
    double sum = 0;
    double squares = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      sum += end[i] - begin[i];
      squares += (end[i] - begin[i]) * (end[i] - begin[i]);
    }
    EXPECT_GT(sum * sum / (4 * squares), 0.98) << algorithm;
  }
}

// 2(n-1)/n * S/B, and 2(n-1) times the path.
TEST(Simulation, RingAllReduceTakesNoLessThanItsBound) {
  Scenario scenario = plain_scenario();
  scenario.topology.hosts_per_leaf = 16;
  scenario.workload.name = "ring_all_reduce";
  scenario.workload.bytes = 16 << 20;
  const Results results = run_well(scenario);
  Picoseconds delivered = 0;
  for (const FlowRecord& flow : results.flows)
    delivered = std::max(delivered, flow.delivered);
  const Picoseconds chunk_time = (256 + 1) * 332'800 + 2 * kMicrosecond;
  // The last step has nobody that waits for it.
  EXPECT_GE(delivered, 29 * chunk_time);
  EXPECT_GE(last_finish(results), 30 * chunk_time);
  EXPECT_LT(last_finish(results), 30 * chunk_time * 105 / 100);
}

TEST(Simulation, PausesInsteadOfLosingWithPfc) {
  Scenario scenario = plain_scenario();
  scenario.workload.name = "incast";
  scenario.workload.bytes = 1 << 20;
  scenario.network.has_pfc = true;
  scenario.network.trims = false;
  scenario.network.xoff_bytes = 100'000;
  scenario.transport.congestion_control = "fixed_window:window_bytes=1000000";
  const Results fixed = run_well(scenario);
  EXPECT_GT(last_finish(fixed), 0);
  EXPECT_EQ(fixed.total.drops_full, 0U);
  EXPECT_GT(fixed.pauses_sent, 100U);
  EXPECT_TRUE(fixed.deadlocks.empty());
}

TEST(Simulation, ReportsFlowsThatDidNotFinish) {
  Scenario scenario = plain_scenario();
  scenario.end = 50 * kMicrosecond;
  const Results results = run_well(scenario);
  EXPECT_EQ(results.simulated, 50 * kMicrosecond);
  for (const FlowRecord& flow : results.flows)
    EXPECT_FALSE(flow.is_done());
}

TEST(Simulation, RefusesAMatrixWhoseFlowsWaitForEachOther) {
  Scenario scenario = plain_scenario();
  scenario.workload.name = "matrix";
  scenario.workload.file = testing::TempDir() + "circle.cm";
  std::ofstream(scenario.workload.file)
      << "Nodes 16\n0->1 id 1 trigger 2 size 10 send_done_trigger 1\n"
         "1->0 id 2 trigger 1 size 10 send_done_trigger 2\n"
         "trigger id 1 oneshot\ntrigger id 2 oneshot\n";
  const auto outcome = run(scenario, builtin_registry());
  ASSERT_TRUE(std::holds_alternative<RunError>(outcome));
  EXPECT_EQ(std::get<RunError>(outcome)[0].key, "workload");
}

TEST(Simulation, RepeatsFromItsSeed) {
  Scenario scenario = plain_scenario();
  scenario.workload.bytes = 1 << 20;
  const Results first = run_well(scenario);
  const Results again = run_well(scenario);
  scenario.seed = 2;
  const Results other = run_well(scenario);
  EXPECT_EQ(first.history, again.history);
  EXPECT_EQ(last_finish(first), last_finish(again));
  EXPECT_NE(first.history, other.history);
}

// A window that one packet leaves too little of for another: the acknowledgement must come at once,
// or every packet waits for the probe of a silent tail.
TEST(Simulation, AWindowOfNearlyTwoPacketsDoesNotStall) {
  Scenario scenario = plain_scenario();
  scenario.workload.name = "one_flow";
  scenario.workload.bytes = 100 * 4096;
  scenario.transport.congestion_control = "fixed_window:window_bytes=8390";
  const Results results = run_well(scenario);
  EXPECT_LT(last_finish(results), 100 * 10 * kMicrosecond);
}

TEST(Simulation, CarriesEveryByteWhenAskedTo) {
  Scenario scenario = plain_scenario();
  scenario.workload.name = "all_to_all";
  scenario.workload.bytes = 100'001;
  scenario.transport.carries_payload = true;
  scenario.transport.has_crc = true;
  const Results results = run_well(scenario);
  EXPECT_GT(last_finish(results), 0);
  EXPECT_EQ(results.payload_errors, 0U);
}

TEST(Simulation, LosesNoFlowWhenALinkIsCut) {
  Scenario scenario = plain_scenario();
  scenario.faults = {
      {.kind = FaultSpec::Kind::kDown, .from = "leaf0", .to = "spine0", .at = 50 * kMicrosecond}};
  scenario.transport.carries_payload = true;
  const Results results = run_well(scenario);
  EXPECT_GT(last_finish(results), 0);
  EXPECT_GT(results.total.drops_down, 0U);
  EXPECT_EQ(results.payload_errors, 0U);
}

class AdaptivePolicy : public testing::TestWithParam<const char*> {};

// Bytes that arrived from `from` to `until`, as the samples tell.
double goodput_gbps(const Results& results, Picoseconds from, Picoseconds until) {
  const auto received_at = [&](Picoseconds at) {
    std::uint64_t sum = 0;
    for (const FlowSample& sample : results.flow_samples)
      if (sample.at == at) sum += sample.received_bytes;
    return sum;
  };
  return static_cast<double>((received_at(until) - received_at(from)) * 8) * 1e3 /
         static_cast<double>(until - from);
}

// One of four links of a leaf goes dark for the rest of the run.
TEST_P(AdaptivePolicy, HasTheGoodputBackWithin100UsOfACut) {
  constexpr Picoseconds kCut = 100 * kMicrosecond;
  Scenario scenario = plain_scenario();
  scenario.workload.bytes = 16 << 20;
  scenario.transport.path_count = 64;
  scenario.transport.path_selector = GetParam();
  scenario.sample_every = 20 * kMicrosecond;
  scenario.faults = {{.kind = FaultSpec::Kind::kDown, .from = "leaf0", .to = "spine0", .at = kCut}};
  double soon = 0;
  double later = 0;
  constexpr std::uint64_t kSeeds = 4;
  for (scenario.seed = 1; scenario.seed <= kSeeds; ++scenario.seed) {
    const Results results = run_well(scenario);
    EXPECT_GT(last_finish(results), kMillisecond);
    EXPECT_GT(results.total.drops_down, 0U);
    soon += goodput_gbps(results, kCut + 100 * kMicrosecond, kCut + 200 * kMicrosecond) / kSeeds;
    later += goodput_gbps(results, kCut + 400 * kMicrosecond, kCut + 800 * kMicrosecond) / kSeeds;
  }
  EXPECT_GT(soon, 0.92 * later) << later;
  std::printf("%s: %.0f Gb/s 100 to 200 us after the cut, %.0f later\n", GetParam(), soon, later);
}

INSTANTIATE_TEST_SUITE_P(Policies, AdaptivePolicy,
                         testing::Values("bitmap", "reps", "mixed", "least_rtt"),
                         [](const auto& one) { return std::string(one.param); });

TEST(Simulation, SendsTrimmedPacketsAgainWithoutATimeout) {
  Scenario scenario = plain_scenario();
  scenario.workload.name = "incast";
  scenario.workload.bytes = 1 << 20;
  const Results results = run_well(scenario);
  EXPECT_GT(last_finish(results), 0);
  EXPECT_GT(results.total.trims, 0U);
  EXPECT_EQ(results.total.drops_full, 0U);
  std::uint64_t retransmits = 0;
  for (const FlowRecord& flow : results.flows) {
    retransmits += flow.retransmits_trimmed;
    EXPECT_EQ(flow.retransmits_timeout, 0U);
  }
  EXPECT_EQ(retransmits, results.total.trims);
}

// Every plane is a network of its own: what was meant for another would be lost.
TEST(Simulation, KeepsThePlanesOfANicApart) {
  Scenario scenario = plain_scenario();
  scenario.topology.name = "multi_plane";
  scenario.workload.name = "one_flow";
  scenario.workload.destination = 15;
  scenario.transport.congestion_control = "fixed_window:window_bytes=1000000";
  const Results results = run_well(scenario);
  EXPECT_EQ(results.flows[0].packets_sent, results.flows[0].bytes / 4096);
  EXPECT_LT(last_finish(results), results.flows[0].ideal * 11 / 10);
}

TEST(Simulation, SaysWhatIsWrongWithAScenario) {
  Scenario scenario = plain_scenario();
  scenario.topology.host_link.rate_bps = 0;
  scenario.transport.congestion_control = "no_such";
  scenario.transport.payload_mtu = 1000;
  const auto outcome = run(scenario, builtin_registry());
  ASSERT_TRUE(std::holds_alternative<RunError>(outcome));
  std::vector<std::string> keys;
  for (const Complaint& one : std::get<RunError>(outcome))
    keys.push_back(one.key);
  EXPECT_THAT(
      keys, testing::UnorderedElementsAre("topology.host_link.rate_bps",
                                          "transport.congestion_control", "transport.payload_mtu"));
}

}  // namespace
}  // namespace spindrift::sim
