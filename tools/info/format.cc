// The text form of what describe_host() found.
#include "absl/strings/str_format.h"
#include "tools/info/devices.h"
#include "tools/info/host.h"

namespace spindrift::tools {
namespace {

using nlohmann::json;

std::string text(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return absl::StrFormat("%g", value.get<double>());
  return value.dump();
}

std::string joined(const json& list, const char* separator) {
  std::string out;
  for (const json& entry : list) {
    if (!out.empty()) out += separator;
    out += text(entry);
  }
  return out;
}

void append_providers(const json& providers, std::string* out) {
  *out += "\nProviders\n";
  for (const json& provider : providers) {
    const bool is_available = provider["is_available"].get<bool>();
    absl::StrAppendFormat(out, "  %-12s %-10s %s\n", text(provider["name"]),
                          is_available ? "ready" : "absent", text(provider["summary"]));
    if (!is_available) absl::StrAppendFormat(out, "  %23s %s\n", "", text(provider["reason"]));
    if (provider.contains("devices")) append_devices(provider["devices"], 15, out);
  }
}

void append_algorithms(const json& algorithms, std::string* out) {
  *out += "\nCongestion control (--cc NAME or NAME:parameter=value,...)\n";
  for (const json& algorithm : algorithms) {
    const std::string needs = joined(algorithm["needs"], ", ");
    absl::StrAppendFormat(out, "  %-14s %s%s\n", text(algorithm["name"]),
                          text(algorithm["summary"]),
                          needs.empty() ? "" : absl::StrFormat(" (needs %s)", needs));
    for (const json& parameter : algorithm["parameters"]) {
      absl::StrAppendFormat(out, "    %-22s %s %s (%s..%s): %s\n", text(parameter["name"]),
                            text(parameter["default"]), text(parameter["unit"]),
                            text(parameter["min"]), text(parameter["max"]),
                            text(parameter["help"]));
    }
    for (const json& set : algorithm["sets"]) {
      absl::StrAppendFormat(out, "    %-22s %s (%s)\n", "set=" + text(set["name"]),
                            text(set["summary"]), text(set["source"]));
    }
  }
}

void append_names(std::string_view title, const json& named, std::string* out) {
  absl::StrAppendFormat(out, "\n%s\n", title);
  for (const json& one : named) {
    absl::StrAppendFormat(out, "  %-16s %s\n", text(one["name"]), text(one["summary"]));
  }
}

void append_plugins(const json& plugins, std::string* out) {
  if (plugins.empty()) return;
  *out += "\nPlug-ins\n";
  for (const json& plugin : plugins) {
    json offers = plugin["congestion_controls"];
    offers.insert(offers.end(), plugin["path_selectors"].begin(), plugin["path_selectors"].end());
    const bool is_loaded = text(plugin["error"]).empty();
    absl::StrAppendFormat(
        out, "  %s %s\n", text(plugin["file"]),
        is_loaded ? "offers " + joined(offers, ", ") : "is not loaded: " + text(plugin["error"]));
  }
}

void append_limits(const json& limits, std::string* out) {
  *out += "\nLimits\n";
  for (const json& limit : limits) {
    const bool is_enough = limit["is_enough"].get<bool>();
    absl::StrAppendFormat(out, "  %-18s %-12s %s: %s\n", text(limit["name"]), text(limit["value"]),
                          is_enough ? "ok" : "LOW", text(limit["why"]));
    if (!is_enough) {
      absl::StrAppendFormat(out, "  %31s wanted %s: %s\n", "", text(limit["wanted"]),
                            text(limit["remedy"]));
    }
  }
}

void append_interfaces(const json& interfaces, std::string* out) {
  *out += "\nInterfaces\n";
  for (const json& entry : interfaces) {
    const std::string speed =
        entry.contains("speed_mbps")
            ? absl::StrFormat("%g Gb/s", entry["speed_mbps"].get<double>() / 1000)
            : "speed unknown";
    absl::StrAppendFormat(out, "  %-14s %-5s MTU %-6s %-14s %s\n", text(entry["name"]),
                          entry["is_up"].get<bool>() ? "up" : "down",
                          entry.contains("mtu") ? text(entry["mtu"]) : "?", speed,
                          joined(entry["addresses"], " "));
  }
}

}  // namespace

std::string format_host(const json& host) {
  std::string out = absl::StrFormat("Spindrift %s, wire versions %s\n", text(host["version"]),
                                    joined(host["wire_versions"], ".."));
  append_providers(host["providers"], &out);
  append_algorithms(host["congestion_controls"], &out);
  append_names("Path selectors (--path-selector NAME)", host["path_selectors"], &out);
  append_names("Loss rules (--loss NAME)", host["loss_rules"], &out);
  append_plugins(host["plugins"], &out);
  absl::StrAppendFormat(&out, "\nCPU\n  %s\n ", text(host["cpu"]["model"]));
  const json& features = host["cpu"]["features"];
  for (auto at = features.begin(); at != features.end(); ++at) {
    absl::StrAppendFormat(&out, " %s: %s ", at.key(), at->get<bool>() ? "yes" : "no");
  }
  out += "\n";
  append_limits(host["limits"], &out);
  append_interfaces(host["interfaces"], &out);
  return out;
}

}  // namespace spindrift::tools
