#include "tools/chart/heat_map.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/chart/golden.h"
#include "tests/chart/well_formed.h"

namespace spindrift::chart {
namespace {

using testing::HasSubstr;

HeatMap links_over_time() {
  HeatMap map{.title = "Load of the links",
              .subtitle = "leaf_spine, 16 hosts, permutation of 2 MiB, nscc, seed 1",
              .x = {.title = "Time", .quantity = Quantity::kTime, .from = 0, .to = 200e6},
              .row_title = "Link",
              .value = {.title = "Utilisation", .quantity = Quantity::kShare, .to = 1}};
  for (int row = 0; row < 8; ++row) {
    map.rows.push_back("leaf" + std::to_string(row / 2) + ">spine" + std::to_string(row % 2));
    std::vector<double> cells;
    cells.reserve(40);
    for (int i = 0; i < 40; ++i)
      cells.push_back(row == 5 && i > 20 ? std::numeric_limits<double>::quiet_NaN()
                                         : std::min(1.0, 0.05 * row + 0.02 * i));
    map.cells.push_back(cells);
  }
  return map;
}

TEST(HeatMap, LooksAsTheOneThatAPersonJudged) {
  const std::string made = to_svg(links_over_time());
  EXPECT_EQ(made, golden("heat.svg", made));
  EXPECT_EQ(what_is_ill_formed(made), "");
}

TEST(HeatMap, NamesColumnsWhereTheyHaveNames) {
  HeatMap map = links_over_time();
  map.columns = {"spine0", "spine1", "spine2 <x>"};
  map.x = {.title = "To"};
  const std::string made = to_svg(map);
  EXPECT_EQ(what_is_ill_formed(made), "");
  EXPECT_THAT(made, HasSubstr(">spine2 &lt;x&gt;<"));
}

TEST(HeatMap, AtItsLargestIsBelow200KiB) {
  HeatMap map = links_over_time();
  map.rows.assign(48, "leaf>spine");
  map.cells.clear();
  for (std::size_t row = 0; row < 48; ++row) {
    std::vector<double> cells;
    for (std::size_t i = 0; i < kHeatCellsMax / 48; ++i)
      cells.push_back(static_cast<double>((row * 31 + i * 17) % 101) / 100);
    map.cells.push_back(cells);
  }
  EXPECT_LT(to_svg(map).size(), 200U * 1024);
}

TEST(HeatMap, WithoutCellsStillHasAFrame) {
  EXPECT_EQ(what_is_ill_formed(to_svg(HeatMap{.title = "Nothing"})), "");
}

}  // namespace
}  // namespace spindrift::chart
