#pragma once
// What this host offers to Spindrift and what it lacks, as one JSON document and as text.
#include <string>

#include <nlohmann/json.hpp>

#include "spindrift/registry.h"

namespace spindrift::tools {

// {"version", "providers": [{name, summary, is_available, reason, devices: [{name, facts}]}],
//  "congestion_controls": [{name, summary, needs, parameters: [...], sets: [...]}],
//  "path_selectors": [{name, summary}], "loss_rules": [{name, summary}],
//  "cpu": {model, features: {name: bool}}, "limits": [{name, value, wanted, is_enough, remedy}],
//  "interfaces": [{name, is_up, mtu, speed_mbps, addresses}]}
nlohmann::json describe_host(const Registry& registry);

std::string format_host(const nlohmann::json& host);

}  // namespace spindrift::tools
