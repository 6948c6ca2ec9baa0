#pragma once
// `spindrift info --tunables`: every tunable, what it is now, and who said so.
#include <string>

#include <nlohmann/json.hpp>

#include "spindrift/tunables.h"

namespace spindrift::tools {

// [{name, environment, unit, default, bounds, value, origin, help}], in the order of the table.
// "value" of a name that only the environment knows is null.
nlohmann::json describe_tunables(const Settings& settings);

std::string format_tunables(const nlohmann::json& list);

}  // namespace spindrift::tools
