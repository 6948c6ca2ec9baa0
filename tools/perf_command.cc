#include "tools/perf_command.h"

#include <memory>

#include "spindrift/open.h"

#include "tools/exit_codes.h"
#include "tools/perf/arguments.h"
#include "tools/perf/client.h"
#include "tools/perf/local.h"
#include "tools/perf/plugin_names.h"
#include "tools/perf/server.h"

namespace spindrift::tools {
namespace {

int run_local(perf::PerfOptions options) {
  Result<perf::LocalServer> started = perf::LocalServer::start(options);
  if (!started.ok()) {
    return complain("perf", started.error().message(),
                    was_interrupted() ? kExitInterrupted : kExitFailure);
  }
  perf::LocalServer server = std::move(started).value();
  options.server_address = server.address();
  return perf::Client(options, [&server] { return server.death(); }).run();
}

int run_perf(perf::PerfArguments& arguments) {
  const Status adopted = perf::adopt_plugins(arguments);
  if (!adopted.ok()) return complain("perf", adopted.error().message(), kExitUsage);
  const Result<perf::PerfOptions> checked = perf::check_arguments(arguments, builtin_registry());
  if (!checked.ok()) return complain("perf", checked.error().message(), kExitUsage);
  const perf::PerfOptions& options = checked.value();
  catch_interrupts();
  switch (options.mode) {
    case perf::Mode::kServer:
      return perf::Server(options).run();
    case perf::Mode::kClient:
      return perf::Client(options, [] { return std::string(); }).run();
    case perf::Mode::kLocal:
      return run_local(options);
  }
  return kExitUsage;
}

class PerfCommand final : public CLI::App {
 public:
  explicit PerfCommand(int& exit_code)
      : CLI::App("Measure bandwidth and latency between two processes", "perf") {
    perf::declare_arguments(*this, &arguments_);
    callback([this, &exit_code] { exit_code = run_perf(arguments_); });
  }

 private:
  perf::PerfArguments arguments_;
};

}  // namespace

void register_perf(CLI::App& app, int& exit_code) {
  app.add_subcommand(std::make_shared<PerfCommand>(exit_code));
}

}  // namespace spindrift::tools
