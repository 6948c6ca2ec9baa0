#include "sim/workload.h"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "sim/flow_files.h"
#include "sim/natural_log.h"
#include "sim/size_distribution.h"

namespace spindrift::sim {
namespace {

constexpr WorkloadWorld kWorld{.hosts = 16, .host_rate_bps = 100'000'000'000};

FlowPlans flows_of(const WorkloadSpec& spec, std::uint64_t seed = 1) {
  auto planned = plan_workload(spec, kWorld, seed);
  if (const auto* complaints = std::get_if<std::vector<Complaint>>(&planned)) {
    for (const Complaint& one : *complaints)
      ADD_FAILURE() << to_string(one);
    return {};
  }
  return std::get<FlowPlans>(std::move(planned));
}

TEST(Workload, PermutationHasEveryHostSendAndReceiveOnce) {
  const FlowPlans flows = flows_of({.name = "permutation"});
  std::set<std::uint32_t> sources;
  std::set<std::uint32_t> destinations;
  for (const FlowPlan& flow : flows) {
    EXPECT_NE(flow.source, flow.destination);
    sources.insert(flow.source);
    destinations.insert(flow.destination);
  }
  EXPECT_EQ(sources.size(), 16U);
  EXPECT_EQ(destinations.size(), 16U);
}

TEST(Workload, IncastDrawsDifferentSenders) {
  const FlowPlans flows = flows_of({.name = "incast", .destination = 3, .fan_in = 15});
  std::set<std::uint32_t> sources;
  for (const FlowPlan& flow : flows) {
    EXPECT_EQ(flow.destination, 3U);
    sources.insert(flow.source);
  }
  EXPECT_EQ(sources.size(), 15U);
  EXPECT_FALSE(sources.contains(3));
}

TEST(Workload, IncastMayStartOneAfterAnother) {
  const FlowPlans flows = flows_of({.name = "incast", .fan_in = 3, .stagger = kMicrosecond});
  ASSERT_EQ(flows.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(flows[i].start, static_cast<Picoseconds>(i) * kMicrosecond);
}

TEST(Workload, TheLogarithmIsTheLibrarys) {
  double x = 0x1.0p-54;
  for (int i = 0; i < 150; ++i, x *= 1.37)
    EXPECT_NEAR(natural_log(x), std::log(x), 1e-15 * std::max(1.0, std::abs(std::log(x)))) << x;
  EXPECT_EQ(natural_log(1), 0);
}

TEST(Workload, AllToAllKeepsItsWindow) {
  const FlowPlans flows = flows_of({.name = "all_to_all", .window = 4});
  EXPECT_EQ(flows.size(), 240U);
  std::size_t startable = 0;
  for (const FlowPlan& flow : flows)
    if (flow.awaits == 0) ++startable;
  EXPECT_EQ(startable, 64U);
}

// What it waits for must have come to the host that goes on.
TEST(Workload, RingSendsOnWhatArrived) {
  const FlowPlans flows = flows_of({.name = "ring_all_reduce", .bytes = 1'600'000});
  EXPECT_EQ(flows.size(), 16U * 30);
  std::uint64_t bytes = 0;
  for (const FlowPlan& flow : flows) {
    bytes += flow.bytes;
    for (const std::uint32_t next : flow.after_delivery)
      EXPECT_EQ(flows[next].source, flow.destination);
  }
  EXPECT_EQ(bytes, 30U * 1'600'000);
}

TEST(Workload, TreeGoesUpAndDown) {
  const FlowPlans flows =
      flows_of({.name = "tree_all_reduce", .bytes = 1 << 20, .chunk_bytes = 256 << 10});
  EXPECT_EQ(flows.size(), 4U * 30);
  for (const FlowPlan& flow : flows)
    for (const std::uint32_t next : flow.after_delivery)
      EXPECT_EQ(flows[next].source, flow.destination);
}

TEST(Workload, TrainingStepComputesBeforeItsFirstBucketAlone) {
  WorkloadSpec spec{.name = "training_step", .bytes = 1 << 20};
  spec.repeats = 2;
  spec.buckets = 3;
  const FlowPlans flows = flows_of(spec);
  EXPECT_EQ(flows.size(), 2U * 3 * 16 * 30);
  std::size_t gaps = 0;
  for (const FlowPlan& flow : flows)
    if (flow.start == spec.compute_gap) ++gaps;
  EXPECT_EQ(gaps, 2U * 16);
}

TEST(Workload, RandomPairsLoadTheHostsAsAskedFor) {
  WorkloadSpec spec{.name = "random_pairs", .flows = 200'000, .load = 0.4};
  const FlowPlans flows = flows_of(spec);
  double bytes = 0;
  for (const FlowPlan& flow : flows)
    bytes += static_cast<double>(flow.bytes);
  const double seconds = static_cast<double>(flows.back().start) / 1e12;
  EXPECT_NEAR(bytes * 8 / seconds / 16e11, 0.4, 0.02);
}

TEST(SizeDistribution, DrawsItsMean) {
  for (const char* name : {"web_search", "data_mining"}) {
    const auto sizes = find_size_distribution(name);
    ASSERT_TRUE(sizes.ok());
    Rng rng(1);
    double sum = 0;
    constexpr int kDraws = 2'000'000;
    for (int i = 0; i < kDraws; ++i)
      sum += static_cast<double>(sizes.value().draw(rng));
    EXPECT_NEAR(sum / kDraws, sizes.value().mean_bytes(), 0.03 * sizes.value().mean_bytes())
        << name;
  }
}

TEST(Workload, RefusesHostsThatDoNotExistAndFlowsToThemselves) {
  for (const WorkloadSpec& spec :
       {WorkloadSpec{.name = "one_flow", .source = 16},
        WorkloadSpec{.name = "one_flow", .source = 2, .destination = 2},
        WorkloadSpec{.name = "incast", .fan_in = 16}, WorkloadSpec{.name = "nonsense"},
        WorkloadSpec{.name = "random_pairs", .sizes = "no such file"}}) {
    const auto planned = plan_workload(spec, kWorld, 1);
    ASSERT_TRUE(std::holds_alternative<std::vector<Complaint>>(planned)) << spec.name;
    EXPECT_EQ(std::get<std::vector<Complaint>>(planned).size(), 1U) << spec.name;
  }
}

TEST(Matrix, ReadsFlowsThatTriggerEachOther) {
  const auto parsed = parse_matrix(
      "Nodes 4\nConnections 3\nTriggers 2\n0->1 id 1 start 5 size 1000 send_done_trigger 7\n"
      "1->2 id 2 trigger 7 size 2000 recv_done_trigger 8\n2->3 id 3 trigger 8 size 3000 prio 2\n"
      "trigger id 7 oneshot\ntrigger id 8 barrier count 1\n",
      "x.cm", 4);
  ASSERT_TRUE(std::holds_alternative<FlowPlans>(parsed));
  const auto& flows = std::get<FlowPlans>(parsed);
  ASSERT_EQ(flows.size(), 3U);
  EXPECT_EQ(flows[0].start, 5 * kMicrosecond);
  EXPECT_EQ(flows[0].after_finish, std::vector<std::uint32_t>{1});
  EXPECT_EQ(flows[1].awaits, 1U);
  EXPECT_EQ(flows[1].after_delivery, std::vector<std::uint32_t>{2});
  EXPECT_EQ(flows[2].bytes, 3000U);
}

TEST(Matrix, NamesTheLineThatItCannotRead) {
  for (const char* text :
       {"0->9 id 1 start 0 size 10\n", "0->0 id 1 start 0 size 10\n", "0->1 id 1 start 0\n",
        "0->1 id 1 size 10 trigger 3\n", "0->1 size ten\n", "Nodes 40\n", "Failures 1\n",
        "0->1 id 1 size 10 colour 3\n", "trigger id 1 sometimes\n"}) {
    const auto parsed = parse_matrix(text, "x.cm", 4);
    ASSERT_TRUE(std::holds_alternative<std::vector<Complaint>>(parsed)) << text;
    EXPECT_EQ(std::get<std::vector<Complaint>>(parsed)[0].key.substr(0, 5), "x.cm:") << text;
  }
}

TEST(FlowList, ReadsALinePerFlow) {
  const auto parsed = parse_flow_list("# from to bytes start\n0 1 1000 0\n1 2 500 1000\n", "f", 4);
  ASSERT_TRUE(std::holds_alternative<FlowPlans>(parsed));
  EXPECT_EQ(std::get<FlowPlans>(parsed)[1].start, 1000);
  EXPECT_TRUE(std::holds_alternative<std::vector<Complaint>>(parse_flow_list("0 1 5\n", "f", 4)));
}

}  // namespace
}  // namespace spindrift::sim
