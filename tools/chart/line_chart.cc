#include "tools/chart/line_chart.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/chart/palette.h"

namespace spindrift::chart {
namespace {

constexpr double kPlotHeight = 300;
constexpr double kSpanRow = 14;
constexpr double kSpanFont = 11;
constexpr int kSpanRows = 3;
constexpr double kThresholdDashes = 5;
constexpr int kTicksUp = 6;
// A threshold this many times above the data is named, not drawn.
constexpr double kFarAbove = 2.5;
// Points in all, each of about ten characters.
constexpr std::size_t kPointBudget = 16'000;

struct Extent {
  double from = std::numeric_limits<double>::infinity();
  double to = -std::numeric_limits<double>::infinity();
  void add(double value) {
    if (!std::isfinite(value)) return;
    from = std::min(from, value);
    to = std::max(to, value);
  }
  bool is_empty() const { return from > to; }
  Range range() const { return is_empty() ? Range{} : Range{.from = from, .to = to}; }
};

bool is_shown(const Axis& axis, double value) {
  return std::isfinite(value) && (!axis.is_logarithmic || value > 0);
}

Range x_range(const LineChart& chart) {
  Extent extent;
  const auto add = [&](double x) {
    if (is_shown(chart.x, x)) extent.add(x);
  };
  for (const Series& series : chart.series)
    for (const Point& point : series.points)
      add(point.x);
  for (const Band& band : chart.bands)
    for (const BandPoint& point : band.points)
      add(point.x);
  Range range = extent.range();
  range.from = chart.x.from.value_or(range.from);
  range.to = chart.x.to.value_or(range.to);
  if (range.from < range.to) return range;
  if (chart.x.is_logarithmic) return {.from = range.from / 2, .to = range.from * 2};
  return {.from = range.from, .to = range.from + 1};
}

Range logarithmic_range(Range range) {
  if (range.from < range.to) return range;
  return {.from = range.from / 2, .to = range.from * 2};
}

Range y_range(const LineChart& chart) {
  Extent extent;
  const auto add = [&](double y) {
    if (is_shown(chart.y, y)) extent.add(y);
  };
  for (const Series& series : chart.series)
    for (const Point& point : series.points)
      add(point.y);
  for (const Band& band : chart.bands)
    for (const BandPoint& point : band.points) {
      add(point.low);
      add(point.high);
    }
  for (const auto& end : {chart.y.from, chart.y.to})
    if (end) add(*end);
  const double largest = extent.range().to;
  for (const Threshold& threshold : chart.thresholds)
    if (threshold.y <= kFarAbove * largest) add(threshold.y);
  if (chart.y.is_logarithmic) return logarithmic_range(extent.range());
  return rounded_range(extent.range(), chart.y.quantity, kTicksUp);
}

// A threshold's label, at a height of its own.
struct ThresholdLabel {
  std::string text{};
  double y = 0;       // of the line; NaN: above the plot
  double text_y = 0;  // of the middle of the text
};

std::vector<ThresholdLabel> label_thresholds(const LineChart& chart, const Box& box,
                                             const Mapping& y) {
  std::vector<ThresholdLabel> labels;
  std::vector<Threshold> sorted = chart.thresholds;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Threshold& a, const Threshold& b) { return a.y > b.y; });
  double next = box.top + 2;
  for (const Threshold& threshold : sorted) {
    const bool is_above = threshold.y > y.values.to;
    const double at = is_above ? std::numeric_limits<double>::quiet_NaN() : y(threshold.y);
    const std::string value = format_value(chart.y.quantity, threshold.y);
    std::string text = is_above ? "↑ " : "";
    text.append(threshold.label).append(" ").append(value);
    next = std::max(next, is_above ? next : at);
    labels.push_back({.text = std::move(text), .y = at, .text_y = next});
    next += kLineHeight - 2;
  }
  return labels;
}

