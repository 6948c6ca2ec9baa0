#include "tools/sim/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tools/sim/output.h"

namespace spindrift::simtool {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

sim::FlowRecord flow(std::uint64_t bytes, sim::Picoseconds start, sim::Picoseconds finish) {
  return {.source = 1,
          .destination = 2,
          .bytes = bytes,
          .start = start,
          .finish = finish,
          .packets_sent = 10,
          .retransmits_trimmed = 2,
          .ideal = 100};
}

sim::Results two_flows() {
  sim::Results results;
  results.flows = {flow(1000, 0, 100), flow(1000, 100, 400), flow(5, 0, -1)};
  results.total.drops_full = 1;
  results.total.drops_loss = 2;
  results.total.drops_down = 3;
  results.simulated = 400;
  results.run_hops = 50;
  results.run_seconds = 0.5;
  return results;
}

TEST(Summary, CountsWhatFlowsAndNetworkSay) {
  const Summary summary = summarise(two_flows());
  EXPECT_EQ(summary.flows, 3U);
  EXPECT_EQ(summary.unfinished, 1U);
  EXPECT_DOUBLE_EQ(summary.completion_ps.min, 100);
  EXPECT_DOUBLE_EQ(summary.completion_ps.mean, 200);
  EXPECT_DOUBLE_EQ(summary.completion_ps.max, 300);
  EXPECT_DOUBLE_EQ(summary.slowdown.max, 3);
  EXPECT_DOUBLE_EQ(summary.goodput_bps, 2000 * 8 / 400e-12);
  // Rates 10 and 3.33: (13.33)^2 / (2 * 111.1) = 0.8.
  EXPECT_NEAR(summary.jain, 0.8, 1e-9);
  EXPECT_EQ(summary.drops, 6U);
  EXPECT_EQ(summary.retransmits(), 6U);
  EXPECT_DOUBLE_EQ(summary.hops_per_cpu_second, 100);
}

TEST(Summary, PercentilesAreRanks) {
  std::vector<double> values;
  for (int i = 1; i <= 200; ++i)
    values.push_back(i);
  const Spread spread = spread_of(values);
  EXPECT_DOUBLE_EQ(spread.p50, 100);
  EXPECT_DOUBLE_EQ(spread.p99, 198);
  EXPECT_DOUBLE_EQ(spread_of({7}).p99, 7);
  EXPECT_DOUBLE_EQ(spread_of({}).max, 0);
}

TEST(Output, TablesCsvAndJsonSayTheSame) {
  PlannedRun plan;
  plan.varied = {{"transport.congestion_control", "dcqcn:a=1,b=2"}};
  const FinishedRun run{.plan = &plan, .results = two_flows()};
  EXPECT_THAT(detail_text(run), HasSubstr("1 of 3 flows were not finished"));
  EXPECT_THAT(table_text({&run, 1}), HasSubstr("dcqcn:a=1,b=2"));
  EXPECT_THAT(summary_csv({&run, 1}),
              StartsWith("transport.congestion_control,seed,flows,unfinished,"));
  EXPECT_THAT(summary_csv({&run, 1}), HasSubstr("\n\"dcqcn:a=1,b=2\",1,3,1,100,200,"));
  const auto json = to_json(run);
  EXPECT_EQ(json["summary"]["drops"], 6.0);
  EXPECT_EQ(json["flows"].size(), 3U);
  EXPECT_EQ(json["varied"]["transport.congestion_control"], "dcqcn:a=1,b=2");
}

}  // namespace
}  // namespace spindrift::simtool
