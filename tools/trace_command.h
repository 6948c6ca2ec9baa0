#pragma once
// `spindrift trace`: what a flight recorder has written, for people.
#include <CLI/CLI.hpp>

namespace spindrift::tools {

// The command's exit code goes to `exit_code`, which must outlive the parsing.
void register_trace(CLI::App& app, int& exit_code);

}  // namespace spindrift::tools
