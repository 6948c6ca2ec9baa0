#pragma once
// What files and the environment say, for the commands of the tool.
#include <span>
#include <string_view>

#include "spindrift/open.h"
#include "spindrift/registry.h"
#include "spindrift/tunables.h"

namespace spindrift::tools {

// The settings, once the names of algorithms and policies in them are known to `registry` too, and
// all `plugins` that the environment names are loaded.
Result<Settings> check_settings(Result<Settings> loaded, const Registry& registry,
                                std::span<const PluginReport> plugins);

// Prints what was not understood to standard error, a line each.
void print_warnings(const Settings& settings);

}  // namespace spindrift::tools
