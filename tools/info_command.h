#pragma once
// `spindrift info`: what this host offers and what it lacks, and every setting.
#include <CLI/CLI.hpp>

#include "spindrift/tunables.h"

namespace spindrift::tools {

// The command's exit code goes to `exit_code`, which must outlive the parsing, as `settings` must.
void register_info(CLI::App& app, const Result<Settings>& settings, int& exit_code);

}  // namespace spindrift::tools
