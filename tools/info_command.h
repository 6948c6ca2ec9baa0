#pragma once
// `spindrift info`: what this host offers and what it lacks.
#include <CLI/CLI.hpp>

namespace spindrift::tools {

// The command's exit code goes to `exit_code`, which must outlive the parsing.
void register_info(CLI::App& app, int& exit_code);

}  // namespace spindrift::tools
