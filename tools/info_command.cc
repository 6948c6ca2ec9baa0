#include "tools/info_command.h"

#include <cstdio>
#include <memory>
#include <string>

#include "spindrift/open.h"

#include "absl/strings/str_format.h"
#include "tools/exit_codes.h"
#include "tools/info/host.h"
#include "tools/info/opened.h"
#include "tools/info/tunables.h"
#include "tools/settings.h"

namespace spindrift::tools {
namespace {

constexpr const char* kFooter = R"(
EXAMPLES
  spindrift info                                   this host
  spindrift info udp://10.0.0.1                    what a provider can do there
  spindrift info --tunables                        every setting: unit, default, bounds, value, origin
  SPINDRIFT_PATH_COUNT=4 spindrift info --tunables --json

EXIT CODES
  0 done; 1 the address could not be opened, or the output not written; 2 wrong arguments, or a setting out of its bounds)";

int show_tunables(const Result<Settings>& loaded, bool is_json) {
  const Result<Settings> settings = check_settings(loaded, builtin_registry(), plugins());
  if (!settings.ok()) return complain("info", settings.error().message(), kExitUsage);
  print_warnings(settings.value());
  const nlohmann::json list = describe_tunables(settings.value());
  absl::PrintF("%s", is_json ? list.dump(2) + "\n" : format_tunables(list));
  return finish_output("info", kExitOk);
}

int show_opened(const std::string& address, bool is_json) {
  const Result<nlohmann::json> opened = describe_opened(builtin_registry(), address);
  if (!opened.ok()) {
    const bool is_usage = opened.error().code() == ErrorCode::kInvalidArgument;
    return complain("info", opened.error().message(), is_usage ? kExitUsage : kExitFailure);
  }
  absl::PrintF("%s", is_json ? opened.value().dump(2) + "\n" : format_opened(opened.value()));
  return finish_output("info", kExitOk);
}

int show_host(bool is_json) {
  const nlohmann::json host = describe_host(builtin_registry());
  absl::PrintF("%s", is_json ? host.dump(2) + "\n" : format_host(host));
  return finish_output("info", kExitOk);
}

}  // namespace

void register_info(CLI::App& app, const Result<Settings>& settings, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "info", "Show providers, algorithms, limits and interfaces of this host, or all settings");
  const std::string json_help = "one JSON document instead of text";
  const CLI::Option* json = command->add_flag("--json", json_help);
  const std::string tunables_help = "every setting instead: what it is, and who said so";
  const CLI::Option* tunables = command->add_flag("--tunables", tunables_help);
  auto address = std::make_shared<std::string>();
  const std::string address_help =
      "of a provider, \"udp://10.0.0.1\": it is opened, and what it can do there is said";
  command->add_option("address", *address, address_help);
  command->footer(kFooter);
  command->callback([json, tunables, address, &settings, &exit_code] {
    const bool is_json = json->count() > 0;
    exit_code = tunables->count() > 0 ? show_tunables(settings, is_json)
                : !address->empty()   ? show_opened(*address, is_json)
                                      : show_host(is_json);
  });
}

}  // namespace spindrift::tools
