#include "tools/chart/frame.h"

#include <algorithm>
#include <cmath>

#include "tools/chart/palette.h"

namespace spindrift::chart {
namespace {

constexpr double kTitleFont = 16;
constexpr double kSampleWidth = 22;  // of a legend's piece of line
constexpr double kEntryGap = 18;

struct LegendPlace {
  double x = 0;
  int row = 0;
};

double entry_width(const LegendEntry& entry) {
  return kSampleWidth + 6 + text_width(entry.name, kLabelFont) + kEntryGap;
}

std::vector<LegendPlace> places_of(const std::vector<LegendEntry>& legend) {
  std::vector<LegendPlace> places;
  LegendPlace next{.x = kMargin, .row = 0};
  for (const LegendEntry& entry : legend) {
    const double width = entry_width(entry);
    if (next.x > kMargin && next.x + width - kEntryGap > kFigureWidth - kMargin)
      next = {.x = kMargin, .row = next.row + 1};
    places.push_back(next);
    next.x += width;
  }
  return places;
}

double legend_top(const Head& head) {
  return head.subtitle.empty() ? 38 : 56;
}

void draw_entry(Svg& svg, const LegendEntry& entry, double x, double baseline) {
  if (entry.is_area) {
    const Box swatch{.left = x, .top = baseline - 10, .width = kSampleWidth, .height = 11};
    svg.rectangle(swatch, entry.colour, entry.opacity);
  } else {
    svg.line(x, baseline - 4, x + kSampleWidth, baseline - 4,
             {.colour = entry.colour, .width = 2, .dashes = entry.dashes});
  }
  svg.text(x + kSampleWidth + 6, baseline,
           fitted(entry.name, kLabelFont, kFigureWidth - kMargin - x - kSampleWidth - 6),
           {.font_pixels = kLabelFont, .colour = kInk});
}

}  // namespace

double head_height(const Head& head) {
  if (head.legend.empty()) return legend_top(head);
  return legend_top(head) + (places_of(head.legend).back().row + 1) * kLineHeight + 8;
}

void draw_head(Svg& svg, const Head& head) {
  const double width = kFigureWidth - 2 * kMargin;
  svg.text(kMargin, 27, fitted(head.title, kTitleFont * 1.06, width),
           {.font_pixels = kTitleFont, .colour = kInk, .is_bold = true});
  svg.text(kMargin, 46, fitted(head.subtitle, kLabelFont, width),
           {.font_pixels = kLabelFont, .colour = kFaintInk});
  const std::vector<LegendPlace> places = places_of(head.legend);
  for (std::size_t i = 0; i < places.size(); ++i)
    draw_entry(svg, head.legend[i], places[i].x,
               legend_top(head) + places[i].row * kLineHeight + 13);
}

double Mapping::operator()(double value) const {
  const auto place = [this](double v) { return is_logarithmic ? std::log(v) : v; };
  const double span = place(values.to) - place(values.from);
  const double share = span == 0 ? 0 : (place(value) - place(values.from)) / span;
  return pixels.from + share * (pixels.to - pixels.from);
}

std::string axis_title(const Axis& axis, const Ticks& ticks) {
  return ticks.unit.empty() ? axis.title : axis.title + " (" + ticks.unit + ")";
}

Ticks ticks_for(const Axis& axis, const Mapping& mapping, int count_max) {
  if (axis.is_logarithmic) return logarithmic_ticks(mapping.values, axis.quantity, count_max);
  return linear_ticks(mapping.values, axis.quantity, count_max);
}

double y_axis_width(const Ticks& ticks) {
  double widest = 0;
  for (const Tick& tick : ticks.ticks)
    widest = std::max(widest, text_width(tick.label, kLabelFont));
  return kMargin + 16 + widest + 8;
}

void draw_x_axis(Svg& svg, const Box& box, const Mapping& mapping, const Ticks& ticks,
                 std::string_view title) {
  const TextStyle style{.font_pixels = kLabelFont, .colour = kFaintInk, .anchor = Anchor::kMiddle};
  for (const Tick& tick : ticks.ticks) {
    const double x = mapping(tick.value);
    svg.line(x, box.top, x, box.bottom(), {.colour = kGrid});
    svg.line(x, box.bottom(), x, box.bottom() + 4, {.colour = kAxis});
    svg.text(x, box.bottom() + 17, tick.label, style);
  }
  svg.line(box.left, box.bottom(), box.right(), box.bottom(), {.colour = kAxis});
  svg.text(box.left + box.width / 2, box.bottom() + 37, title,
           {.font_pixels = kLabelFont, .colour = kInk, .anchor = Anchor::kMiddle});
}

void draw_y_axis(Svg& svg, const Box& box, const Mapping& mapping, const Ticks& ticks,
                 std::string_view title) {
  const TextStyle style{.font_pixels = kLabelFont, .colour = kFaintInk, .anchor = Anchor::kEnd};
  for (const Tick& tick : ticks.ticks) {
    const double y = mapping(tick.value);
    svg.line(box.left, y, box.right(), y, {.colour = kGrid});
    svg.text(box.left - 7, y + 4, tick.label, style);
  }
  svg.line(box.left, box.top, box.left, box.bottom(), {.colour = kAxis});
  svg.text(
      kMargin + 8, box.top + box.height / 2, title,
      {.font_pixels = kLabelFont, .colour = kInk, .anchor = Anchor::kMiddle, .is_upright = true});
}

}  // namespace spindrift::chart
