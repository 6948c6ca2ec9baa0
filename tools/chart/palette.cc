#include "tools/chart/palette.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

namespace spindrift::chart {
namespace {

struct Rgb {
  double red = 0;
  double green = 0;
  double blue = 0;
};

// Corners of the ramp, evenly spaced.
constexpr std::array<Rgb, 5> kRamp = {
    {{242, 246, 251}, {184, 210, 234}, {100, 160, 208}, {28, 100, 168}, {8, 42, 94}}};

std::string colour_at(double share) {
  const double place = share * (kRamp.size() - 1);
  const std::size_t corner = std::min(static_cast<std::size_t>(place), kRamp.size() - 2);
  const double part = place - static_cast<double>(corner);
  const auto mix = [part](double from, double to) {
    return static_cast<int>(std::lround(from + (to - from) * part));
  };
  const Rgb& from = kRamp[corner];
  const Rgb& to = kRamp[corner + 1];
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "#%02x%02x%02x", mix(from.red, to.red) & 0xff,
                mix(from.green, to.green) & 0xff, mix(from.blue, to.blue) & 0xff);
  return text.data();
}

std::array<std::string, kHeatLevels> heat_colours() {
  std::array<std::string, kHeatLevels> out;
  for (std::size_t level = 0; level < kHeatLevels; ++level)
    out[level] = colour_at(static_cast<double>(level) / (kHeatLevels - 1));
  return out;
}

}  // namespace

std::string_view heat_colour(std::size_t level) {
  static const std::array<std::string, kHeatLevels> colours = heat_colours();
  return colours[level];
}

}  // namespace spindrift::chart
