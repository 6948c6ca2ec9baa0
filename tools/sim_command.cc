#include "tools/sim_command.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "spindrift/open.h"

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tools/exit_codes.h"
#include "tools/sim/keys.h"
#include "tools/sim/output.h"
#include "tools/sim/plan.h"
#include "tools/sim/runner.h"
#include "tools/sim/schema.h"
#include "tools/sim/shipped.h"
#include "tools/sim/text.h"

namespace spindrift::tools {
namespace {

using namespace simtool;

constexpr const char* kFooter = R"(
EXAMPLES
  spindrift sim --list                                     the scenarios that ship
  spindrift sim incast                                     run one
  spindrift sim incast workload.fan_in=15 --cc dcqcn       with another value, another algorithm
  spindrift sim incast --sweep transport.congestion_control=nscc,dcqcn,swift --repeat 5
  spindrift sim incast --show > mine.toml                  a file to start from; then
  spindrift sim mine.toml --series mine                    mine-flows.csv and mine-ports.csv

SCENARIOS
  A scenario is a TOML file; keys that it does not set have their defaults. --keys explains every
  key, --schema prints them as JSON Schema for editors. key=value on the command line overrides the
  file. Times, rates and sizes carry units: "1.5 us", "100 Gb/s", "2 MiB".

RESULTS
  Completion times run from a flow's start until its sender knows that all has arrived. --sweep runs
  every combination of values, --repeat several seeds; --json prints all runs with every flow and
  port, --csv a line per run. The same scenario and seed give the same history, bit for bit.

EXIT CODES
  0 done; 1 flows unfinished, a connection failed, or the output cannot be written; 2 wrong
  arguments or a scenario that cannot be; 130 interrupted: the runs that were complete are printed)";

struct SimArguments {
  std::string scenario;
  std::vector<std::string> overrides;
  std::vector<std::string> sweeps;
  std::uint64_t repeats = 1;
  unsigned threads = std::max(1U, std::thread::hardware_concurrency());
  std::optional<std::string> congestion_control;
  std::optional<std::string> path_selector;
  std::optional<std::string> seed;
  std::string series;
  bool lists = false;
  bool shows = false;
  bool lists_keys = false;
  bool prints_schema = false;
  bool is_json = false;
  bool is_csv = false;
};

int refuse(const std::string& sentence) {
  return complain("sim", sentence, kExitUsage);
}

int list_scenarios() {
  for (const ShippedScenario& shipped : shipped_scenarios()) {
    const auto file = parse_scenario(shipped.text, shipped.name, "");
    absl::PrintF("%-16s %s\n", shipped.name, file.ok() ? file.value().title : "");
    if (file.ok()) absl::PrintF("%16s %s\n", "", file.value().description);
  }
  return finish_output("sim", kExitOk);
}

// The whole file, or what the operating system says.
Result<std::string> read_file(const std::string& name) {
  const auto refused = [] {
    return Error(ErrorCode::kIo, std::system_category().message(errno == 0 ? EIO : errno));
  };
  errno = 0;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(name.c_str(), "r"),
                                                             &std::fclose);
  if (file == nullptr) return refused();
  std::string text;
  std::array<char, 4096> part{};
  while (const std::size_t count = std::fread(part.data(), 1, part.size(), file.get()))
    text.append(part.data(), count);
  if (std::ferror(file.get()) != 0) return refused();
  return text;
}

Result<ScenarioFile> load(const std::string& name) {
  std::vector<std::string> names;
  for (const ShippedScenario& shipped : shipped_scenarios()) {
    if (shipped.name == name) return parse_scenario(shipped.text, name, "");
    names.emplace_back(shipped.name);
  }
  const auto text = read_file(name);
  if (!text.ok())
    return Error(ErrorCode::kNotFound,
                 cat("'", name, "' is neither a scenario that ships (", absl::StrJoin(names, ", "),
                     ") nor a file that can be read: ", text.error().message()));
  return parse_scenario(text.value(), name, std::filesystem::path(name).parent_path().string());
}

Status override_all(ScenarioFile& file, const SimArguments& arguments) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const std::string& one : arguments.overrides)
    all.emplace_back("command line", one);
  if (arguments.congestion_control)
    all.emplace_back("--cc", "transport.congestion_control=" + *arguments.congestion_control);
  if (arguments.path_selector)
    all.emplace_back("--path-selector", "transport.path_selector=" + *arguments.path_selector);
  if (arguments.seed) all.emplace_back("--seed", "seed=" + *arguments.seed);
  for (const auto& [origin, assignment] : all)
    if (const Status status = apply_override(file, assignment, origin); !status.ok()) return status;
  return ok_status();
}

bool write_file(const std::string& name, const std::string& text) {
  std::FILE* file = std::fopen(name.c_str(), "w");
  if (file == nullptr) return false;
  const bool is_written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const int error = errno;
  const bool is_closed = std::fclose(file) == 0;
  if (!is_written) errno = error;
  return is_written && is_closed;
}

int write_series(const std::string& prefix, const sim::Results& results) {
  const std::pair<std::string, std::string> files[] = {
      {prefix + "-flows.csv", flow_series_csv(results)},
      {prefix + "-ports.csv", port_series_csv(results)}};
  for (const auto& [name, text] : files) {
    errno = 0;
    if (!write_file(name, text))
      return complain("sim",
                      cat("cannot write ", name, ": ",
                          std::system_category().message(errno == 0 ? EIO : errno)),
                      kExitFailure);
  }
  return kExitOk;
}

