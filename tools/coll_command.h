#pragma once
// `spindrift coll`: collectives between processes, measured and verified.
#include <CLI/CLI.hpp>

#include "spindrift/tunables.h"

namespace spindrift::tools {

// Adds the command. When it has run, `exit_code` says how: 0, 1 for the network, a peer or a wrong
// result, 2 for wrong arguments.
void register_coll(CLI::App& app, const Result<Settings>& settings, int& exit_code);

}  // namespace spindrift::tools
