#pragma once
// Quantities along an axis, mostly time: lines or steps, bands, thresholds, shaded spans.
#include <optional>
#include <string>
#include <vector>

#include "tools/chart/frame.h"

namespace spindrift::chart {

struct Point {
  double x = 0;
  double y = 0;
};

struct Series {
  std::string name{};           // empty: not in the legend
  std::vector<Point> points{};  // by ascending x; where y is NaN the line has a gap
  bool is_step = false;         // a value holds until the next point
  bool is_dashed = false;
  std::optional<std::size_t> look{};  // index into the palette; else the series' own
};

struct BandPoint {
  double x = 0;
  double low = 0;
  double high = 0;
};
struct Band {
  std::string name{};
  std::vector<BandPoint> points{};  // by ascending x
  std::size_t look = 0;
  double opacity = 0.2;
};

// A horizontal line with its label beside the plot. One that is far above the data is named at the
// upper edge instead of squeezing the data.
struct Threshold {
  double y = 0;
  std::string label{};
};

// Something that lasted: shaded, with its label above the plot.
struct Span {
  double from = 0;
  double to = 0;
  std::string label{};
};

struct LineChart {
  std::string title{};
  std::string subtitle{};
  double width = kFigureWidth;  // pixels
  Axis x{};
  Axis y{};  // from zero unless logarithmic; the range holds `from` and `to`, and ends on a tick
  std::vector<Series> series{};
  std::vector<Band> bands{};
  std::vector<Threshold> thresholds{};
  std::vector<Span> spans{};
};

// SVG of at most about 200 KB: what lies within one column of pixels is reduced to its first,
// lowest, highest and last point. Points that a logarithmic axis cannot show are left out.
std::string to_svg(const LineChart& chart);

// What `columns` columns over the range can show of the points.
std::vector<Point> thinned(const std::vector<Point>& points, Range range, std::size_t columns);
std::vector<BandPoint> thinned(const std::vector<BandPoint>& points, Range range,
                               std::size_t columns);

}  // namespace spindrift::chart
