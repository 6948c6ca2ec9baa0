#include "tools/chart/cdf_chart.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace spindrift::chart {
namespace {

// A step up at every value.
std::vector<Point> steps_of(std::vector<double> values, const Axis& axis) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  std::sort(values.begin(), values.end());
  std::vector<Point> points;
  const auto count = static_cast<double>(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (axis.is_logarithmic && values[i] <= 0) continue;
    if (points.empty()) points.push_back({.x = values[i], .y = static_cast<double>(i) / count});
    points.push_back({.x = values[i], .y = static_cast<double>(i + 1) / count});
  }
  return points;
}

}  // namespace

std::string to_svg(const CdfChart& chart) {
  LineChart lines{.title = chart.title,
                  .subtitle = chart.subtitle,
                  .width = chart.width,
                  .x = chart.x,
                  .y = {.title = chart.y_title, .quantity = Quantity::kShare, .to = 1}};
  double first = chart.x.from.value_or(std::numeric_limits<double>::infinity());
  double last = chart.x.to.value_or(0);
  for (const Distribution& distribution : chart.distributions) {
    lines.series.push_back({.name = distribution.name,
                            .points = steps_of(distribution.values, chart.x),
                            .is_step = true,
                            .is_dashed = distribution.is_dashed,
                            .look = distribution.look});
    if (lines.series.back().points.empty()) continue;
    first = std::min(first, lines.series.back().points.front().x);
    last = std::max(last, lines.series.back().points.back().x);
  }
  if (first > last) return to_svg(lines);
  // A little room on both sides, more where all values are about the same; a line that has reached
  // 100 % stays there.
  const double room = chart.x.is_logarithmic
                          ? std::max(std::pow(last / first, 0.02), 1.005)
                          : std::max((last - first) * 0.02, std::abs(last) * 0.005);
  lines.x.from = chart.x.is_logarithmic ? first / room : first - room;
  const double end = chart.x.is_logarithmic ? last * room : last + room;
  lines.x.to = end;
  for (Series& series : lines.series)
    if (!series.points.empty() && series.points.back().x < end)
      series.points.push_back({.x = end, .y = series.points.back().y});
  return to_svg(lines);
}

}  // namespace spindrift::chart
