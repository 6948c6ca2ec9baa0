#pragma once
// What was found, for people (tables), for machines (JSON, CSV) and for plots (time series).
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tools/sim/runner.h"
#include "tools/sim/summary.h"

namespace spindrift::simtool {

// The runs of one point: their seeds' summaries, and the first run.
struct Point {
  const FinishedRun* first = nullptr;
  std::vector<Summary> seeds;
};
std::vector<Point> points_of(std::span<const FinishedRun> runs);
// The mean over the seeds, number by number.
double mean_of(const Point& point, const Figure& figure);

// One run in detail: what it was, completions, network, the ports that queued most.
std::string detail_text(const FinishedRun& run);
// Several: a line per point.
std::string table_text(std::span<const FinishedRun> runs);

// {"scenario": {...}, "seed": 1, "summary": {...}, "flows": [...], "ports": [...], ...} a run.
nlohmann::ordered_json to_json(const FinishedRun& run);
// A line per run: what varied, the seed, every figure.
std::string summary_csv(std::span<const FinishedRun> runs);
// at_ps, then per flow and per port; empty without time series.
std::string flow_series_csv(const sim::Results& results);
std::string port_series_csv(const sim::Results& results);

}  // namespace spindrift::simtool
