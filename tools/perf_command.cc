#include "tools/perf_command.h"

#include <memory>

#include "spindrift/open.h"

#include "tools/exit_codes.h"
#include "tools/perf/arguments.h"
#include "tools/perf/client.h"
#include "tools/perf/local.h"
#include "tools/perf/plugin_names.h"
#include "tools/perf/server.h"
#include "tools/settings.h"
#include "tools/trace_file.h"

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
  const int exit_code = perf::Client(options, [&server] { return server.death(); }).run();
  // It writes its trace at the very end.
  const std::string death = options.trace.empty() || exit_code != kExitOk ? "" : server.await_end();
  return death.empty() ? exit_code : complain("perf", death, kExitFailure);
}

int run_perf(perf::PerfArguments& arguments, const Result<Settings>& loaded) {
  const Status adopted = perf::adopt_plugins(arguments);
  if (!adopted.ok()) return complain("perf", adopted.error().message(), kExitUsage);
  const Result<Settings> settings = check_settings(loaded, builtin_registry(), plugins());
  if (!settings.ok()) return complain("perf", settings.error().message(), kExitUsage);
  const Result<perf::PerfOptions> checked =
      perf::check_arguments(arguments, builtin_registry(), settings.value());
  if (!checked.ok()) return complain("perf", checked.error().message(), kExitUsage);
  const perf::PerfOptions& options = checked.value();
  // The server of a local test: whoever started it has said all this already.
  if (options.ready_fd < 0) {
    print_warnings(settings.value());
    const Status status = options.trace.empty() ? ok_status() : start_trace_file(options.trace);
    if (!status.ok()) return complain("perf", status.error().message(), kExitFailure);
  }
  catch_interrupts();
  trace_on_signal();
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
  PerfCommand(const Result<Settings>& settings, int& exit_code)
      : CLI::App("Measure bandwidth and latency between two processes", "perf") {
    perf::declare_arguments(*this, &arguments_);
    callback([this, &settings, &exit_code] { exit_code = run_perf(arguments_, settings); });
  }

 private:
  perf::PerfArguments arguments_;
};

}  // namespace

void register_perf(CLI::App& app, const Result<Settings>& settings, int& exit_code) {
  app.add_subcommand(std::make_shared<PerfCommand>(settings, exit_code));
}

}  // namespace spindrift::tools
