#include "tools/coll_command.h"

#include <memory>
#include <string>

#include "spindrift/bootstrap.h"
#include "spindrift/open.h"

#include "tools/coll/coll_options.h"
#include "tools/coll/launcher.h"
#include "tools/coll/operations.h"
#include "tools/coll/plan_view.h"
#include "tools/coll/rank_run.h"
#include "tools/settings.h"
#include "tools/trace_file.h"
#include "tools/usage.h"

namespace spindrift::coll {
namespace {

// Once for all ranks of this host.
int begin_trace(const Options& options) {
  tools::print_warnings(options.settings);
  const Status status =
      options.trace.empty() ? ok_status() : tools::start_trace_file(options.trace);
  return status.ok() ? 0 : complain(status.error().message(), 1);
}

int run(const CLI::App& app, Options& options) {
  std::optional<Launch> launch;
  if (!options.rank) {
    const Result<std::optional<Launch>> found = find_launch();
    if (!found.ok()) return complain(found.error().message(), 2);
    launch = found.value();
  }
  if (const std::string sentence = check_options(app, launch, options); !sentence.empty()) {
    // All ranks of a launcher know it; once per host will do.
    return launch && launch->local_rank > 0 ? 2 : complain(sentence, 2);
  }
  if (options.shows_plan) return show_plan(options);
  if (options.is_explaining) return explain_choices(options);
  const bool is_first_here = !launch || launch->local_rank == 0;
  if (!options.has_outside_store && is_first_here) {
    if (const int exit_code = begin_trace(options); exit_code != 0) return exit_code;
  }
  tools::trace_on_signal();
  return options.rank || launch ? run_rank(options) : start_ranks(options);
}

// Holds the options for as long as the application may call back.
class OperationApp final : public CLI::App {
 public:
  OperationApp(const Operation& operation, const Result<Settings>& settings, int& exit_code)
      : CLI::App(std::string(operation.help), std::string(operation.name)) {
    options_.collective = operation.collective;
    if (settings.ok()) options_.settings = settings.value();
    options_.connection = options_.settings.connect;
    add_options(*this, options_);
    callback([this, &settings, &exit_code] {
      const Result<Settings> checked =
          tools::check_settings(settings, builtin_registry(), plugins());
      exit_code = checked.ok() ? run(*this, options_) : complain(checked.error().message(), 2);
    });
  }

 private:
  Options options_;
};

}  // namespace
}  // namespace spindrift::coll

namespace spindrift::tools {

void register_coll(CLI::App& app, const Result<Settings>& settings, int& exit_code) {
  CLI::App& group = *app.add_subcommand(
      "coll", "collectives between processes, verified, in the format of nccl-tests");
  group.require_subcommand(1);
  for (const coll::Operation& operation : coll::operations()) {
    group.add_subcommand(std::make_shared<coll::OperationApp>(operation, settings, exit_code));
  }
}

}  // namespace spindrift::tools
