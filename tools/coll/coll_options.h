#pragma once
// The options of `spindrift coll`, and which of them go together.
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "spindrift/bootstrap.h"

#include "tools/coll/options.h"

namespace spindrift::coll {

// Those of options.collective. `options` must outlive `app`.
void add_options(CLI::App& app, Options& options);

// Empty, or what is wrong with what the command line said: a sentence. `launch`: what started this
// process. Fills what follows from other options.
std::string check_options(const CLI::App& app, const std::optional<Launch>& launch,
                          Options& options);

}  // namespace spindrift::coll
