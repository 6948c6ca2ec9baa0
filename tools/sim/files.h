#pragma once
// Files that `spindrift sim` reads and writes. Errors name the file and what the operating system
// says.
#include <span>
#include <string>

#include "spindrift/result.h"

#include "tools/sim/runner.h"

namespace spindrift::simtool {

Result<std::string> read_file(const std::string& name);
// PREFIX-flows.csv and PREFIX-ports.csv; the run must have time series.
[[nodiscard]] Status write_series(const std::string& prefix, const sim::Results& results);
// One SVG per kind of figure in `folder`, which is made; a PNG beside each, if asked for. Those of
// several runs are numbered. What could not be drawn is told on standard error.
[[nodiscard]] Status write_plots(const std::string& folder, bool with_png,
                                 std::span<const FinishedRun> runs);
// One page about all runs.
[[nodiscard]] Status write_html(const std::string& name, std::span<const FinishedRun> runs);

}  // namespace spindrift::simtool
