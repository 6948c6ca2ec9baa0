#include "tools/chart/bar_chart.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/chart/golden.h"
#include "tests/chart/well_formed.h"

namespace spindrift::chart {
namespace {

using testing::HasSubstr;

BarChart comparison() {
  return {.title = "Completion time by algorithm",
          .subtitle = "Bars: mean over flows; whiskers: fastest and slowest flow",
          .categories = {"nscc", "nscc+receiver_credit", "dcqcn:g=0.004 & <more>"},
          .value = {.title = "Completion time", .quantity = Quantity::kTime},
          .series = {{.name = "mean",
                      .bars = {{.value = 190e6, .low = 180e6, .high = 204.5e6},
                               {.value = 187e6, .low = 179.4e6, .high = 200e6},
                               {.value = 310e6, .low = 200e6, .high = 720e6}}},
                     {.name = "p99",
                      .bars = {{.value = 203e6},
                               {.value = 199e6},
                               {.value = std::numeric_limits<double>::quiet_NaN()}}}}};
}

TEST(BarChart, LooksAsTheOneThatAPersonJudged) {
  const std::string made = to_svg(comparison());
  EXPECT_EQ(made, golden("bar.svg", made));
  EXPECT_EQ(what_is_ill_formed(made), "");
}

TEST(BarChart, WritesEveryValueAndSaysWhereThereIsNone) {
  const std::string made = to_svg(comparison());
  for (const char* text : {"190 µs", "199 µs", "no value", "dcqcn:g=0.004 &amp; &lt;more&gt;"})
    EXPECT_THAT(made, HasSubstr(std::string(">") + text + "<"));
}

TEST(BarChart, WithoutBarsStillHasAnAxis) {
  EXPECT_EQ(what_is_ill_formed(to_svg(BarChart{.title = "Nothing"})), "");
}

}  // namespace
}  // namespace spindrift::chart
