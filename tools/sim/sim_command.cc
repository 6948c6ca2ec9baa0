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
#include <sys/resource.h>
#include <unistd.h>

#include "spindrift/open.h"

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "sim/topology.h"
#include "tools/exit_codes.h"
#include "tools/sim/files.h"
#include "tools/sim/output.h"
#include "tools/sim/plan.h"
#include "tools/sim/quantities.h"
#include "tools/sim/record.h"
#include "tools/sim/replay.h"
#include "tools/sim/runner.h"
#include "tools/sim/schema.h"
#include "tools/sim/shipped.h"
#include "tools/sim/text.h"
#include "tools/sim/watch.h"

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
  spindrift sim link_cut --html report.html                tables and figures on one page
  spindrift sim link_cut --events e.jsonl --events-of drop --events-of leaf0>spine1
  spindrift sim --record r.jsonl --cc nscc                 a transfer over real sockets; then
  spindrift sim --replay r.jsonl --cc swift                shows where another algorithm would differ

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
  WatchOptions watched;
  std::string replayed;
  RecordOptions recorded;
  std::string recorded_bytes = "64 MiB";
  std::string html;
  std::string plots;
  bool has_png = false;
  bool lists = false;
  bool shows = false;
  bool measures_speed = false;
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
                     ") nor a file: ", text.error().message()));
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
    if (Status status = apply_override(file, assignment, origin); !status.ok()) return status;
  return ok_status();
}

