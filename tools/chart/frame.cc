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
  double baseline = 0;
};

double entry_width(const LegendEntry& entry) {
  return kSampleWidth + 6 + text_width(entry.name, kLabelFont) + kEntryGap;
}

// At spaces, in at most two lines.
std::vector<std::string> subtitle_lines(const Head& head) {
  const double width = head.width - 2 * kMargin;
  const std::string& text = head.subtitle;
  if (text.empty()) return {};
  if (text_width(text, kLabelFont) <= width) return {text};
  std::size_t end = text.find(' ');
  for (std::size_t space = end; space != std::string::npos; space = text.find(' ', space + 1)) {
    if (text_width(text.substr(0, space), kLabelFont) > width) break;
    end = space;
  }
  if (end == std::string::npos) return {fitted(text, kLabelFont, width)};
  return {fitted(text.substr(0, end), kLabelFont, width),
          fitted(text.substr(end + 1), kLabelFont, width)};
}

double legend_top(const Head& head) {
  return 38 + 17 * static_cast<double>(subtitle_lines(head).size());
}

std::vector<LegendPlace> places_of(const Head& head) {
  std::vector<LegendPlace> places;
  LegendPlace next{.x = kMargin, .baseline = legend_top(head) + 13};
  for (const LegendEntry& entry : head.legend) {
    const double width = entry_width(entry);
    if (next.x > kMargin && next.x + width - kEntryGap > head.width - kMargin)
      next = {.x = kMargin, .baseline = next.baseline + kLineHeight};
    places.push_back(next);
    next.x += width;
  }
  return places;
}

void draw_entry(Svg& svg, const LegendEntry& entry, const LegendPlace& place, double right) {
  const double x = place.x;
  const double baseline = place.baseline;
  if (entry.is_area) {
    const Box swatch{.left = x, .top = baseline - 10, .width = kSampleWidth, .height = 11};
    svg.rectangle(swatch, entry.colour, entry.opacity);
  } else {
    svg.line(x, baseline - 4, x + kSampleWidth, baseline - 4,
             {.colour = entry.colour, .width = 2, .dashes = entry.dashes});
  }
  svg.text(x + kSampleWidth + 6, baseline,
           fitted(entry.name, kLabelFont, right - x - kSampleWidth - 6),
           {.font_pixels = kLabelFont, .colour = kInk});
}

}  // namespace

double head_height(const Head& head) {
  if (head.legend.empty()) return legend_top(head);
  return places_of(head).back().baseline + 12;
}

void draw_head(Svg& svg, const Head& head) {
  const double width = head.width - 2 * kMargin;
  svg.text(kMargin, 27, fitted(head.title, kTitleFont * 1.06, width),
           {.font_pixels = kTitleFont, .colour = kInk, .is_bold = true});
  double baseline = 46;
  for (const std::string& line : subtitle_lines(head)) {
    svg.text(kMargin, baseline, line, {.font_pixels = kLabelFont, .colour = kFaintInk});
    baseline += 17;
  }
  const std::vector<LegendPlace> places = places_of(head);
  for (std::size_t i = 0; i < places.size(); ++i)
    draw_entry(svg, head.legend[i], places[i], head.width - kMargin);
}

int ticks_across(double width) {
  return std::max(3, static_cast<int>(width / 70));
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
