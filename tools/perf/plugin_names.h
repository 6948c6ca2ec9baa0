#pragma once
// Plug-ins of the command line: the other side is told names only, since nobody should load a file
// because a peer says so.
#include "spindrift/result.h"

#include "tools/perf/arguments.h"

namespace spindrift::perf {

// Replaces files in --cc and --path-selector by the names they offer, and makes this process and
// the ones it starts know these names, by SPINDRIFT_PLUGINS. Before the first look at
// builtin_registry(), and before there are threads.
[[nodiscard]] Status adopt_plugins(PerfArguments& arguments);

}  // namespace spindrift::perf
