// The `spindrift` command: finds the subcommand, and turns parse errors into one sentence.
#include <iostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "spindrift/version.h"

#include "tools/coll_command.h"
#include "tools/exit_codes.h"
#include "tools/info_command.h"
#include "tools/perf_command.h"
#include "tools/settings.h"
#include "tools/sim_command.h"
#include "tools/trace_command.h"

namespace {

// The name of the subcommand on the command line, for messages.
std::string command_of(const CLI::App& app) {
  const auto used = app.get_subcommands();
  return used.empty() ? std::string("command line") : used.front()->get_name();
}

// What stands where a command of the subcommand is due; empty: nothing, or one that exists.
std::string unknown_below(const CLI::App& app) {
  const auto used = app.get_subcommands();
  if (used.empty() || used.front()->get_require_subcommand_min() == 0) return {};
  const CLI::App& group = *used.front();
  const std::vector<std::string> unknown = group.remaining();
  return group.get_subcommands().empty() && !unknown.empty() ? unknown.front() : std::string();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Spindrift: multipath reliable RDMA transport in user space", "spindrift");
  app.set_version_flag("--version", "spindrift " + std::string(spindrift::kVersion));
  app.require_subcommand(1);
  int exit_code = spindrift::tools::kExitOk;
  const spindrift::Result<spindrift::Settings> settings = spindrift::load_settings();
  spindrift::tools::register_perf(app, settings, exit_code);
  spindrift::tools::register_coll(app, settings, exit_code);
  spindrift::tools::register_info(app, settings, exit_code);
  spindrift::tools::register_sim(app, exit_code);
  spindrift::tools::register_trace(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    const std::vector<std::string> unknown = app.remaining();
    if (app.get_subcommands().empty() && !unknown.empty()) {
      return spindrift::tools::complain(
          "command line",
          "there is no command '" + unknown.front() + "'; 'spindrift --help' lists them",
          spindrift::tools::kExitUsage);
    }
    const std::string command = command_of(app);
    if (const std::string word = unknown_below(app); !word.empty()) {
      return spindrift::tools::complain(command,
                                        "there is no '" + word +
                                            "' among its commands; 'spindrift " + command +
                                            " --help' lists them",
                                        spindrift::tools::kExitUsage);
    }
    const std::string help = command == "command line" ? "" : command + " ";
    return spindrift::tools::complain(
        command, std::string(error.what()) + "; 'spindrift " + help + "--help' explains",
        spindrift::tools::kExitUsage);
  }
  return exit_code;
}
