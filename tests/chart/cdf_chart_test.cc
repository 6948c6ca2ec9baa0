#include "tools/chart/cdf_chart.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/chart/golden.h"
#include "tests/chart/well_formed.h"

namespace spindrift::chart {
namespace {

using testing::HasSubstr;
using testing::Not;

CdfChart completion_chart() {
  CdfChart chart{.title = "Flow completion times",
                 .subtitle = "leaf_spine, 128 hosts, permutation of 2 MiB",
                 .x = {.title = "Completion time", .quantity = Quantity::kTime},
                 .y_title = "Share of flows"};
  chart.distributions.push_back({.name = "nscc"});
  chart.distributions.push_back({.name = "dcqcn"});
  chart.distributions.push_back({.name = "ideal", .is_dashed = true});
  for (int i = 0; i < 30; ++i) {
    chart.distributions[0].values.push_back(180e6 + 1e6 * (i * 7 % 30));
    chart.distributions[1].values.push_back(190e6 + 0.1e6 * i * i);
    chart.distributions[2].values.push_back(172e6);
  }
  return chart;
}

TEST(CdfChart, LooksAsTheOneThatAPersonJudged) {
  const std::string made = to_svg(completion_chart());
  EXPECT_EQ(made, golden("cdf.svg", made));
  EXPECT_EQ(what_is_ill_formed(made), "");
}

TEST(CdfChart, OnALogarithmicAxisTakesDecades) {
  CdfChart chart = completion_chart();
  chart.x.is_logarithmic = true;
  chart.distributions[0].values = {0, 1e6, 10e6, 100e6, 1000e6};
  const std::string made = to_svg(chart);
  EXPECT_EQ(what_is_ill_formed(made), "");
  EXPECT_THAT(made, HasSubstr(">10 µs<"));
  EXPECT_THAT(made, HasSubstr(">1 ms<"));
  EXPECT_THAT(made, Not(HasSubstr("inf")));
}

TEST(CdfChart, WithoutValuesStillHasAxes) {
  CdfChart chart = completion_chart();
  for (Distribution& distribution : chart.distributions)
    distribution.values.clear();
  EXPECT_EQ(what_is_ill_formed(to_svg(chart)), "");
}

}  // namespace
}  // namespace spindrift::chart