double threshold_room(const LineChart& chart) {
  double widest = 0;
  for (const Threshold& threshold : chart.thresholds)
    widest = std::max(widest, text_width("↑ " + threshold.label + " " +
                                             format_value(chart.y.quantity, threshold.y),
                                         kLabelFont));
  return widest == 0 ? 26 : widest + 22;
}

void draw_thresholds(Svg& svg, const std::vector<ThresholdLabel>& labels, const Box& box) {
  for (const ThresholdLabel& label : labels) {
    if (std::isfinite(label.y)) {
      svg.line(box.left, label.y, box.right(), label.y,
               {.colour = kFaintInk, .width = 1.2, .dashes = "6 4"});
      svg.line(box.right(), label.y, box.right() + kThresholdDashes, label.text_y,
               {.colour = kFaintInk});
    }
    svg.text(box.right() + 8, label.text_y + 4, label.text,
             {.font_pixels = kLabelFont, .colour = kInk});
  }
}

struct SpanLabel {
  std::string text{};
  double x = 0;
  int row = 0;
};

// In rows above the plot; a repeated label stands once, and what finds no place is counted.
std::vector<SpanLabel> label_spans(const LineChart& chart, const Box& box, const Mapping& x) {
  std::vector<SpanLabel> labels;
  std::vector<double> ends(kSpanRows, box.left);
  std::vector<std::string> seen;
  std::size_t left_out = 0;
  for (const Span& span : chart.spans) {
    if (span.from > x.values.to || span.to < x.values.from) continue;
    if (std::find(seen.begin(), seen.end(), span.label) != seen.end()) continue;
    seen.push_back(span.label);
    const double width = text_width(span.label, kSpanFont);
    const double start = std::max(box.left, x(std::max(span.from, x.values.from)));
    const double at = std::max(box.left, std::min(start, box.right() - width));
    const auto row = std::find_if(ends.begin(), ends.end(), [at](double end) { return end <= at; });
    if (row == ends.end()) {
      ++left_out;
      continue;
    }
    *row = at + width + 12;
    labels.push_back({.text = fitted(span.label, kSpanFont, box.width),
                      .x = at,
                      .row = static_cast<int>(row - ends.begin())});
  }
  if (left_out > 0 && !labels.empty())
    labels.back().text += " and " + std::to_string(left_out) + " more";
  return labels;
}

void draw_spans(Svg& svg, const LineChart& chart, const Box& box, const Mapping& x) {
  for (const Span& span : chart.spans) {
    const double from = std::max(box.left, x(std::max(span.from, x.values.from)));
    const double to = std::min(box.right(), x(std::min(span.to, x.values.to)));
    if (to < from) continue;
    // A moment is a line one can see.
    const double width = std::max(to - from, 1.5);
    svg.rectangle({.left = from, .top = box.top, .width = width, .height = box.height}, "#8a919b",
                  0.2);
  }
}

std::string line_path(const Series& series, const Mapping& x, const Mapping& y,
                      std::size_t columns) {
  std::string path;
  bool is_down = false;
  std::string last_y;
  for (const Point& point : thinned(series.points, x.values, columns)) {
    if (std::isnan(point.y) || !std::isfinite(x(point.x)) || !std::isfinite(y(point.y))) {
      is_down = false;
      continue;
    }
    const std::string at_x = pixels(x(point.x));
    const std::string at_y = pixels(y(point.y));
    if (!is_down)
      path.append("M").append(at_x).append(" ").append(at_y);
    else if (at_y == last_y)
      path.append("H").append(at_x);
    else if (series.is_step)
      path.append("H").append(at_x).append("V").append(at_y);
    else
      path.append("L").append(at_x).append(" ").append(at_y);
    is_down = true;
    last_y = at_y;
  }
  return path;
}

std::string band_path(const Band& band, const Mapping& x, const Mapping& y, std::size_t columns) {
  const std::vector<BandPoint> points = thinned(band.points, x.values, columns);
  std::string path;
  const auto add = [&](double at_x, double at_y) {
    path.append(path.empty() ? "M" : "L")
        .append(pixels(x(at_x)))
        .append(" ")
        .append(pixels(y(at_y)));
  };
  for (const BandPoint& point : points)
    add(point.x, point.high);
  for (auto point = points.rbegin(); point != points.rend(); ++point)
    add(point->x, point->low);
  return path.empty() ? path : path + "Z";
}

