#pragma once
// Figures of one run: what a scenario and its results look like. Charts are data until draw(), so
// that those of several runs can be given the same scales.
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "sim/simulation.h"
#include "tools/chart/bar_chart.h"
#include "tools/chart/cdf_chart.h"
#include "tools/chart/heat_map.h"
#include "tools/chart/line_chart.h"

namespace spindrift::simtool {

using Chart = std::variant<chart::LineChart, chart::CdfChart, chart::BarChart, chart::HeatMap>;

struct Plot {
  std::string name{};   // of a file, without extension: "rates"
  std::string title{};  // "Rates over time"
  Chart chart{};
  // Not empty: there is nothing to draw, and this sentence says why and what to set.
  std::string missing{};
};

// In a fixed order, one of each kind: rates, windows, pacing, queues, completion, links, paths.
// Kinds that cannot exist in this scenario are left out (pacing: nothing was paced).
std::vector<Plot> plots_of(const sim::Scenario& scenario, const sim::Results& results);

// "leaf_spine, 16 hosts, incast 8:1 of 1 MiB, nscc, 64 paths by mixed, seed 1".
std::string describe(const sim::Scenario& scenario);

struct NamedResults {
  std::string name{};
  const sim::Results* results = nullptr;
};
// Completion times of several runs in one chart.
Plot compare_completions(std::span<const NamedResults> runs, std::string subtitle);

// Gives the charts the same axes where they show the same quantities.
void share_scales(std::span<Plot*> plots);

// SVG, so many pixels wide; the plot is not missing.
std::string draw(Plot plot, double width = chart::kFigureWidth);

}  // namespace spindrift::simtool
