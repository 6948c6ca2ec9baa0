#pragma once
// Runs what was planned, several at a time, with progress on a terminal.
#include <optional>
#include <string>
#include <vector>

#include "spindrift/registry.h"

#include "sim/simulation.h"
#include "tools/sim/plan.h"

namespace spindrift::simtool {

struct FinishedRun {
  const PlannedRun* plan = nullptr;
  sim::Results results{};
};

struct RunnerOptions {
  unsigned threads = 1;
  bool shows_progress = false;           // on standard error
  bool keeps_series = true;              // false: time series and shares are dropped to save memory
  sim::RunObserver* observer = nullptr;  // of a run that is the only one
};

struct RunnerOutcome {
  // In the plan's order. Interrupted runs are left out, but for one that is the only one: it is
  // here as far as it came.
  std::vector<FinishedRun> finished{};
  std::optional<std::string> error{};  // of the first run that was refused: no run begins then
  bool is_interrupted = false;
};

// `plans` must outlive the outcome.
RunnerOutcome run_all(const std::vector<PlannedRun>& plans, const Registry& registry,
                      const RunnerOptions& options);

}  // namespace spindrift::simtool