LineLook look_of_series(const LineChart& chart, std::size_t index) {
  LineLook look = look_of(chart.series[index].look.value_or(index));
  if (chart.series[index].is_dashed) look.dashes = "6 3";
  return look;
}

std::vector<LegendEntry> legend_of(const LineChart& chart) {
  std::vector<LegendEntry> legend;
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    if (chart.series[i].name.empty()) continue;
    const LineLook look = look_of_series(chart, i);
    legend.push_back({.name = chart.series[i].name, .colour = look.colour, .dashes = look.dashes});
  }
  for (const Band& band : chart.bands)
    if (!band.name.empty())
      legend.push_back({.name = band.name,
                        .colour = look_of(band.look).colour,
                        .is_area = true,
                        .opacity = band.opacity});
  return legend;
}

void draw_data(Svg& svg, const LineChart& chart, const Box& box, const Mapping& x,
               const Mapping& y) {
  const std::size_t lines = std::max<std::size_t>(chart.series.size() + chart.bands.size(), 1);
  const auto across = static_cast<std::size_t>(box.width);
  const std::size_t columns = std::clamp<std::size_t>(kPointBudget / lines / 4, 40, across);
  // Lines along the edge keep their width.
  svg.begin_clip(
      {.left = box.left - 1, .top = box.top - 2, .width = box.width + 2, .height = box.height + 3});
  for (const Band& band : chart.bands)
    svg.area(band_path(band, x, y, columns), look_of(band.look).colour, band.opacity);
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    const LineLook look = look_of_series(chart, i);
    svg.path(line_path(chart.series[i], x, y, columns),
             {.colour = look.colour, .width = 1.7, .dashes = look.dashes});
  }
  svg.end_clip();
}

}  // namespace

std::string to_svg(const LineChart& chart) {
  const Head head{.width = chart.width,
                  .title = chart.title,
                  .subtitle = chart.subtitle,
                  .legend = legend_of(chart)};
  Mapping y{.values = y_range(chart), .is_logarithmic = chart.y.is_logarithmic};
  const Ticks y_ticks = ticks_for(chart.y, y, kTicksUp);
  Box box{.left = y_axis_width(y_ticks), .height = kPlotHeight};
  box.width = chart.width - threshold_room(chart) - box.left;
  const Mapping x{.values = x_range(chart),
                  .pixels = {.from = box.left, .to = box.right()},
                  .is_logarithmic = chart.x.is_logarithmic};
  const std::vector<SpanLabel> spans = label_spans(chart, box, x);
  int span_rows = 0;
  for (const SpanLabel& label : spans)
    span_rows = std::max(span_rows, label.row + 1);
  box.top = head_height(head) + span_rows * kSpanRow + 8;
  y.pixels = {.from = box.bottom(), .to = box.top};

  const double height = box.bottom() + kXAxisHeight;
  Svg svg(chart.width, height, chart.title);
  svg.rectangle({.width = chart.width, .height = height}, kPanel);
  draw_head(svg, head);
  draw_spans(svg, chart, box, x);
  for (const SpanLabel& label : spans)
    svg.text(label.x, box.top - 5 - label.row * kSpanRow, label.text,
             {.font_pixels = kSpanFont, .colour = kFaintInk});
  const Ticks x_ticks = ticks_for(chart.x, x, ticks_across(box.width));
  draw_x_axis(svg, box, x, x_ticks, axis_title(chart.x, x_ticks));
  draw_y_axis(svg, box, y, y_ticks, axis_title(chart.y, y_ticks));
  draw_thresholds(svg, label_thresholds(chart, box, y), box);
  draw_data(svg, chart, box, x, y);
  return svg.finish();
}

}  // namespace spindrift::chart
