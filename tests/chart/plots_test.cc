// Plots from results made by hand: what is drawn where, and what is left out and why.
#include "tools/sim/plots/plots.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/chart/well_formed.h"

namespace spindrift::simtool {
namespace {

using sim::kMicrosecond;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t kRateBps = 8'000'000'000;  // a byte each nanosecond

sim::Scenario small_scenario() {
  sim::Scenario scenario;
  scenario.topology.name = "two_hosts";
  scenario.topology.host_link.rate_bps = kRateBps;
  scenario.workload.name = "one_flow";
  scenario.workload.bytes = 400'000;
  scenario.sample_every = kMicrosecond;
  return scenario;
}

// Half rate for 200 us, then full rate for 300 us.
std::uint64_t received_at(sim::Picoseconds at) {
  const auto us = static_cast<std::uint64_t>(at / kMicrosecond);
  return us <= 200 ? 500 * us : 100'000 + 1000 * (us - 200);
}

sim::Results small_results() {
  sim::Results results;
  results.simulated = 500 * kMicrosecond;
  results.flows.push_back({.source = 0,
                           .destination = 1,
                           .bytes = 400'000,
                           .finish = results.simulated,
                           .delivered = results.simulated,
                           .ideal = 402 * kMicrosecond});
  results.ports.push_back({.from = "host0", .to = "host1", .rate_bps = kRateBps});
  results.ports.push_back({.from = "host1", .to = "host0", .rate_bps = kRateBps});
  results.ports[0].counters.bytes = 400'000;
  for (sim::Picoseconds at = 0; at < results.simulated; at += kMicrosecond) {
    results.flow_samples.push_back({.at = at,
                                    .received_bytes = received_at(at),
                                    .window_bytes = 30'000,
                                    .in_flight_bytes = 20'000});
    results.port_samples.push_back({.at = at, .port = 0, .sent_bytes = received_at(at)});
    results.port_samples.push_back({.at = at, .port = 1});
  }
  for (std::uint32_t path = 0; path < 4; ++path)
    results.path_shares.push_back({.path = path, .packets = 10 + path});
  return results;
}

const Plot& named(const std::vector<Plot>& plots, std::string_view name) {
  static const Plot none;
  const auto found = std::find_if(plots.begin(), plots.end(),
                                  [name](const Plot& plot) { return plot.name == name; });
  EXPECT_NE(found, plots.end()) << name;
  return found == plots.end() ? none : *found;
}

std::vector<std::string> names_of(const std::vector<Plot>& plots) {
  std::vector<std::string> names;
  names.reserve(plots.size());
  for (const Plot& plot : plots)
    names.push_back(plot.name);
  return names;
}

const chart::LineChart& lines(const Plot& plot) {
  return std::get<chart::LineChart>(plot.chart);
}

// What a step line shows at a time.
double value_at(const chart::Series& series, sim::Picoseconds at) {
  double value = 0;
  for (const chart::Point& point : series.points)
    if (point.x <= static_cast<double>(at)) value = point.y;
  return value;
}

TEST(Plots, AreOneOfEachKindAndWellFormed) {
  const std::vector<Plot> plots = plots_of(small_scenario(), small_results());
  EXPECT_THAT(names_of(plots),
              ElementsAre("rates", "windows", "queues", "completion", "links", "paths"));
  for (const Plot& plot : plots)
    if (plot.missing.empty()) {
      const std::string svg = draw(plot, 600);
      EXPECT_EQ(chart::what_is_ill_formed(svg), "") << plot.name;
      EXPECT_LT(svg.size(), 200U * 1024) << plot.name;
      EXPECT_THAT(svg, Not(HasSubstr("nan"))) << plot.name;
    }
}

TEST(Plots, RatesAreWhatArrivedBetweenSamples) {
  const auto plots = plots_of(small_scenario(), small_results());
  const chart::Series& rate = lines(named(plots, "rates")).series.at(0);
  EXPECT_NEAR(value_at(rate, 100 * kMicrosecond), 4e9, 1e6);
  EXPECT_NEAR(value_at(rate, 300 * kMicrosecond), 8e9, 1e6);
  EXPECT_NEAR(value_at(rate, 499 * kMicrosecond), 8e9, 1e6);  // up to the delivery
  EXPECT_EQ(rate.points.back().y, 0);
  EXPECT_EQ(rate.points.back().x, 500e6);
}

TEST(Plots, ShowTheSpreadOfManyFlowsInsteadOfALineEach) {
  sim::Results results = small_results();
  const auto samples = results.flow_samples;
  for (std::uint32_t flow = 1; flow < 20; ++flow) {
    results.flows.push_back(results.flows[0]);
    results.flows.back().source = flow + 1;
    for (sim::FlowSample sample : samples) {
      sample.flow = flow;
      if (flow >= 15) sample.received_bytes /= 2;
      results.flow_samples.push_back(sample);
    }
  }
  const auto plots = plots_of(small_scenario(), results);
  const chart::LineChart& chart = lines(named(plots, "rates"));
  ASSERT_EQ(chart.series.size(), 1U);
  ASSERT_EQ(chart.bands.size(), 1U);
  EXPECT_THAT(chart.series[0].name, HasSubstr("20 flows"));
  const auto middle = std::find_if(chart.bands[0].points.begin(), chart.bands[0].points.end(),
                                   [](const auto& point) { return point.x >= 100e6; });
  ASSERT_NE(middle, chart.bands[0].points.end());
  EXPECT_NEAR(middle->low, 2e9, 1e6);
  EXPECT_NEAR(middle->high, 4e9, 1e6);
  EXPECT_NEAR(value_at(chart.series[0], 100 * kMicrosecond), 4e9, 1e6);
}

TEST(Plots, OfPacingExistOnlyWhereSomethingWasPaced) {
  sim::Results results = small_results();
  for (sim::FlowSample& sample : results.flow_samples)
    sample.pacing_bps = 3'000'000'000;
  const auto plots = plots_of(small_scenario(), results);
  EXPECT_EQ(value_at(lines(named(plots, "pacing")).series.at(0), kMicrosecond), 3e9);
}

TEST(Plots, LeaveOutWindowsThatAreOpen) {
  sim::Results results = small_results();
  for (sim::FlowSample& sample : results.flow_samples)
    sample.window_bytes = 1ULL << 60U;
  const auto plots = plots_of(small_scenario(), results);
  const chart::LineChart& chart = lines(named(plots, "windows"));
  ASSERT_EQ(chart.series.size(), 1U);
  EXPECT_THAT(chart.series[0].name, HasSubstr("in flight"));
}

TEST(Plots, OfLinksShowTheLoadOverTime) {
  const auto plots = plots_of(small_scenario(), small_results());
  const auto& map = std::get<chart::HeatMap>(named(plots, "links").chart);
  ASSERT_THAT(map.rows, ElementsAre("host0→host1"));
  EXPECT_NEAR(map.cells[0].front(), 0.5, 1e-9);
  EXPECT_NEAR(map.cells[0].back(), 1, 1e-9);
}

TEST(Plots, WithoutSamplesSayWhatToSet) {
  sim::Results results = small_results();
  results.flow_samples.clear();
  results.port_samples.clear();
  results.path_shares.clear();
  const auto plots = plots_of(small_scenario(), results);
  for (const char* name : {"rates", "windows", "queues", "links", "paths"})
    EXPECT_THAT(named(plots, name).missing, HasSubstr("sample_every")) << name;
  EXPECT_EQ(named(plots, "completion").missing, "");
}

TEST(Plots, WithoutSamplesShowTheMeanLoadBetweenSwitches) {
  sim::Scenario scenario;
  scenario.topology = {.hosts = 4, .hosts_per_leaf = 2};
  sim::Results results;
  results.simulated = kMicrosecond;
  // Four links to hosts, then two leaves with two spines each; both directions of each.
  for (int port = 0; port < 16; ++port)
    results.ports.push_back({.from = "a", .to = "b", .rate_bps = kRateBps});
  for (auto& port : results.ports)
    port.counters.bytes = 250;
  const auto plots = plots_of(scenario, results);
  const auto& map = std::get<chart::HeatMap>(named(plots, "links").chart);
  EXPECT_THAT(map.rows, ElementsAre("leaf0", "leaf1", "spine0", "spine1"));
  EXPECT_NEAR(map.cells[0][2], 0.25, 1e-9);
  EXPECT_TRUE(std::isnan(map.cells[0][1]));
}

TEST(Plots, OfQueuesHaveTheThresholdsInForce) {
  sim::Scenario scenario;
  scenario.topology = {.hosts = 4, .hosts_per_leaf = 2};
  scenario.network.queue_bytes = 100'000;
  scenario.network.has_pfc = true;
  sim::Results results;
  results.simulated = 10 * kMicrosecond;
  for (int port = 0; port < 16; ++port)
    results.ports.push_back({.from = "n" + std::to_string(port), .to = "m", .rate_bps = kRateBps});
  results.ports[0].counters.max_queue_bytes = 900'000;  // a NIC: not the network's queue
  results.ports[1].counters.max_queue_bytes = 50'000;
  results.ports[9].counters.max_queue_bytes = 70'000;
  for (std::uint32_t port = 0; port < 16; ++port)
    results.port_samples.push_back({.port = port, .queue_bytes = 1000ULL * port});
  const auto plots = plots_of(scenario, results);
  const chart::LineChart& chart = lines(named(plots, "queues"));
  ASSERT_EQ(chart.series.size(), 2U);
  EXPECT_EQ(chart.series[0].name, "n9→m");
  EXPECT_EQ(chart.series[1].name, "n1→m");
  std::vector<std::pair<std::string, double>> thresholds;
  for (const chart::Threshold& threshold : chart.thresholds)
    thresholds.emplace_back(threshold.label, threshold.y);
  EXPECT_THAT(thresholds,
              ElementsAre(std::pair("ECN Kmin", 20'000.0), std::pair("ECN Kmax", 80'000.0),
                          std::pair("PFC XOFF", 50'000.0)));
}

TEST(Plots, OfPathsShowTheConnectionsThatSentMost) {
  sim::Results results = small_results();
  results.path_shares.clear();
  for (std::uint32_t flow = 0; flow < 40; ++flow) {
    if (flow > 0) results.flows.push_back(results.flows[0]);
    results.flows.back().source = flow + 1;
    for (std::uint32_t path = 0; path < 2; ++path)
      results.path_shares.push_back({.flow = flow, .path = path, .packets = 10ULL * flow + path});
  }
  const auto plots = plots_of(small_scenario(), results);
  const auto& map = std::get<chart::HeatMap>(named(plots, "paths").chart);
  ASSERT_EQ(map.rows.size(), 32U);
  EXPECT_EQ(map.rows.front(), "host40→host1");
  EXPECT_THAT(map.subtitle, HasSubstr("the 32 that sent most of 40 connections"));
  EXPECT_NEAR(map.cells[0][0] + map.cells[0][1], 1, 1e-9);
}

TEST(Plots, ShadeFaultsForAsLongAsTheyLast) {
  using Kind = sim::FaultSpec::Kind;
  sim::Scenario scenario = small_scenario();
  const auto us = [](int n) { return n * kMicrosecond; };
  scenario.faults = {{.kind = Kind::kDown, .from = "host0", .to = "host1", .at = us(10)},
                     {.kind = Kind::kUp, .from = "host0", .to = "host1", .at = us(30)},
                     {.kind = Kind::kRate, .from = "host1", .at = us(50), .value = 0.25},
                     {.kind = Kind::kFlap,
                      .from = "host0",
                      .to = "host1",
                      .at = us(490),
                      .down_for = us(4),
                      .up_for = us(4),
                      .times = 9},
                     {.kind = Kind::kLoss, .from = "host0", .at = us(900), .value = 0.5}};
  const auto plots = plots_of(scenario, small_results());
  std::vector<std::tuple<std::string, double, double>> spans;
  for (const chart::Span& span : lines(named(plots, "rates")).spans)
    spans.emplace_back(span.label, span.from, span.to);
  EXPECT_THAT(spans, ElementsAre(std::tuple("host0–host1 down", 10e6, 30e6),
                                 std::tuple("host1, all links at 25 % of its rate", 50e6, 500e6),
                                 std::tuple("host0–host1 flaps", 490e6, 494e6),
                                 std::tuple("host0–host1 flaps", 498e6, 500e6)));
}

TEST(Plots, OfCompletionCountWhatDidNotFinish) {
  sim::Results results = small_results();
  results.flows.push_back({.source = 1, .destination = 0, .bytes = 5});
  const auto plots = plots_of(small_scenario(), results);
  const auto& chart = std::get<chart::CdfChart>(named(plots, "completion").chart);
  EXPECT_THAT(chart.subtitle, HasSubstr("1 of 2 flows did not finish"));
  EXPECT_THAT(chart.distributions.at(0).values, ElementsAre(500e6));
  EXPECT_THAT(chart.distributions.at(1).values, ElementsAre(402e6));
}

TEST(Plots, WithoutAFinishedFlowSaySo) {
  sim::Results results = small_results();
  results.flows[0].finish = -1;
  EXPECT_EQ(named(plots_of(small_scenario(), results), "completion").missing, "No flow finished.");
}

TEST(Plots, OfSeveralRunsGetTheSameScales) {
  sim::Results longer = small_results();
  longer.simulated = 800 * kMicrosecond;
  auto a = plots_of(small_scenario(), small_results());
  auto b = plots_of(small_scenario(), longer);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::array<Plot*, 2> both = {&a[i], &b[i]};
    share_scales(both);
  }
  EXPECT_EQ(lines(named(a, "rates")).x.to, 800e6);
  EXPECT_EQ(lines(named(a, "rates")).y.to, lines(named(b, "rates")).y.to);
}

}  // namespace
}  // namespace spindrift::simtool
