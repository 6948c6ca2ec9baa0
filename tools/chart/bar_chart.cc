#include "tools/chart/bar_chart.h"

#include <algorithm>
#include <cmath>

#include "tools/chart/palette.h"

namespace spindrift::chart {
namespace {

constexpr double kLabelWidthMax = 300;
constexpr double kValueRoom = 84;
constexpr double kBarHeight = 18;
constexpr double kThinBarHeight = 12;
constexpr double kCategoryGap = 12;

double bar_height(const BarChart& chart) {
  return chart.series.size() > 1 ? kThinBarHeight : kBarHeight;
}

double category_height(const BarChart& chart) {
  const double bars = static_cast<double>(std::max<std::size_t>(chart.series.size(), 1));
  return bars * bar_height(chart) + kCategoryGap;
}

Range value_range(const BarChart& chart, int ticks_max) {
  Range range{.from = 0, .to = 0};
  for (const BarSeries& series : chart.series)
    for (const Bar& bar : series.bars)
      for (const double value : {bar.value, bar.high.value_or(0), bar.low.value_or(0)})
        if (std::isfinite(value)) {
          range.from = std::min(range.from, value);
          range.to = std::max(range.to, value);
        }
  return rounded_range(range, chart.value.quantity, ticks_max);
}

void draw_whisker(Svg& svg, double from, double to, double y) {
  const std::string ends = "M" + pixels(from) + " " + pixels(y - 4) + "v8M" + pixels(to) + " " +
                           pixels(y - 4) + "v8M" + pixels(from) + " " + pixels(y) + "H" +
                           pixels(to);
  // A light rim keeps the dark line apart from a dark bar.
  svg.path(ends, {.colour = kPanel, .width = 3.4});
  svg.path(ends, {.colour = kInk, .width = 1.4});
}

struct BarLook {
  Quantity quantity = Quantity::kNumber;
  std::string_view colour{};
};

void draw_bar(Svg& svg, const Bar& bar, const Box& place, const Mapping& x, const BarLook& look) {
  const double middle = place.top + place.height / 2;
  double end = x(0);
  if (std::isfinite(bar.value)) {
    const double from = std::min(x(0), x(bar.value));
    const double to = std::max(x(0), x(bar.value));
    svg.rectangle(
        {.left = from, .top = place.top + 1, .width = to - from, .height = place.height - 2},
        look.colour);
    end = to;
  }
  if (bar.low && bar.high && std::isfinite(*bar.low) && std::isfinite(*bar.high)) {
    draw_whisker(svg, x(*bar.low), x(*bar.high), middle);
    end = std::max(end, x(*bar.high));
  }
  const std::string text =
      std::isfinite(bar.value) ? format_value(look.quantity, bar.value) : std::string("no value");
  svg.text(end + 7, middle + 4, text, {.font_pixels = 11, .colour = kInk});
}

void draw_bars(Svg& svg, const BarChart& chart, const Box& box, const Mapping& x) {
  for (std::size_t c = 0; c < chart.categories.size(); ++c) {
    const double top = box.top + static_cast<double>(c) * category_height(chart);
    svg.text(box.left - 9, top + category_height(chart) / 2 + 4,
             fitted(chart.categories[c], kLabelFont, kLabelWidthMax),
             {.font_pixels = kLabelFont, .colour = kInk, .anchor = Anchor::kEnd});
    for (std::size_t s = 0; s < chart.series.size(); ++s) {
      if (c >= chart.series[s].bars.size()) continue;
      const double height = bar_height(chart);
      const Box place{.left = box.left,
                      .top = top + kCategoryGap / 2 + static_cast<double>(s) * height,
                      .width = box.width,
                      .height = height};
      draw_bar(svg, chart.series[s].bars[c], place, x,
               {.quantity = chart.value.quantity, .colour = look_of(s).colour});
    }
  }
}

}  // namespace

std::string to_svg(const BarChart& chart) {
  Head head{.width = chart.width, .title = chart.title, .subtitle = chart.subtitle};
  for (std::size_t s = 0; s < chart.series.size(); ++s)
    if (!chart.series[s].name.empty())
      head.legend.push_back(
          {.name = chart.series[s].name, .colour = look_of(s).colour, .is_area = true});
  double widest = 40;
  for (const std::string& category : chart.categories)
    widest = std::max(widest, std::min(text_width(category, kLabelFont), kLabelWidthMax));
  const double categories = static_cast<double>(std::max<std::size_t>(chart.categories.size(), 1));
  Box box{.left = kMargin + widest + 10,
          .top = head_height(head) + 6,
          .height = categories * category_height(chart)};
  box.width = chart.width - kValueRoom - box.left;
  const Mapping x{.values = value_range(chart, ticks_across(box.width)),
                  .pixels = {.from = box.left, .to = box.right()}};

  const double height = box.bottom() + kXAxisHeight;
  Svg svg(chart.width, height, chart.title);
  svg.rectangle({.width = chart.width, .height = height}, kPanel);
  draw_head(svg, head);
  const Ticks ticks = linear_ticks(x.values, chart.value.quantity, ticks_across(box.width));
  draw_x_axis(svg, box, x, ticks, axis_title(chart.value, ticks));
  draw_bars(svg, chart, box, x);
  svg.line(x(0), box.top, x(0), box.bottom(), {.colour = kAxis});
  return svg.finish();
}

}  // namespace spindrift::chart
