#include <algorithm>
#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/chart/line_chart.h"

namespace spindrift::chart {
namespace {

TEST(Thinning, LeavesFewPointsAlone) {
  const std::vector<Point> points = {{0, 1}, {1, 5}, {2, 3}};
  EXPECT_EQ(thinned(points, {.from = 0, .to = 2}, 100).size(), 3U);
}

TEST(Thinning, KeepsEveryExtremeOfAColumn) {
  std::vector<Point> points;
  points.reserve(100'000);
  for (int i = 0; i < 100'000; ++i)
    points.push_back({.x = static_cast<double>(i), .y = 10 + std::sin(i * 0.001)});
  points[33'333].y = 500;
  points[66'666].y = -500;
  const auto kept = thinned(points, {.from = 0, .to = 99'999}, 200);
  EXPECT_LE(kept.size(), 201U * 4);
  double lowest = 0;
  double highest = 0;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    lowest = std::min(lowest, kept[i].y);
    highest = std::max(highest, kept[i].y);
    if (i > 0) {
      EXPECT_LT(kept[i - 1].x, kept[i].x);
    }
  }
  EXPECT_EQ(lowest, -500);
  EXPECT_EQ(highest, 500);
  EXPECT_EQ(kept.front().x, 0);
  EXPECT_EQ(kept.back().x, 99'999);
}

TEST(Thinning, KeepsGaps) {
  std::vector<Point> points;
  points.reserve(10'000);
  for (int i = 0; i < 10'000; ++i)
    points.push_back({.x = static_cast<double>(i), .y = static_cast<double>(i % 7)});
  points[5000].y = std::numeric_limits<double>::quiet_NaN();
  const auto kept = thinned(points, {.from = 0, .to = 9999}, 50);
  int gaps = 0;
  for (const Point& point : kept)
    gaps += std::isnan(point.y) ? 1 : 0;
  EXPECT_EQ(gaps, 1);
}

TEST(Thinning, DropsPointsInTheMiddleOfALevelStretch) {
  const std::vector<Point> points = {{0, 4}, {1, 4}, {2, 4}, {3, 4}, {4, 9}};
  const auto kept = thinned(points, {.from = 0, .to = 4}, 100);
  ASSERT_EQ(kept.size(), 3U);
  EXPECT_EQ(kept[1].x, 3);
}

TEST(Thinning, WidensABandToAllThatAColumnHolds) {
  std::vector<BandPoint> points;
  points.reserve(1000);
  for (int i = 0; i < 1000; ++i)
    points.push_back({.x = static_cast<double>(i), .low = 10.0 - i % 3, .high = 20.0 + i % 5});
  const auto kept = thinned(points, {.from = 0, .to = 999}, 10);
  ASSERT_LE(kept.size(), 11U);
  EXPECT_EQ(kept[3].low, 8);
  EXPECT_EQ(kept[3].high, 24);
}

}  // namespace
}  // namespace spindrift::chart