void print_results(const SimArguments& arguments, std::span<const FinishedRun> runs) {
  if (arguments.is_json) {
    nlohmann::ordered_json all;
    all["runs"] = nlohmann::ordered_json::array();
    for (const FinishedRun& run : runs)
      all["runs"].push_back(to_json(run));
    absl::PrintF("%s\n", all.dump(2));
  } else if (arguments.is_csv) {
    absl::PrintF("%s", summary_csv(runs));
  } else if (runs.size() == 1) {
    absl::PrintF("%s", detail_text(runs.front()));
  } else {
    absl::PrintF("%s", table_text(runs));
  }
}

bool has_trouble(std::span<const FinishedRun> runs) {
  return std::any_of(runs.begin(), runs.end(), [](const FinishedRun& run) {
    const sim::Results& r = run.results;
    return r.payload_errors != 0 || !r.deadlocks.empty() ||
           std::any_of(r.flows.begin(), r.flows.end(),
                       [](const sim::FlowRecord& flow) { return !flow.is_done(); });
  });
}

int run_plans(const SimArguments& arguments, const std::vector<PlannedRun>& plans) {
  catch_interrupts();
  const RunnerOutcome outcome = run_all(plans, builtin_registry(),
                                        {.threads = arguments.threads,
                                         .shows_progress = isatty(STDERR_FILENO) == 1,
                                         .keeps_series = plans.size() == 1});
  if (!outcome.finished.empty()) print_results(arguments, outcome.finished);
  int code = finish_output("sim", kExitOk);
  if (outcome.error) return refuse(*outcome.error);
  if (outcome.is_interrupted)
    return complain("sim",
                    absl::StrFormat("interrupted; %d of %d runs were complete",
                                    outcome.finished.size(), plans.size()),
                    kExitInterrupted);
  if (code == kExitOk && !arguments.series.empty())
    code = write_series(arguments.series, outcome.finished.front().results);
  if (code == kExitOk && has_trouble(outcome.finished)) code = kExitFailure;
  return code;
}

int run_sim(const SimArguments& arguments) {
  if (arguments.lists) return list_scenarios();
  if (arguments.lists_keys || arguments.prints_schema) {
    absl::PrintF("%s", arguments.lists_keys ? keys_text() : schema_text());
    return finish_output("sim", kExitOk);
  }
  if (arguments.scenario.empty())
    return refuse(
        "which scenario? 'spindrift sim --list' lists those that ship; a file is another");
  auto file = load(arguments.scenario);
  if (!file.ok()) return refuse(file.error().message());
  if (const Status status = override_all(file.value(), arguments); !status.ok())
    return refuse(status.error().message());
  if (arguments.shows) {
    absl::PrintF("%s", to_toml(file.value()));
    return finish_output("sim", kExitOk);
  }
  std::vector<Axis> axes;
  for (const std::string& text : arguments.sweeps) {
    auto axis = parse_axis(text);
    if (!axis.ok()) return refuse(axis.error().message());
    axes.push_back(std::move(axis.value()));
  }
  const auto plans = plan_runs(file.value(), axes, arguments.repeats);
  if (!plans.ok()) return refuse(plans.error().message());
  if (!arguments.series.empty() && plans.value().size() != 1)
    return refuse("--series is for one run, not for --sweep or --repeat");
  if (!arguments.series.empty() && file.value().scenario.sample_every == 0)
    return refuse("--series needs time series: set sample_every, for example sample_every=1us");
  return run_plans(arguments, plans.value());
}

class SimCommand final : public CLI::App {
 public:
  explicit SimCommand(int& exit_code)
      : CLI::App("Run the transport on a simulated network: congestion control, spraying, failures",
                 "sim") {
    footer(kFooter);
    add_option("scenario", arguments_.scenario, "a scenario that ships, or a TOML file");
    add_option("overrides", arguments_.overrides, "key=value, as often as wanted");
    declare_choices();
    declare_results();
    callback([this, &exit_code] { exit_code = run_sim(arguments_); });
  }

 private:
  void declare_choices() {
    SimArguments* a = &arguments_;
    add_option("--cc", a->congestion_control, "transport.congestion_control");
    add_option("--path-selector", a->path_selector, "transport.path_selector");
    add_option("--seed", a->seed, "seed");
    add_option("--sweep", a->sweeps,
               "key=a,b,c: a run for each value (with '|' for ',' if values "
               "hold commas); several make the product")
        ->allow_extra_args(false);
    add_option("--repeat", a->repeats, "seeds per combination, counted up from the scenario's")
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{10'000}));
    add_option("--threads", a->threads, "runs at a time (the processors of this host)")
        ->check(CLI::Range(1U, 1024U));
  }
  void declare_results() {
    SimArguments* a = &arguments_;
    add_flag("--list", a->lists, "the scenarios that ship");
    add_flag("--show", a->shows, "print the scenario as a file, and run nothing");
    add_flag("--keys", a->lists_keys, "every key with its values, default and meaning");
    add_flag("--schema", a->prints_schema, "the same as JSON Schema");
    auto* json = add_flag("--json", a->is_json, "all runs with every flow and port, as JSON");
    add_flag("--csv", a->is_csv, "a line per run")->excludes(json);
    add_option("--series", a->series, "write time series to PREFIX-flows.csv and PREFIX-ports.csv");
  }

  SimArguments arguments_;
};

}  // namespace

void register_sim(CLI::App& app, int& exit_code) {
  app.add_subcommand(std::make_shared<SimCommand>(exit_code));
}

}  // namespace spindrift::tools
