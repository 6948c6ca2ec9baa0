#pragma once
// `spindrift sim`: the fabric simulator.
#include <CLI/CLI.hpp>

namespace spindrift::tools {

// The command's exit code goes to `exit_code`, which must outlive the parsing.
void register_sim(CLI::App& app, int& exit_code);

}  // namespace spindrift::tools
