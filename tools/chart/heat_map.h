#pragma once
// A table of quantities as colours, with a bar that explains them.
#include <string>
#include <vector>

#include "tools/chart/frame.h"

namespace spindrift::chart {

struct HeatMap {
  std::string title{};
  std::string subtitle{};
  double width = kFigureWidth;      // pixels
  std::vector<std::string> rows{};  // from top to bottom
  // Columns either have names, or lie evenly from x.from to x.to.
  std::vector<std::string> columns{};
  Axis x{};
  std::string row_title{};
  Axis value{};  // the colour bar: from value.from (else 0) to value.to (else the largest)
  // Of each row, from left to right; NaN: no such cell, left grey.
  std::vector<std::vector<double>> cells{};
};

// Cells beyond this are for the caller to merge, or the file would grow out of hand.
inline constexpr std::size_t kHeatCellsMax = 6'000;

std::string to_svg(const HeatMap& map);

}  // namespace spindrift::chart
