#pragma once
// What every figure has around its data: title, subtitle, legend, axes, grid. Figures draw their
// data into the box that is left.
#include <optional>
#include <string>
#include <vector>

#include "tools/chart/svg.h"
#include "tools/chart/ticks.h"

namespace spindrift::chart {

struct Axis {
  std::string title{};  // without the unit
  Quantity quantity = Quantity::kNumber;
  bool is_logarithmic = false;
  std::optional<double> from{};  // else by the data
  std::optional<double> to{};
};

struct LegendEntry {
  std::string name{};
  std::string_view colour{};
  std::string_view dashes{};
  bool is_area = false;  // a swatch; else a piece of line
  double opacity = 1;
};

inline constexpr double kFigureWidth = 860;

struct Head {
  double width = kFigureWidth;  // of the figure
  std::string title{};
  std::string subtitle{};
  std::vector<LegendEntry> legend{};
};

inline constexpr double kMargin = 18;
inline constexpr double kLabelFont = 12;
inline constexpr double kLineHeight = 17;

double head_height(const Head& head);
void draw_head(Svg& svg, const Head& head);

// From values to pixels, straight or logarithmic.
struct Mapping {
  Range values{};
  Range pixels{};
  bool is_logarithmic = false;
  double operator()(double value) const;
};

// "Queue (KiB)".
std::string axis_title(const Axis& axis, const Ticks& ticks);
Ticks ticks_for(const Axis& axis, const Mapping& mapping, int count_max);
// Room that tick labels and the title need left of the box.
double y_axis_width(const Ticks& ticks);
inline constexpr double kXAxisHeight = 46;
// Ticks for which a horizontal axis of this length has room.
int ticks_across(double width);

// Grid lines inside the box, labels and title outside.
void draw_x_axis(Svg& svg, const Box& box, const Mapping& mapping, const Ticks& ticks,
                 std::string_view title);
void draw_y_axis(Svg& svg, const Box& box, const Mapping& mapping, const Ticks& ticks,
                 std::string_view title);

}  // namespace spindrift::chart
