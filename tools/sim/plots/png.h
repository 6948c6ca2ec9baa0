#pragma once
// Figures as pixels, by a program that draws SVG.
#include <string>

#include "spindrift/result.h"

namespace spindrift::simtool {

// Makes a PNG, twice as large, of an SVG file, by rsvg-convert (Debian: librsvg2-bin). Errors:
// kUnsupported if that program is not there, kIo if it fails (it says why on standard error).
[[nodiscard]] Status convert_to_png(const std::string& svg_file, const std::string& png_file);

}  // namespace spindrift::simtool
