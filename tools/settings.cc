#include "tools/settings.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_format.h"

namespace spindrift::tools {
namespace {

// Says who chose it, under the name it has there.
Error misnamed(const Settings& settings, std::string_view name, const Error& why) {
  const std::string_view origin = origin_of(settings, name);
  const std::string spelled =
      origin == "environment" ? environment_name(*find_tunable(name)) : std::string(name);
  return Error(ErrorCode::kInvalidArgument,
               absl::StrFormat("%s: %s: %s", origin, spelled, why.message()));
}

}  // namespace

Result<Settings> check_settings(Result<Settings> loaded, const Registry& registry,
                                std::span<const PluginReport> plugins) {
  if (!loaded.ok()) return loaded;
  for (const PluginReport& plugin : plugins)
    if (!plugin.error.empty())
      return Error(ErrorCode::kInvalidArgument, "environment: SPINDRIFT_PLUGINS: " + plugin.error);
  const ConnectOptions& connect = loaded.value().connect;
  const auto algorithm = registry.find_congestion_control(connect.congestion_control);
  if (!algorithm.ok()) return misnamed(loaded.value(), "congestion_control", algorithm.error());
  const auto selector = registry.find_path_selector(connect.path_selector);
  if (!selector.ok()) return misnamed(loaded.value(), "path_selector", selector.error());
  const auto loss_rule = registry.find_loss_rule(connect.loss_rule);
  if (!loss_rule.ok()) return misnamed(loaded.value(), "loss_rule", loss_rule.error());
  return loaded;
}

void print_warnings(const Settings& settings) {
  for (const std::string& warning : settings.warnings)
    absl::FPrintF(stderr, "spindrift: %s\n", warning);
}

}  // namespace spindrift::tools
