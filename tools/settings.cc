#include "tools/settings.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_format.h"

namespace spindrift::tools {
namespace {

Error misnamed(const Settings& settings, std::string_view name, const Error& why) {
  return Error(ErrorCode::kInvalidArgument,
               absl::StrFormat("%s: %s: %s", origin_of(settings, name), name, why.message()));
}

}  // namespace

Result<Settings> check_settings(Result<Settings> loaded, const Registry& registry) {
  if (!loaded.ok()) return loaded;
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
