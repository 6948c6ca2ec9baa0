#pragma once
// One self-contained page about one run or several side by side: no scripts, nothing loaded.
#include <span>
#include <string>

#include "sim/simulation.h"

namespace spindrift::simtool {

struct ReportedRun {
  std::string title{};
  sim::Scenario scenario{};
  sim::Results results{};
};

// Figures over time are drawn for so many runs; tables and comparisons hold all of them.
inline constexpr std::size_t kDrawnRunsMax = 8;
// Comparisons as bars and curves stay readable up to so many.
inline constexpr std::size_t kBarsMax = 40;

// A page of well-formed XML that is HTML too. The same runs give the same bytes, but for the
// processor time that they took.
std::string html_report(std::string_view title, std::span<const ReportedRun> runs);

}  // namespace spindrift::simtool
