#include "tools/chart/heat_map.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "tools/chart/palette.h"

namespace spindrift::chart {
namespace {

constexpr double kRowLabelWidthMax = 190;
constexpr double kColumnLabelHeightMax = 110;
constexpr double kRowFont = 10.5;
constexpr double kRowHeightMin = 12;
constexpr double kRowHeightMax = 26;
constexpr double kUsualHeight = 300;
constexpr double kColourBarWidth = 14;
constexpr double kColourBarHeightMin = 130;  // its title needs the length
constexpr double kColourBarRoom = 104;
constexpr int kTicksUp = 6;
constexpr std::string_view kNoCell = "#d4d7db";

Range value_range(const HeatMap& map) {
  Range range{.from = map.value.from.value_or(0), .to = map.value.to.value_or(0)};
  if (!map.value.to)
    for (const auto& row : map.cells)
      for (const double value : row)
        if (std::isfinite(value)) range.to = std::max(range.to, value);
  if (!(range.from < range.to)) range.to = range.from + 1;
  return range;
}

std::size_t level_of(double value, Range range) {
  const double share = std::clamp((value - range.from) / (range.to - range.from), 0.0, 1.0);
  return static_cast<std::size_t>(std::lround(share * (kHeatLevels - 1)));
}

std::size_t columns_of(const HeatMap& map) {
  std::size_t columns = map.columns.size();
  for (const auto& row : map.cells)
    columns = std::max(columns, row.size());
  return std::max<std::size_t>(columns, 1);
}

// One path per colour; neighbours of one colour are one rectangle.
void draw_cells(Svg& svg, const HeatMap& map, const Box& box) {
  std::array<std::string, kHeatLevels> paths;
  const Range range = value_range(map);
  const double row_height =
      box.height / static_cast<double>(std::max<std::size_t>(map.rows.size(), 1));
  const double column_width = box.width / static_cast<double>(columns_of(map));
  svg.rectangle(box, kNoCell);
  for (std::size_t r = 0; r < map.cells.size(); ++r) {
    const std::vector<double>& row = map.cells[r];
    const double top = box.top + static_cast<double>(r) * row_height;
    for (std::size_t c = 0; c < row.size();) {
      if (!std::isfinite(row[c])) {
        ++c;
        continue;
      }
      const std::size_t level = level_of(row[c], range);
      std::size_t end = c + 1;
      while (end < row.size() && std::isfinite(row[end]) && level_of(row[end], range) == level)
        ++end;
      // Each a little over its edge, so that no seam shows between neighbours.
      const double left = box.left + static_cast<double>(c) * column_width;
      const double right =
          std::min(box.left + static_cast<double>(end) * column_width + 0.3, box.right());
      const double bottom = std::min(top + row_height + 0.3, box.bottom());
      paths[level] += "M" + pixels(left) + " " + pixels(top) + "H" + pixels(right) + "V" +
                      pixels(bottom) + "H" + pixels(left) + "Z";
      c = end;
    }
  }
  for (std::size_t level = 0; level < kHeatLevels; ++level)
    svg.area(paths[level], heat_colour(level));
}

void draw_row_labels(Svg& svg, const HeatMap& map, const Box& box) {
  const double height = box.height / static_cast<double>(std::max<std::size_t>(map.rows.size(), 1));
  for (std::size_t r = 0; r < map.rows.size(); ++r)
    svg.text(box.left - 6, box.top + (static_cast<double>(r) + 0.5) * height + 4,
             fitted(map.rows[r], kRowFont, kRowLabelWidthMax),
             {.font_pixels = kRowFont, .colour = kInk, .anchor = Anchor::kEnd});
  svg.text(
      kMargin + 8, box.top + box.height / 2, map.row_title,
      {.font_pixels = kLabelFont, .colour = kInk, .anchor = Anchor::kMiddle, .is_upright = true});
}

bool stand_upright(const HeatMap& map, double column_width) {
  for (const std::string& name : map.columns)
    if (text_width(name, kRowFont) + 6 > column_width) return true;
  return false;
}

double column_label_height(const HeatMap& map, double column_width) {
  if (!stand_upright(map, column_width)) return 18;
  double widest = 0;
  for (const std::string& name : map.columns)
    widest = std::max(widest, std::min(text_width(name, kRowFont), kColumnLabelHeightMax));
  return widest + 10;
}

void draw_column_labels(Svg& svg, const HeatMap& map, const Box& box) {
  const double width = box.width / static_cast<double>(columns_of(map));
  const bool is_upright = stand_upright(map, width);
  // Where columns are narrower than a line of text, every so many has a label.
  const auto stride = static_cast<std::size_t>(std::max(1.0, std::ceil(12 / width)));
  for (std::size_t c = 0; c < map.columns.size(); c += stride) {
    const double x = box.left + (static_cast<double>(c) + 0.5) * width;
    svg.text(is_upright ? x + 4 : x, box.bottom() + (is_upright ? 7 : 15),
             fitted(map.columns[c], kRowFont, kColumnLabelHeightMax),
             {.font_pixels = kRowFont,
              .colour = kInk,
              .anchor = is_upright ? Anchor::kEnd : Anchor::kMiddle,
              .is_upright = is_upright});
  }
  svg.text(box.left + box.width / 2, box.bottom() + column_label_height(map, width) + 17,
           map.x.title, {.font_pixels = kLabelFont, .colour = kInk, .anchor = Anchor::kMiddle});
}

void draw_colour_bar(Svg& svg, const HeatMap& map, const Box& box) {
  const Box bar{.left = box.right() + 18,
                .top = box.top,
                .width = kColourBarWidth,
                .height = std::clamp(box.height, kColourBarHeightMin, kUsualHeight)};
  const double step = bar.height / kHeatLevels;
  for (std::size_t level = 0; level < kHeatLevels; ++level)
    svg.rectangle({.left = bar.left,
                   .top = bar.bottom() - static_cast<double>(level + 1) * step,
                   .width = bar.width,
                   .height = step + 0.3},
                  heat_colour(level));
  svg.frame(bar, {.colour = kAxis});
  const Mapping y{.values = value_range(map), .pixels = {.from = bar.bottom(), .to = bar.top}};
  const Ticks ticks = linear_ticks(y.values, map.value.quantity, kTicksUp);
  for (const Tick& tick : ticks.ticks)
    svg.text(bar.right() + 6, y(tick.value) + 4, tick.label,
             {.font_pixels = kRowFont, .colour = kFaintInk});
  // Beyond the labels, read from bottom to top like the other vertical title.
  svg.text(
      map.width - kMargin, bar.top + bar.height / 2, axis_title(map.value, ticks),
      {.font_pixels = kLabelFont, .colour = kInk, .anchor = Anchor::kMiddle, .is_upright = true});
}

}  // namespace

std::string to_svg(const HeatMap& map) {
  const Head head{.width = map.width, .title = map.title, .subtitle = map.subtitle};
  const auto rows = static_cast<double>(std::max<std::size_t>(map.rows.size(), 1));
  const double row_height = std::clamp(kUsualHeight / rows, kRowHeightMin, kRowHeightMax);
  double widest = 0;
  for (const std::string& row : map.rows)
    widest = std::max(widest, std::min(text_width(row, kRowFont), kRowLabelWidthMax));
  Box box{
      .left = kMargin + 16 + widest + 8, .top = head_height(head) + 8, .height = rows * row_height};
  box.width = map.width - kColourBarRoom - box.left;
  const double column_width = box.width / static_cast<double>(columns_of(map));
  const bool has_names = !map.columns.empty();
  const double below = has_names ? column_label_height(map, column_width) + 28 : kXAxisHeight;
  const double height = std::max(box.bottom() + below, box.top + kColourBarHeightMin + kMargin);

  Svg svg(map.width, height, map.title);
  svg.rectangle({.width = map.width, .height = height}, kPanel);
  draw_head(svg, head);
  if (!has_names) {
    const Mapping x{.values = {.from = map.x.from.value_or(0), .to = map.x.to.value_or(1)},
                    .pixels = {.from = box.left, .to = box.right()}};
    const Ticks ticks = linear_ticks(x.values, map.x.quantity, ticks_across(box.width));
    draw_x_axis(svg, box, x, ticks, axis_title(map.x, ticks));
  }
  draw_cells(svg, map, box);
  svg.frame(box, {.colour = kAxis});
  draw_row_labels(svg, map, box);
  if (has_names) draw_column_labels(svg, map, box);
  draw_colour_bar(svg, map, box);
  return svg.finish();
}

}  // namespace spindrift::chart
