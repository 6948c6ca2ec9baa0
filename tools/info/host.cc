#include "tools/info/host.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "spindrift/open.h"
#include "spindrift/version.h"

#include "plugins/provider_modules.h"
#include "tools/info/devices.h"
#include "tools/info/system.h"

namespace spindrift::tools {
namespace {

using nlohmann::json;

// Providers of the design that this version does not contain.
struct PlannedProvider {
  std::string_view name;
  std::string_view summary;
};
constexpr std::array<PlannedProvider, 3> kPlannedProviders = {{
    {"verbs", "InfiniBand and RoCE NICs through libibverbs"},
    {"libfabric", "EFA and other fabrics through libfabric"},
    {"dpdk", "raw Ethernet ports through DPDK"},
}};

json describe_providers(const Registry& registry) {
  json out = json::array();
  for (const ProviderInfo& provider : registry.providers()) {
    const Status status = provider.probe == nullptr ? ok_status() : provider.probe();
    out.push_back({{"name", provider.name},
                   {"summary", provider.summary},
                   {"is_available", status.ok()},
                   {"reason", status.ok() ? "" : status.error().message()}});
    if (!status.ok()) continue;
    Url every_device;
    every_device.scheme = provider.name;
    const auto facts = describe_devices(every_device);
    if (facts.ok() && !facts.value().empty()) out.back()["devices"] = to_json(facts.value());
  }
  for (const PlannedProvider& planned : kPlannedProviders) {
    const bool is_known = std::any_of(out.begin(), out.end(),
                                      [&](const json& p) { return p["name"] == planned.name; });
    if (is_known) continue;
    out.push_back({{"name", planned.name},
                   {"summary", planned.summary},
                   {"is_available", false},
                   {"reason", "not in this version; use udp, which runs on every interface"}});
  }
  return out;
}

json describe_parameters(std::span<const ParameterInfo> parameters) {
  json out = json::array();
  for (const ParameterInfo& parameter : parameters) {
    out.push_back({{"name", parameter.name},
                   {"unit", parameter.unit},
                   {"default", parameter.default_value},
                   {"min", parameter.min},
                   {"max", parameter.max},
                   {"help", parameter.help},
                   {"source", parameter.source}});
  }
  return out;
}

json describe_sets(const CcInfo& algorithm) {
  json out = json::array();
  for (const ParameterSet& set : algorithm.sets) {
    json values = json::object();
    for (std::size_t i = 0; i < set.values.size(); ++i)
      values[std::string(algorithm.parameters[i].name)] = set.values[i];
    out.push_back(
        {{"name", set.name}, {"summary", set.summary}, {"source", set.source}, {"values", values}});
  }
  return out;
}

json describe_algorithms(const Registry& registry) {
  json out = json::array();
  for (const CcInfo& algorithm : registry.congestion_controls()) {
    json needs = json::array();
    if (algorithm.traits.needs_ecn) needs.push_back("ecn");
    if (algorithm.traits.needs_telemetry) needs.push_back("telemetry");
    if (algorithm.traits.needs_cnp) needs.push_back("cnp");
    if (algorithm.traits.is_receiver_driven) needs.push_back("receiver credit");
    out.push_back({{"name", algorithm.name},
                   {"summary", algorithm.summary},
                   {"needs", needs},
                   {"parameters", describe_parameters(algorithm.parameters)},
                   {"sets", describe_sets(algorithm)}});
  }
  return out;
}

// Of everything that has a name and a summary and no more.
template <class Info>
json describe_names(const std::vector<Info>& infos) {
  json out = json::array();
  for (const Info& info : infos) {
    out.push_back({{"name", info.name}, {"summary", info.summary}});
  }
  return out;
}

json describe_plugins() {
  json out = json::array();
  for (const PluginReport& plugin : plugins()) {
    out.push_back({{"file", plugin.file},
                   {"congestion_controls", plugin.congestion_controls},
                   {"path_selectors", plugin.path_selectors},
                   {"error", plugin.error}});
  }
  return out;
}

}  // namespace

json describe_host(const Registry& registry) {
  return {{"version", kVersion},
          {"wire_versions", {kWireVersionMin, kWireVersionMax}},
          {"providers", describe_providers(registry)},
          {"congestion_controls", describe_algorithms(registry)},
          {"path_selectors", describe_names(registry.path_selectors())},
          {"loss_rules", describe_names(registry.loss_rules())},
          {"plugins", describe_plugins()},
          {"cpu", describe_cpu()},
          {"limits", describe_limits()},
          {"interfaces", describe_interfaces()}};
}

}  // namespace spindrift::tools
