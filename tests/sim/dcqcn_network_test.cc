// DCQCN on a simulated network against the fluid model of its paper (Zhu et al., SIGCOMM 2015): the
// table of uet.md C.1, for frames of 1000 bytes, 40 Gb/s, Kmin 5 KB, Kmax 200 KB, Pmax 1 %.
#include <algorithm>
#include <fstream>

#include <gtest/gtest.h>

#include "spindrift/open.h"

#include "sim/simulation.h"
#include "tests/sim/link_averages.h"

namespace spindrift::sim {
namespace {

// Instances of dcqcn as they are made, so that their state can be read while they work.
struct Watched {
  std::vector<CongestionControl*> instances{};
  bool has_slow_starters = false;  // every second one begins at 5 Gb/s
};

class Names final : public StateWriter {
 public:
  explicit Names(std::string_view wanted) : wanted_(wanted) {}
  void field(std::string_view name, double value) override {
    if (name == wanted_) found = value;
  }
  double found = 0;

 private:
  std::string_view wanted_;
};

double state_of(const CongestionControl& cc, std::string_view name) {
  Names names(name);
  cc.describe(names);
  return names.found;
}

const CcInfo& dcqcn() {
  for (const CcInfo& info : builtin_registry().congestion_controls())
    if (info.name == "dcqcn") return info;
  ADD_FAILURE() << "there is no dcqcn";
  return builtin_registry().congestion_controls().front();
}

std::unique_ptr<CongestionControl> make_watched(const void* origin, const FlowInfo& flow,
                                                std::span<const double> values) {
  auto& watched = *const_cast<Watched*>(static_cast<const Watched*>(origin));
  FlowInfo given = flow;
  const bool is_slow = watched.has_slow_starters && watched.instances.size() % 2 == 1;
  if (is_slow) given.link_rate = Rate::gbps(10);
  auto cc = dcqcn().make(given, values);
  if (is_slow) {  // its first cut halves; then its link is as fast as that of the other
    (void)cc->on_signal(flow.now, CongestionNotification{});
    (void)cc->on_signal(flow.now, PathChanged{flow.base_rtt, Rate::bits_per_second(5'000'100'000)});
    (void)cc->on_signal(flow.now, PathChanged{flow.base_rtt, flow.link_rate});
  }
  watched.instances.push_back(cc.get());
  return cc;
}

Registry registry_of(Watched& watched) {
  Registry out = builtin_registry();
  CcInfo info = dcqcn();
  info.name = "watched";
  info.make = nullptr;
  info.make_from = &make_watched;
  info.origin = &watched;
  out.add(info);
  return out;
}

// The model has means where flows have steps. Its fixed point depends on the rate per flow alone,
// so every flow stands here so many times, on a link, and at thresholds, so many times as large.
constexpr std::uint64_t kCopies = 5;

// Hosts 0..n-1 send to hosts n..2n-1 through one link, for ever.
Scenario through_one_link(std::uint32_t flows_of_one) {
  const auto flows = static_cast<std::uint32_t>(flows_of_one * kCopies);
  Scenario scenario;
  scenario.topology.name = "dumbbell";
  scenario.topology.hosts = 2 * flows;
  for (LinkSpec* link : {&scenario.topology.host_link, &scenario.topology.fabric_link}) {
    link->rate_bps = 40'000'000'000;
    link->delay = 600 * kNanosecond;
  }
  scenario.topology.fabric_link.rate_bps *= kCopies;
  scenario.network.queue_bytes = 4'000'000 * kCopies;
  scenario.network.kmin_bytes = 5'000 * kCopies;
  scenario.network.kmax_bytes = 200'000 * kCopies;
  scenario.network.pmax = 0.01;
  scenario.transport.congestion_control = "watched";
  scenario.transport.path_selector = "single";
  scenario.transport.path_count = 1;
  scenario.transport.payload_mtu = 896;
  scenario.transport.frame_overhead_bytes = 48;  // a full frame is 1000 bytes
  scenario.transport.min_frame_bytes = 64;
  scenario.workload.name = "flow_list";
  scenario.workload.file = testing::TempDir() + "dcqcn_flows_" + std::to_string(flows) + ".txt";
  std::ofstream file(scenario.workload.file);
  for (std::uint32_t i = 0; i < flows; ++i)
    file << i << ' ' << flows + i << " 100000000000 "
         << "0\n";
  return scenario;
}

struct FixedPoint {
  std::uint32_t flows = 0;
  double probability = 0;
  double alpha = 0;
  double queue_bytes = 0;
  // Where the ramp ends, with its slope as it is.
  std::uint64_t kmax_bytes = 200'000;
};

class DcqcnNetwork : public testing::TestWithParam<FixedPoint> {};

TEST_P(DcqcnNetwork, SettlesWithin15PercentOfTheFluidModelsFixedPoint) {
  const FixedPoint& expected = GetParam();
  Scenario scenario = through_one_link(expected.flows);
  scenario.network.kmax_bytes = expected.kmax_bytes * kCopies;
  scenario.network.pmax = 0.01 * static_cast<double>(expected.kmax_bytes - 5'000) / 195'000;
  scenario.end = 120 * kMillisecond;
  Watched watched;
  LinkAverages link("switch0", "switch1", {.from = 80 * kMillisecond});
  double alpha_sum = 0;
  double alphas = 0;
  link.on_departure = [&] {
    if (link.packets() % 1000 != 0) return;
    for (const CongestionControl* cc : watched.instances) {
      const double alpha = state_of(*cc, "alpha");
      if (alpha == 1) continue;  // of a receiver, which sends nothing
      alpha_sum += alpha;
      ++alphas;
    }
  };
  const auto outcome = run(scenario, registry_of(watched), {.observer = &link});
  ASSERT_TRUE(std::holds_alternative<Results>(outcome));
  RecordProperty("queue_bytes", std::to_string(link.mean_queue_bytes() / kCopies));
  EXPECT_NEAR(link.marked_share() / expected.probability, 1, 0.15);
  EXPECT_NEAR(alpha_sum / alphas / expected.alpha, 1, 0.15);
  EXPECT_NEAR(link.mean_queue_bytes() / kCopies / expected.queue_bytes, 1, 0.15);
  const auto& total = std::get<Results>(outcome).total;
  EXPECT_EQ(total.drops_full + total.trims, 0U);
}

// Ten flows swing by 80 KB around their fixed point, with a period of about 2.5 ms: up to the 200
// KB where everything is marked, and from there down to nothing. Here the ramp goes on.
INSTANTIATE_TEST_SUITE_P(At40Gbps, DcqcnNetwork,
                         testing::Values(FixedPoint{2, 7.77e-4, 0.101, 20.2e3},
                                         FixedPoint{4, 1.89e-3, 0.122, 41.8e3},
                                         FixedPoint{8, 4.55e-3, 0.145, 93.8e3},
                                         FixedPoint{10, 6.03e-3, 0.153, 122.6e3, 800'000}),
                         [](const auto& row) { return std::to_string(row.param.flows) + "flows"; });

// Mean rates around some instants, of flows that start at line rate and of as many that start at
// 5 Gb/s. The first is left out: the model's start has no counterpart in single cuts by half.
TEST(DcqcnNetworkConvergence, TwoFlowsApproachEachOtherAsFastAsInTheFluidModel) {
  struct Row {
    Picoseconds from_ms = 0;
    Picoseconds to_ms = 0;
    double gbps[2] = {};  // fast, slow
  };
  constexpr Row kRows[] = {{4, 6, {31.9, 8.1}},    {9, 11, {29.0, 11.0}},  {18, 22, {24.7, 15.3}},
                           {27, 33, {22.3, 17.7}}, {45, 55, {20.4, 19.6}}, {72, 88, {20.0, 20.0}}};
  Scenario scenario = through_one_link(2);
  scenario.sample_every = kMillisecond;
  scenario.end = 90 * kMillisecond;
  Watched watched{.has_slow_starters = true};
  const auto outcome = run(scenario, registry_of(watched));
  ASSERT_TRUE(std::holds_alternative<Results>(outcome));
  std::vector<bool> is_slow(2 * kCopies);
  double gbps[std::size(kRows)][2] = {};
  constexpr double kUdpShare = 0.952;  // of a frame
  for (const FlowSample& sample : std::get<Results>(outcome).flow_samples) {
    if (sample.at == 0) is_slow[sample.flow] = sample.pacing_bps < 10'000'000'000;
    for (std::size_t i = 0; i < std::size(kRows); ++i) {
      const double seconds = static_cast<double>(kRows[i].to_ms - kRows[i].from_ms) * 1e-3;
      const double share =
          static_cast<double>(sample.received_bytes) * 8e-9 / kUdpShare / seconds / kCopies;
      if (sample.at == kRows[i].to_ms * kMillisecond) gbps[i][is_slow[sample.flow]] += share;
      if (sample.at == kRows[i].from_ms * kMillisecond) gbps[i][is_slow[sample.flow]] -= share;
    }
  }
  ASSERT_EQ(std::count(is_slow.begin(), is_slow.end(), true), kCopies);
  for (std::size_t i = 0; i < std::size(kRows); ++i) {
    EXPECT_NEAR(gbps[i][0], kRows[i].gbps[0], 3) << kRows[i].from_ms << " ms";
    EXPECT_NEAR(gbps[i][1], kRows[i].gbps[1], 3) << kRows[i].from_ms << " ms";
  }
}

// What pauses are left of those that senders without control cause.
TEST(DcqcnNetworkPauses, FallByMoreThan90PercentInAnIncast) {
  Scenario scenario;
  scenario.network = {.queue_bytes = 4'000'000,
                      .trims = false,
                      .kmin_bytes = 5'000,
                      .kmax_bytes = 200'000,
                      .pmax = 0.01,
                      .has_pfc = true,
                      .xoff_bytes = 100'000};
  for (LinkSpec* link : {&scenario.topology.host_link, &scenario.topology.fabric_link})
    link->rate_bps = 40'000'000'000;
  scenario.transport.path_selector = "single";
  scenario.transport.path_count = 1;
  scenario.workload.name = "incast";
  scenario.workload.fan_in = 8;
  scenario.workload.bytes = 64U << 20U;
  scenario.end = 20 * kMillisecond;
  std::uint64_t pauses[2] = {};
  for (const bool has_dcqcn : {false, true}) {
    scenario.transport.congestion_control =
        has_dcqcn ? "dcqcn" : "fixed_window:window_bytes=10000000";
    const auto outcome = run(scenario, builtin_registry());
    ASSERT_TRUE(std::holds_alternative<Results>(outcome));
    const auto& results = std::get<Results>(outcome);
    pauses[has_dcqcn ? 1 : 0] = results.pauses_sent;
    EXPECT_EQ(results.total.drops_full, 0U);
  }
  EXPECT_GT(pauses[0], 1000U);
  EXPECT_LT(pauses[1] * 10, pauses[0]);
}

}  // namespace
}  // namespace spindrift::sim
