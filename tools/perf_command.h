#pragma once
// `spindrift perf`: bandwidth and latency between two processes, and acceptance by exit code.
#include <CLI/CLI.hpp>

namespace spindrift::tools {

// The command's exit code goes to `exit_code`, which must outlive the parsing.
void register_perf(CLI::App& app, int& exit_code);

}  // namespace spindrift::tools
