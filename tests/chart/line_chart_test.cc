#include "tools/chart/line_chart.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/chart/golden.h"
#include "tests/chart/well_formed.h"

namespace spindrift::chart {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr double kMicrosecond = 1e6;

LineChart queue_chart() {
  LineChart chart{
      .title = "Queue of the busiest ports",
      .subtitle = "leaf_spine, 16 hosts, incast 8:1 of 1 MiB, dcqcn, seed 1",
      .x = {.title = "Time", .quantity = Quantity::kTime},
      .y = {.title = "Queue", .quantity = Quantity::kBytes},
      .thresholds = {{.y = 40 * 1024, .label = "Kmin"},
                     {.y = 160 * 1024, .label = "Kmax"},
                     {.y = 165 * 1024, .label = "PFC XOFF"},
                     {.y = 8 * 1024 * 1024, .label = "capacity"}},
      .spans = {
          {.from = 30 * kMicrosecond, .to = 45 * kMicrosecond, .label = "leaf0>spine1 down"},
          {.from = 31 * kMicrosecond, .to = 60 * kMicrosecond, .label = "leaf1>spine0 at 25 %"}}};
  for (int port = 0; port < 3; ++port) {
    Series series{.name = "leaf" + std::to_string(port) + ">host" + std::to_string(port)};
    for (int i = 0; i <= 40; ++i)
      series.points.push_back(
          {.x = i * 2 * kMicrosecond,
           .y = 1024.0 * (port == 2 ? i % 5 : 150 * std::exp(-0.05 * i) / (port + 1))});
    series.is_step = port == 2;
    chart.series.push_back(series);
  }
  return chart;
}

TEST(LineChart, LooksAsTheOneThatAPersonJudged) {
  const std::string made = to_svg(queue_chart());
  EXPECT_EQ(made, golden("line.svg", made));
}

TEST(LineChart, NamesAxesUnitsSeriesThresholdsAndSpans) {
  const std::string made = to_svg(queue_chart());
  EXPECT_EQ(what_is_ill_formed(made), "");
  for (const char* text :
       {"Queue of the busiest ports", "Time (µs)", "Queue (KiB)", "leaf0&gt;host0", "Kmin 40 KiB",
        "Kmax 160 KiB", "PFC XOFF 165 KiB", "leaf0&gt;spine1 down", "leaf1&gt;spine0 at 25 %"})
    EXPECT_THAT(made, HasSubstr(std::string(">") + text + "<")) << text;
}

TEST(LineChart, NamesAThresholdFarAboveInsteadOfSqueezingTheData) {
  EXPECT_THAT(to_svg(queue_chart()), HasSubstr(">↑ capacity 8 MiB<"));
}

TEST(LineChart, WithoutDataStillHasAxes) {
  const std::string made =
      to_svg(LineChart{.title = "Nothing", .x = {.title = "x"}, .y = {.title = "y"}});
  EXPECT_EQ(what_is_ill_formed(made), "");
  EXPECT_THAT(made, Not(HasSubstr("nan")));
  EXPECT_THAT(made, Not(HasSubstr("inf")));
}

TEST(LineChart, LeavesOutWhatNoAxisCanShow) {
  LineChart chart{.title = "Odd",
                  .x = {.title = "x", .is_logarithmic = true},
                  .y = {.title = "y", .is_logarithmic = true}};
  chart.series.push_back({.name = "a",
                          .points = {{-1, 3},
                                     {0, 2},
                                     {1, 5},
                                     {2, 0},
                                     {3, std::numeric_limits<double>::infinity()},
                                     {10, 100}}});
  const std::string made = to_svg(chart);
  EXPECT_EQ(what_is_ill_formed(made), "");
  EXPECT_THAT(made, Not(HasSubstr("nan")));
  EXPECT_THAT(made, Not(HasSubstr("inf")));
}

TEST(LineChart, OfMillionsOfPointsIsBelow200KiB) {
  LineChart chart{
      .title = "Many", .x = {.title = "Time", .quantity = Quantity::kTime}, .y = {.title = "y"}};
  for (int line = 0; line < 12; ++line) {
    Series series{.name = "flow " + std::to_string(line)};
    for (int i = 0; i < 100'000; ++i)
      series.points.push_back({.x = i * kMicrosecond, .y = static_cast<double>(i * 7919 % 1009)});
    series.is_step = line % 2 == 0;
    chart.series.push_back(std::move(series));
  }
  EXPECT_LT(to_svg(chart).size(), 200U * 1024);
}

TEST(LineChart, TellsMoreSeriesApartThanThereAreColours) {
  LineChart chart{.title = "Twelve", .x = {.title = "x"}, .y = {.title = "y"}};
  for (int line = 0; line < 12; ++line)
    chart.series.push_back({.name = std::to_string(line), .points = {{0, 1.0 * line}, {1, 2.0}}});
  EXPECT_THAT(to_svg(chart), HasSubstr("stroke-dasharray"));
}

}  // namespace
}  // namespace spindrift::chart
