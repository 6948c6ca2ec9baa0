#include "tools/sim/plots/report_tables.h"

#include <algorithm>
#include <array>
#include <map>

#include "absl/strings/str_format.h"
#include "sim/derive.h"
#include "sim/topology.h"
#include "tools/chart/quantity.h"
#include "tools/sim/keys.h"

namespace spindrift::simtool {
namespace {

enum class Better : std::uint8_t { kNone, kLess, kMore };

struct Column {
  std::string_view figure{};  // a name of summary.h
  std::string_view title{};
  Better better = Better::kNone;
};

constexpr std::array kCompletion = {
    Column{"flows", "Flows"},
    Column{"unfinished", "Unfinished", Better::kLess},
    Column{"completion_min_ps", "Min", Better::kLess},
    Column{"completion_mean_ps", "Mean", Better::kLess},
    Column{"completion_p50_ps", "p50", Better::kLess},
    Column{"completion_p99_ps", "p99", Better::kLess},
    Column{"completion_max_ps", "Max", Better::kLess},
    Column{"slowdown_mean", "Slowdown, mean", Better::kLess},
    Column{"slowdown_p99", "Slowdown, p99", Better::kLess},
};
constexpr std::array kRates = {
    Column{"goodput_bps", "Goodput", Better::kMore},
    Column{"jain", "Jain index", Better::kMore},
    Column{"packets_sent", "Packets sent", Better::kLess},
    Column{"retransmits_reordered", "Resent: gap", Better::kLess},
    Column{"retransmits_trimmed", "Resent: trimmed", Better::kLess},
    Column{"retransmits_timeout", "Resent: timeout", Better::kLess},
    Column{"spurious_retransmits", "Needless", Better::kLess},
};
constexpr std::array kNetwork = {
    Column{"drops", "Drops", Better::kLess},
    Column{"trims", "Trims", Better::kLess},
    Column{"marks", "ECN marks"},
    Column{"pauses", "Pauses", Better::kLess},
    Column{"paused_ps", "Paused", Better::kLess},
    Column{"mean_queue_bytes", "Mean queue", Better::kLess},
    Column{"max_queue_bytes", "Max queue", Better::kLess},
};
constexpr std::array kRun = {
    Column{"simulated_ps", "Simulated time"},
    Column{"cpu_seconds", "Processor time"},
    Column{"hops_per_cpu_second", "Hops per processor second"},
};

const Figure& figure_of(std::string_view name) {
  const auto all = figures();
  return *std::find_if(all.begin(), all.end(),
                       [name](const Figure& figure) { return figure.name == name; });
}

// Rows without the first cell, which is the run's title.
void add_columns(Table& table, std::span<const Column> columns,
                 std::span<const Summary> summaries) {
  for (const Column& column : columns) {
    table.columns.emplace_back(column.title);
    std::vector<double> values;
    for (const Summary& summary : summaries)
      values.push_back(figure_of(column.figure).value(summary));
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    const bool has_best = column.better != Better::kNone && *low < *high;
    const double best = column.better == Better::kLess ? *low : *high;
    for (std::size_t run = 0; run < values.size(); ++run)
      table.rows[run].push_back({.text = figure_text(summaries[run], column.figure),
                                 .is_best = has_best && values[run] == best});
  }
}

// Every key with its value; what the scenario leaves to the network, as the network has it.
std::map<std::string, std::string> settings_of(const sim::Scenario& scenario) {
  sim::Scenario effective = scenario;
  const auto planned = sim::plan_network(scenario.topology);
  if (const auto* plan = std::get_if<sim::NetworkPlan>(&planned);
      plan != nullptr && plan->nics.size() > 1)
    effective.network = sim::derive(scenario.network, *plan, scenario.transport);
  std::map<std::string, std::string> settings;
  for (const std::string& name : key_names(scenario)) {
    const std::string own = get_key(scenario, name);
    const std::string used = get_key(effective, name);
    settings[name] = own == used ? own : used + " (derived)";
  }
  return settings;
}

Table table_of_runs(std::span<const ReportedRun> runs) {
  Table table{.columns = {"Run"}};
  for (const ReportedRun& run : runs)
    table.rows.push_back({{.text = run.title}});
  return table;
}

}  // namespace

std::string figure_text(const Summary& summary, std::string_view name) {
  const Figure& figure = figure_of(name);
  std::string text = figure.text(figure.value(summary));
  // Scenarios are typed in ASCII; a page need not be.
  if (text.ends_with(" us")) text.replace(text.size() - 2, 2, "µs");
  return text;
}

Configuration compare_configurations(std::span<const ReportedRun> runs) {
  std::vector<std::string> names;
  std::vector<std::map<std::string, std::string>> settings;
  for (const ReportedRun& run : runs) {
    settings.push_back(settings_of(run.scenario));
    // In the order of the keys; runs with more faults have more.
    for (std::string& name : key_names(run.scenario))
      if (std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(std::move(name));
  }
  Configuration out;
  out.values.resize(runs.size());
  for (const std::string& name : names) {
    std::vector<std::string> values;
    for (const auto& own : settings) {
      const auto found = own.find(name);
      values.push_back(found == own.end() || found->second.empty() ? "–" : found->second);
    }
    if (std::all_of(values.begin(), values.end(),
                    [&](const std::string& value) { return value == values.front(); })) {
      out.common.emplace_back(name, values.front());
      continue;
    }
    out.differing.push_back(name);
    for (std::size_t run = 0; run < runs.size(); ++run)
      out.values[run].push_back(values[run]);
  }
  return out;
}

std::vector<TitledTable> result_tables(std::span<const ReportedRun> runs,
                                       std::span<const Summary> summaries) {
  std::vector<TitledTable> tables = {
      {.title = "Flow completion",
       .explanation = "From a flow's start until its sender knows that all arrived. Slowdown: as a "
                      "multiple of what the flow alone would take on an idle network."},
      {.title = "Rates and repair",
       .explanation = "Goodput: payload of finished flows over the simulated time. Jain index over "
                      "the flows' own rates: 1 is perfectly fair. Needless: sent again though the "
                      "first copy arrived."},
      {.title = "Network",
       .explanation = "Sums over all ports; queues of the port where they are longest."},
      {.title = "Run",
       .explanation = "The same history hash means the same history, packet by "
                      "packet."}};
  const std::array<std::span<const Column>, 4> columns = {kCompletion, kRates, kNetwork, kRun};
  for (std::size_t i = 0; i < tables.size(); ++i) {
    tables[i].table = table_of_runs(runs);
    add_columns(tables[i].table, columns[i], summaries);
  }
  Table& last = tables.back().table;
  last.columns.insert(last.columns.end(), {"Events", "History hash"});
  for (std::size_t run = 0; run < runs.size(); ++run) {
    last.rows[run].push_back(
        {.text = chart::format_value(chart::Quantity::kNumber,
                                     static_cast<double>(runs[run].results.events))});
    last.rows[run].push_back({.text = absl::StrFormat("%016x", runs[run].results.history)});
  }
  return tables;
}

Table difference_table(std::span<const ReportedRun> runs, const Configuration& configuration) {
  Table table = table_of_runs(runs);
  table.columns.insert(table.columns.end(), configuration.differing.begin(),
                       configuration.differing.end());
  for (std::size_t run = 0; run < runs.size(); ++run)
    for (const std::string& value : configuration.values[run])
      table.rows[run].push_back({.text = value});
  return table;
}

}  // namespace spindrift::simtool
