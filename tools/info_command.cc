#include "tools/info_command.h"

#include <cstdio>
#include <string>

#include "spindrift/open.h"

#include "absl/strings/str_format.h"
#include "tools/exit_codes.h"
#include "tools/info/host.h"

namespace spindrift::tools {

void register_info(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("info", "Show providers, algorithms, limits and interfaces of this host");
  const std::string help = "one JSON document instead of text";
  const CLI::Option* json = command->add_flag("--json", help);
  command->callback([json, &exit_code] {
    const nlohmann::json host = describe_host(builtin_registry());
    absl::PrintF("%s", json->count() > 0 ? host.dump(2) + "\n" : format_host(host));
    exit_code = finish_output("info", kExitOk);
  });
}

}  // namespace spindrift::tools
