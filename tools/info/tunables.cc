#include "tools/info/tunables.h"

#include "absl/strings/str_format.h"

namespace spindrift::tools {
namespace {

using nlohmann::json;

std::string unit_of(const Tunable& tunable) {
  switch (tunable.type) {
    case TunableType::kFlag:
    case TunableType::kChoice:
    case TunableType::kText:
    case TunableType::kList:
      return "-";
    case TunableType::kCount:
    case TunableType::kBytes:
    case TunableType::kDuration:
    case TunableType::kRate:
      return tunable.unit.empty() ? "-" : std::string(tunable.unit);
  }
  return "-";
}

std::string shown(const json& value) {
  if (!value.is_string()) return "-";
  const std::string text = value.get<std::string>();
  return text.empty() ? "\"\"" : text;
}

}  // namespace

json describe_tunables(const Settings& settings) {
  const Settings defaults;
  json list = json::array();
  for (const Tunable& tunable : tunables()) {
    const bool has_field = tunable.get != nullptr;
    list.push_back(
        {{"name", tunable.name},
         {"environment", environment_name(tunable)},
         {"unit", unit_of(tunable)},
         {"default", has_field ? json(format_value(tunable, tunable.get(defaults))) : json()},
         {"bounds", format_bounds(tunable)},
         {"value", has_field ? json(format_value(tunable, tunable.get(settings))) : json()},
         {"origin", origin_of(settings, tunable.name)},
         {"help", tunable.help}});
  }
  return list;
}

std::string format_tunables(const json& list) {
  std::string out = absl::StrFormat("%-24s %-12s %-10s %-40s %-14s %s\n", "NAME", "UNIT", "DEFAULT",
                                    "BOUNDS", "VALUE", "FROM");
  for (const json& one : list) {
    absl::StrAppendFormat(&out, "%-24s %-12s %-10s %-40s %-14s %s\n",
                          one["name"].get<std::string>(), one["unit"].get<std::string>(),
                          shown(one["default"]), one["bounds"].get<std::string>(),
                          shown(one["value"]), one["origin"].get<std::string>());
    absl::StrAppendFormat(&out, "    %s\n", one["help"].get<std::string>());
  }
  return out +
         "\nSet them as 'name = value' in /etc/spindrift.conf or ~/.config/spindrift.conf (or in "
         "the file\nthat SPINDRIFT_CONFIG names), or in the environment as SPINDRIFT_NAME. "
         "docs/TUNABLES.md explains.\n";
}

}  // namespace spindrift::tools