// What was asked for beside the output.
Status write_files(const SimArguments& arguments, std::span<const FinishedRun> runs) {
  Status status = ok_status();
  if (!arguments.series.empty()) status = write_series(arguments.series, runs.front().results);
  if (status.ok() && !arguments.plots.empty())
    status = write_plots(arguments.plots, arguments.has_png, runs);
  if (status.ok() && !arguments.html.empty()) status = write_html(arguments.html, runs);
  return status;
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

// Of the only run. Null: nothing is to be watched.
Result<std::unique_ptr<Watch>> watch_run(const SimArguments& arguments, const PlannedRun& run) {
  if (arguments.watched.is_empty()) return std::unique_ptr<Watch>();
  if (run.file.scenario.transport.engine == sim::Engine::kLanes &&
      !arguments.watched.captures.empty())
    return Error(ErrorCode::kInvalidArgument,
                 "--pcap needs transport.engine=packets: a lane's packets are counted as RoCEv2's "
                 "and not written as such; --events shows them");
  const auto network = sim::plan_network(run.file.scenario.topology);
  if (const auto* complaints = std::get_if<std::vector<sim::Complaint>>(&network))
    return Error(ErrorCode::kInvalidArgument, sentences(run.file, *complaints));
  return Watch::open(arguments.watched, link_names(std::get<sim::NetworkPlan>(network)));
}

std::string interruption(const RunnerOutcome& outcome, const std::vector<PlannedRun>& plans) {
  if (plans.size() == 1 && !outcome.finished.empty())
    return cat("interrupted after ",
               rounded_time(static_cast<double>(outcome.finished.front().results.simulated)),
               " of simulated time; what there was by then is printed");
  return absl::StrFormat("interrupted; %d of %d runs were complete", outcome.finished.size(),
                         plans.size());
}

int run_plans(const SimArguments& arguments, const std::vector<PlannedRun>& plans) {
  const auto watch = watch_run(arguments, plans.front());
  if (!watch.ok())
    return complain("sim", watch.error().message(),
                    watch.error().code() == ErrorCode::kIo ? kExitFailure : kExitUsage);
  catch_interrupts();
  const bool draws = !arguments.html.empty() || !arguments.plots.empty();
  const RunnerOutcome outcome = run_all(plans, builtin_registry(),
                                        {.threads = arguments.threads,
                                         .shows_progress = isatty(STDERR_FILENO) == 1,
                                         .keeps_series = plans.size() == 1 || draws,
                                         .observer = watch.value().get()});
  int code = kExitOk;
  if (!outcome.finished.empty()) {
    print_results(arguments, outcome.finished);
    code = finish_output("sim", code);
    if (const Status written = write_files(arguments, outcome.finished); !written.ok())
      code = complain("sim", written.error().message(), kExitFailure);
  }
  if (outcome.error) return refuse(*outcome.error);
  if (watch.value() != nullptr)
    if (const Status whole = watch.value()->finish(); !whole.ok())
      code = complain("sim", whole.error().message(), kExitFailure);
  if (outcome.is_interrupted)
    return complain("sim", interruption(outcome, plans), kExitInterrupted);
  if (code == kExitOk && has_trouble(outcome.finished)) code = kExitFailure;
  return code;
}

// Without --cc the decisions must be the recorded ones; with it, differences are what is asked for.
int run_replay(const SimArguments& arguments) {
  const auto text = read_file(arguments.replayed);
  if (!text.ok()) return refuse(text.error().message());
  const auto recordings = parse_recordings(text.value(), arguments.replayed);
  if (!recordings.ok()) return refuse(recordings.error().message());
  std::vector<Replay> replays;
  bool is_same = true;
  for (const Recording& one : recordings.value()) {
    auto replayed = replay(one, builtin_registry(), arguments.congestion_control.value_or(""));
    if (!replayed.ok()) return refuse(replayed.error().message());
    is_same = is_same && replayed.value().starts_equal && !replayed.value().first_difference;
    replays.push_back(std::move(replayed.value()));
  }
  absl::PrintF("%s", arguments.is_csv ? replay_csv(recordings.value(), replays)
                                      : replay_text(recordings.value(), replays));
  return finish_output("sim", is_same || arguments.congestion_control ? kExitOk : kExitFailure);
}

int run_record(const SimArguments& arguments) {
  RecordOptions options = arguments.recorded;
  const auto bytes = parse_bytes(arguments.recorded_bytes);
  if (!bytes.ok() || bytes.value() == 0)
    return refuse(cat("--bytes ", arguments.recorded_bytes, ": must be a size like \"64 MiB\""));
  options.bytes = bytes.value();
  if (arguments.congestion_control) options.congestion_control = *arguments.congestion_control;
  catch_interrupts();
  const auto recorded = record_transfer(options);
  if (was_interrupted()) return complain("sim", "interrupted", kExitInterrupted);
  if (!recorded.ok()) {
    const ErrorCode code = recorded.error().code();
    const bool is_usage = code == ErrorCode::kInvalidArgument || code == ErrorCode::kUnsupported ||
                          code == ErrorCode::kNotFound;
    return complain("sim", recorded.error().message(), is_usage ? kExitUsage : kExitFailure);
  }
  absl::PrintF("%s: %d events of %s, %s in %s\n", options.file, recorded.value().events,
               recorded.value().algorithm, format_bytes(options.bytes),
               rounded_time(recorded.value().seconds * 1e12));
  if (recorded.value().left_out != 0)
    absl::PrintF("%d more events than a record keeps were left out; transfer fewer --bytes\n",
                 recorded.value().left_out);
  return finish_output("sim", kExitOk);
}

// How fast the simulator is: one run after the other, on one thread.
int run_bench() {
  constexpr double kMegabyte = 1e6;
  absl::PrintF("%-12s %9s %12s %9s %11s %12s\n", "scenario", "hosts", "hops", "CPU s", "M hops/s",
               "peak MB");
  for (const char* name : {"speed_16", "speed_128", "speed_8192"}) {
    const auto file = load(name);
    if (!file.ok()) return refuse(file.error().message());
    const auto plans = plan_runs(file.value(), {}, 1);
    if (!plans.ok()) return refuse(plans.error().message());
    const RunnerOutcome outcome = run_all(plans.value(), builtin_registry(), {});
    if (outcome.finished.empty())
      return complain("sim", outcome.error.value_or("interrupted"), kExitFailure);
    const sim::Results& results = outcome.finished.front().results;
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    absl::PrintF("%-12s %9d %12d %9.2f %11.2f %12.0f\n", name, file.value().scenario.topology.hosts,
                 results.run_hops, results.run_seconds,
                 static_cast<double>(results.run_hops) / results.run_seconds / 1e6,
                 static_cast<double>(usage.ru_maxrss) * 1024 / kMegabyte);
    std::fflush(stdout);
  }
  return finish_output("sim", kExitOk);
}

int run_sim(const SimArguments& arguments) {
  if (arguments.lists) return list_scenarios();
  if (arguments.lists_keys || arguments.prints_schema) {
    absl::PrintF("%s", arguments.lists_keys ? keys_text() : schema_text());
    return finish_output("sim", kExitOk);
  }
  if (arguments.measures_speed) return run_bench();
  if (!arguments.recorded.file.empty()) return run_record(arguments);
  if (!arguments.replayed.empty()) return run_replay(arguments);
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
  if (!arguments.watched.is_empty() && plans.value().size() != 1)
    return refuse("--events and --pcap are for one run, not for --sweep or --repeat");
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
    declare_watched();
    declare_records();
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
    add_flag("--bench", a->measures_speed, "how many hops per CPU second the simulator makes");
    auto* json = add_flag("--json", a->is_json, "all runs with every flow and port, as JSON");
    add_flag("--csv", a->is_csv, "a line per run")->excludes(json);
    add_option("--html", a->html, "write one page about all runs: configuration, tables, figures");
    auto* plot = add_option("--plot", a->plots, "write figures as SVG files to this folder");
    add_flag("--png", a->has_png, "and as PNG files")->needs(plot);
    add_option("--series", a->series, "write time series to PREFIX-flows.csv and PREFIX-ports.csv");
  }
  void declare_watched() {
    WatchOptions* w = &arguments_.watched;
    auto* events = add_option("--events", w->events,
                              "write everything that happens to a file, a line of JSON each");
    add_option("--events-of", w->events_of,
               "only of this link (leaf0>host1), flow (flow=3) or kind (drop); repeatable")
        ->needs(events)
        ->allow_extra_args(false);
    add_option("--events-max", w->events_max, "events that are written at most (10,000,000)")
        ->needs(events)
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40U));
    add_option("--pcap", w->captures,
               "LINK=FILE: capture what leaves onto a link (leaf0>host1), repeatable")
        ->allow_extra_args(false);
  }
  void declare_records() {
    SimArguments* a = &arguments_;
    auto* record = add_option("--record", a->recorded.file,
                              "transfer over real sockets in this process, and write what "
                              "congestion control (--cc) heard and decided to a file");
    add_option("--bytes", a->recorded_bytes, "that --record transfers (64 MiB)")->needs(record);
    add_option("--to", a->recorded.address,
               "address of this host where the receiver listens (udp://127.0.0.1:0)")
        ->needs(record);
    add_option("--fault", a->recorded.faults,
               "faults on purpose on the sender's side, for example loss=1%")
        ->needs(record);
    add_option("--replay", a->replayed, "feed a record into its algorithm again, or into --cc")
        ->excludes(record)
        ->excludes("--json");
  }

  SimArguments arguments_;
};

}  // namespace

void register_sim(CLI::App& app, int& exit_code) {
  app.add_subcommand(std::make_shared<SimCommand>(exit_code));
}

}  // namespace spindrift::tools
