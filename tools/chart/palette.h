#pragma once
// Colours that people with any colour vision tell apart on white, and in grey.
#include <array>
#include <cstddef>
#include <string_view>

namespace spindrift::chart {

inline constexpr std::string_view kPanel = "#ffffff";
inline constexpr std::string_view kInk = "#222222";
inline constexpr std::string_view kFaintInk = "#5f6670";
inline constexpr std::string_view kGrid = "#e3e6ea";
inline constexpr std::string_view kAxis = "#8a919b";

// Okabe and Ito, "Color Universal Design" (2008), without the yellow, which is lost on white.
inline constexpr std::array<std::string_view, 7> kSeriesColours = {
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#222222"};
// Once the colours are used up, they come again with these.
inline constexpr std::array<std::string_view, 4> kSeriesDashes = {"", "7 3", "2 2.5", "9 3 2 3"};

struct LineLook {
  std::string_view colour{};
  std::string_view dashes{};
};
constexpr LineLook look_of(std::size_t series) {
  return {.colour = kSeriesColours[series % kSeriesColours.size()],
          .dashes = kSeriesDashes[series / kSeriesColours.size() % kSeriesDashes.size()]};
}

// From nothing (light) to full (dark), even in lightness, one hue.
inline constexpr std::size_t kHeatLevels = 32;
// "#rrggbb" of a level below kHeatLevels.
std::string_view heat_colour(std::size_t level);

}  // namespace spindrift::chart
