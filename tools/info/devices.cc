#include "tools/info/devices.h"

#include "absl/strings/str_format.h"

namespace spindrift::tools {

using nlohmann::json;

json to_json(const std::vector<DeviceFact>& facts) {
  json out = json::array();
  for (const DeviceFact& fact : facts) {
    if (out.empty() || out.back()["name"] != fact.device)
      out.push_back({{"name", fact.device}, {"facts", json::array()}});
    out.back()["facts"].push_back({{"name", fact.name}, {"value", fact.value}});
  }
  return out;
}

void append_devices(const json& devices, std::size_t indent, std::string* out) {
  const std::string space(indent, ' ');
  for (const json& device : devices) {
    absl::StrAppendFormat(out, "%s%s\n", space, device["name"].get<std::string>());
    for (const json& fact : device["facts"])
      absl::StrAppendFormat(out, "%s  %-14s %s\n", space, fact["name"].get<std::string>(),
                            fact["value"].get<std::string>());
  }
}

}  // namespace spindrift::tools
