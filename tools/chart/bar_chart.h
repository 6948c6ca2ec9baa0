#pragma once
// Quantities of several things side by side: horizontal bars with whiskers and the value beside.
#include <optional>
#include <string>
#include <vector>

#include "tools/chart/frame.h"

namespace spindrift::chart {

struct Bar {
  double value = 0;  // NaN: there is none, and the chart says so
  // Whiskers, where both are given.
  std::optional<double> low{};
  std::optional<double> high{};
};

struct BarSeries {
  std::string name{};       // empty: not in the legend
  std::vector<Bar> bars{};  // one per category
};

struct BarChart {
  std::string title{};
  std::string subtitle{};
  double width = kFigureWidth;            // pixels
  std::vector<std::string> categories{};  // from top to bottom
  Axis value{};                           // linear, from zero
  std::vector<BarSeries> series{};        // side by side within a category
};

std::string to_svg(const BarChart& chart);

}  // namespace spindrift::chart
