// Reduces a series to what the pixels can show.
#include <algorithm>
#include <cmath>

#include "tools/chart/line_chart.h"

namespace spindrift::chart {
namespace {

double column_of(double x, Range range, std::size_t columns) {
  return std::floor((x - range.from) / (range.to - range.from) * static_cast<double>(columns));
}

// First, lowest, highest and last of [from, to), in order, each once.
void keep_extremes(const std::vector<Point>& points, std::size_t from, std::size_t to,
                   std::vector<Point>& out) {
  std::size_t lowest = from;
  std::size_t highest = from;
  for (std::size_t i = from; i < to; ++i) {
    if (points[i].y < points[lowest].y) lowest = i;
    if (points[i].y > points[highest].y) highest = i;
  }
  std::vector<std::size_t> kept = {from, lowest, highest, to - 1};
  std::sort(kept.begin(), kept.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  for (const std::size_t i : kept)
    out.push_back(points[i]);
}

// A point between two of its own height adds nothing.
std::vector<Point> without_flats(const std::vector<Point>& points) {
  std::vector<Point> out;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const bool is_flat = i > 0 && i + 1 < points.size() && points[i - 1].y == points[i].y &&
                         points[i].y == points[i + 1].y;
    if (!is_flat) out.push_back(points[i]);
  }
  return out;
}

}  // namespace

std::vector<Point> thinned(const std::vector<Point>& points, Range range, std::size_t columns) {
  if (points.size() <= 2 * columns || !(range.from < range.to)) return without_flats(points);
  std::vector<Point> out;
  std::size_t from = 0;
  while (from < points.size()) {
    // A gap is a column of its own.
    std::size_t to = from + 1;
    if (!std::isnan(points[from].y)) {
      const double column = column_of(points[from].x, range, columns);
      while (to < points.size() && !std::isnan(points[to].y) &&
             column_of(points[to].x, range, columns) == column)
        ++to;
    }
    keep_extremes(points, from, to, out);
    from = to;
  }
  return without_flats(out);
}

std::vector<BandPoint> thinned(const std::vector<BandPoint>& points, Range range,
                               std::size_t columns) {
  if (points.size() <= columns || !(range.from < range.to)) return points;
  std::vector<BandPoint> out;
  double column = -1;
  for (const BandPoint& point : points) {
    const double own = column_of(point.x, range, columns);
    if (out.empty() || own != column) {
      out.push_back(point);
      column = own;
      continue;
    }
    out.back().low = std::min(out.back().low, point.low);
    out.back().high = std::max(out.back().high, point.high);
  }
  return out;
}

}  // namespace spindrift::chart
