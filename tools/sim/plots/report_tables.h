#pragma once
// The tables of the report. Internal to this folder.
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tools/sim/plots/html_report.h"
#include "tools/sim/plots/html_writer.h"
#include "tools/sim/summary.h"

namespace spindrift::simtool {

// Keys whose values are the same in every run, with the value; the others by run, in the same
// order. A dash where a run has no such key or no value.
struct Configuration {
  std::vector<std::pair<std::string, std::string>> common{};
  std::vector<std::string> differing{};
  std::vector<std::vector<std::string>> values{};  // of the differing keys, per run
};
Configuration compare_configurations(std::span<const ReportedRun> runs);

struct TitledTable {
  std::string title{};
  std::string explanation{};
  Table table{};
};
// Completion, rates, repair, network, run; one row per run. In each column of several runs where
// less or more is better the best is marked, unless all are the same.
std::vector<TitledTable> result_tables(std::span<const ReportedRun> runs,
                                       std::span<const Summary> summaries);
Table difference_table(std::span<const ReportedRun> runs, const Configuration& configuration);

// The text of a number, as tables and comparisons show it; the name is one of summary.h.
std::string figure_text(const Summary& summary, std::string_view name);

}  // namespace spindrift::simtool
