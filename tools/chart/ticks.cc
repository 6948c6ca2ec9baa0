#include "tools/chart/ticks.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace spindrift::chart {
namespace {

// The smallest of 1, 2, 5 * 10^k by which `span` is passed in at most `steps` steps.
double nice_step(double span, int steps) {
  const double least = span / steps;
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

int decimals_of(double step) {
  return std::max(0, -static_cast<int>(std::floor(std::log10(step) + 1e-9)));
}

struct Steps {
  Scale scale{};
  double step = 1;  // in the scale's unit
};

Steps steps_for(Range range, Quantity quantity, int count_max) {
  const Scale scale = scale_for(quantity, std::max(std::abs(range.from), std::abs(range.to)));
  double step = nice_step((range.to - range.from) / scale.divisor, std::max(count_max - 1, 1));
  // There are no parts of a byte, of a picosecond, or of what is counted.
  const bool is_whole = scale.divisor == 1 && quantity != Quantity::kNumber;
  if (is_whole) step = std::max(step, 1.0);
  return {.scale = scale, .step = step};
}

}  // namespace

Ticks linear_ticks(Range range, Quantity quantity, int count_max) {
  Ticks out;
  if (!(range.from < range.to)) {
    out.ticks.push_back({.value = range.from, .label = format_value(quantity, range.from)});
    return out;
  }
  const auto [scale, step] = steps_for(range, quantity, count_max);
  const double from = range.from / scale.divisor;
  const double to = range.to / scale.divisor;
  const int decimals = decimals_of(step);
  out.unit = scale.unit;
  // Counted in whole steps, so that no rounding adds up.
  const double slack = 1e-9;
  const auto first = static_cast<std::int64_t>(std::ceil(from / step - slack));
  const auto last = static_cast<std::int64_t>(std::floor(to / step + slack));
  for (std::int64_t n = first; n <= last; ++n) {
    const double number = static_cast<double>(n) * step;
    out.ticks.push_back(
        {.value = number * scale.divisor, .label = format_decimal(number, decimals)});
  }
  return out;
}

Ticks logarithmic_ticks(Range range, Quantity quantity, int count_max) {
  const double base = quantity == Quantity::kBytes ? 2 : 10;
  const double log_base = std::log(base);
  const double slack = 1e-9;
  const auto first = static_cast<int>(std::ceil(std::log(range.from) / log_base - slack));
  const auto last = static_cast<int>(std::floor(std::log(range.to) / log_base + slack));
  const int stride = std::max(1, (last - first) / count_max + 1);
  std::vector<double> values;
  for (int exponent = first; exponent <= last; exponent += stride)
    values.push_back(std::pow(base, exponent));
  const bool has_room = base == 10 && stride == 1 && 3 * (last - first + 2) <= count_max;
  for (int exponent = first - 1; has_room && exponent <= last; ++exponent)
    for (const double factor : {2.0, 5.0}) {
      const double value = factor * std::pow(base, exponent);
      if (value >= range.from * (1 - slack) && value <= range.to * (1 + slack))
        values.push_back(value);
    }
  std::sort(values.begin(), values.end());
  Ticks out;
  for (const double value : values)
    out.ticks.push_back({.value = value, .label = format_value(quantity, value)});
  return out;
}

Range rounded_range(Range data, Quantity quantity, int count_max) {
  Range range{.from = std::min(data.from, 0.0), .to = std::max(data.to, 0.0)};
  if (!(range.from < range.to)) range.to = range.from + 1;
  const auto [scale, step] = steps_for(range, quantity, count_max);
  const double whole = step * scale.divisor;
  const double slack = 1e-9;
  return {.from = std::floor(range.from / whole + slack) * whole,
          .to = std::ceil(range.to / whole - slack) * whole};
}

}  // namespace spindrift::chart
