#pragma once
// What a provider says about the devices of this host.
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "plugins/provider_modules.h"

namespace spindrift::tools {

// [{"name": "mlx5_0 port 1", "facts": [{name, value}]}], in the order of the facts.
nlohmann::json to_json(const std::vector<DeviceFact>& facts);

// Of that, indented by so many spaces.
void append_devices(const nlohmann::json& devices, std::size_t indent, std::string* out);

}  // namespace spindrift::tools
