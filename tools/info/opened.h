#pragma once
// What a provider can do once an address has opened it.
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "spindrift/registry.h"

namespace spindrift::tools {

// {"provider", "addresses": [...], "properties": [{name, value}], "devices": [{name, facts}]};
// opens the address, and closes it.
Result<nlohmann::json> describe_opened(const Registry& registry, std::string_view address);

std::string format_opened(const nlohmann::json& opened);

}  // namespace spindrift::tools
