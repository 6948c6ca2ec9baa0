#pragma once
// The share of values that are at most x, over x.
#include <string>
#include <vector>

#include "tools/chart/line_chart.h"

namespace spindrift::chart {

struct Distribution {
  std::string name{};
  std::vector<double> values{};  // in any order
  bool is_dashed = false;
  std::optional<std::size_t> look{};  // index into the palette; else the distribution's own
};

struct CdfChart {
  std::string title{};
  std::string subtitle{};
  double width = kFigureWidth;  // pixels
  Axis x{};                     // has room for all values, and for `from` and `to` where given
  std::string y_title{};        // "Share of flows"
  std::vector<Distribution> distributions{};
};

// A logarithmic axis shows values above zero alone, but counts them all.
std::string to_svg(const CdfChart& chart);

}  // namespace spindrift::chart
