#include "tools/chart/quantity.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <span>

namespace spindrift::chart {
namespace {

constexpr std::array<Scale, 5> kTimes = {
    {{1, "ps"}, {1e3, "ns"}, {1e6, "µs"}, {1e9, "ms"}, {1e12, "s"}}};
constexpr std::array<Scale, 4> kBytes = {
    {{1, "B"}, {0x1p10, "KiB"}, {0x1p20, "MiB"}, {0x1p30, "GiB"}}};
constexpr std::array<Scale, 5> kRates = {
    {{1, "b/s"}, {1e3, "kb/s"}, {1e6, "Mb/s"}, {1e9, "Gb/s"}, {1e12, "Tb/s"}}};

Scale largest_fitting(std::span<const Scale> scales, double largest) {
  // A unit's rounding must not decide: 0.9999999 us is 1 us.
  Scale fitting = scales.front();
  for (const Scale& scale : scales)
    if (largest >= scale.divisor * (1 - 1e-9)) fitting = scale;
  return fitting;
}

int decimals_for(double number) {
  const double size = std::abs(number);
  if (size >= 100 || number == std::round(number)) return 0;
  return size >= 10 ? 1 : 2;
}

}  // namespace

Scale scale_for(Quantity quantity, double largest) {
  switch (quantity) {
    case Quantity::kNumber:
      return {};
    case Quantity::kTime:
      return largest_fitting(kTimes, largest);
    case Quantity::kBytes:
      return largest_fitting(kBytes, largest);
    case Quantity::kBitRate:
      return largest_fitting(kRates, largest);
    case Quantity::kShare:
      return {0.01, "%"};
  }
  return {};
}

std::string format_decimal(double number, int decimals) {
  std::array<char, 400> buffer{};
  const int length = std::snprintf(buffer.data(), buffer.size(), "%.*f", decimals, number);
  std::string text(buffer.data(), static_cast<std::size_t>(length));
  if (text.find_first_not_of("-0.") == std::string::npos) std::erase(text, '-');
  const std::size_t first_digit = text.starts_with('-') ? 1 : 0;
  const std::size_t end_of_whole = std::min(text.find('.'), text.size());
  for (std::size_t at = end_of_whole; at > first_digit + 3; at -= 3)
    text.insert(at - 3, 1, ',');
  return text;
}

std::string format_value(Quantity quantity, double value) {
  if (!std::isfinite(value)) return "–";
  const Scale scale = scale_for(quantity, std::abs(value));
  const double number = value / scale.divisor;
  std::string text = format_decimal(number, decimals_for(number));
  if (!scale.unit.empty()) text.append(" ").append(scale.unit);
  return text;
}

}  // namespace spindrift::chart
