#pragma once
// `spindrift perf`: bandwidth and latency between two processes, and acceptance by exit code.
#include <CLI/CLI.hpp>

#include "spindrift/tunables.h"

namespace spindrift::tools {

// The command's exit code goes to `exit_code`, which must outlive the parsing, as `settings`
// must.
void register_perf(CLI::App& app, const Result<Settings>& settings, int& exit_code);

}  // namespace spindrift::tools
