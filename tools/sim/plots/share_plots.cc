// What is left at the end: completion times, and how much each path carried.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/sim/plots/parts.h"

namespace spindrift::simtool {
namespace {

using chart::Quantity;

constexpr std::size_t kPathLinesMax = 4;
constexpr std::size_t kPathRowsMax = 32;
// Spread wider than this, a straight axis hides the small ones.
constexpr double kWideSpread = 30;

std::vector<double> completions(const sim::Results& results) {
  std::vector<double> out;
  for (const sim::FlowRecord& flow : results.flows)
    if (flow.is_done()) out.push_back(static_cast<double>(flow.finish - flow.start));
  return out;
}

void choose_axis(chart::CdfChart& chart) {
  double lowest = 0;
  double highest = 0;
  for (const chart::Distribution& distribution : chart.distributions)
    for (const double value : distribution.values) {
      if (value > 0) lowest = lowest == 0 ? value : std::min(lowest, value);
      highest = std::max(highest, value);
    }
  chart.x.is_logarithmic = lowest > 0 && highest > kWideSpread * lowest;
}

struct Connection {
  std::uint32_t flow = 0;
  std::uint64_t packets = 0;
  std::vector<std::uint64_t> by_path{};
};

std::vector<Connection> connections_of(const sim::Results& results) {
  std::map<std::uint32_t, Connection> by_flow;
  for (const sim::PathShare& share : results.path_shares) {
    Connection& connection = by_flow[share.flow];
    connection.flow = share.flow;
    connection.packets += share.packets;
    if (connection.by_path.size() <= share.path) connection.by_path.resize(share.path + 1);
    connection.by_path[share.path] += share.packets;
  }
  std::vector<Connection> out;
  for (auto& [flow, connection] : by_flow)
    if (connection.packets > 0) out.push_back(std::move(connection));
  return out;
}

chart::LineChart path_lines(const PlotInput& input, const std::vector<Connection>& connections) {
  chart::LineChart chart{.title = "Packets by path",
                         .subtitle = input.subtitle,
                         .x = {.title = "Path (entropy value)"},
                         .y = {.title = "Packets sent"}};
  for (const Connection& connection : connections) {
    chart::Series series{.name = flow_name(input, connection.flow), .is_step = true};
    for (std::size_t path = 0; path < connection.by_path.size(); ++path)
      series.points.push_back(
          {.x = static_cast<double>(path), .y = static_cast<double>(connection.by_path[path])});
    // The last one needs its width too.
    series.points.push_back({.x = static_cast<double>(connection.by_path.size()),
                             .y = static_cast<double>(connection.by_path.back())});
    chart.series.push_back(std::move(series));
  }
  return chart;
}

// The connections that sent most, if there are too many.
chart::HeatMap path_map(const PlotInput& input, std::vector<Connection> connections) {
  std::size_t paths = 1;
  for (const Connection& connection : connections)
    paths = std::max(paths, connection.by_path.size());
  const std::size_t rows = std::min(
      {connections.size(), kPathRowsMax, std::max<std::size_t>(chart::kHeatCellsMax / paths, 1)});
  if (rows < connections.size())
    std::stable_sort(
        connections.begin(), connections.end(),
        [](const Connection& a, const Connection& b) { return a.packets > b.packets; });
  chart::HeatMap map{
      .title = "What each path carried",
      .subtitle = rows < connections.size()
                      ? absl::StrCat(input.subtitle, "; the ", rows, " that sent most of ",
                                     connections.size(), " connections")
                      : input.subtitle,
      .x = {.title = "Path (entropy value)", .from = 0, .to = static_cast<double>(paths)},
      .row_title = "Connection",
      .value = {.title = "Share of its packets", .quantity = Quantity::kShare}};
  for (std::size_t row = 0; row < rows; ++row) {
    const Connection& connection = connections[row];
    const sim::FlowRecord& flow = input.results.flows[connection.flow];
    map.rows.push_back(absl::StrCat("host", flow.source, "→host", flow.destination));
    std::vector<double> cells;
    for (const std::uint64_t packets : connection.by_path)
      cells.push_back(static_cast<double>(packets) / static_cast<double>(connection.packets));
    map.cells.push_back(std::move(cells));
  }
  return map;
}

}  // namespace

Plot plot_completions(const PlotInput& input) {
  chart::CdfChart chart{.title = "Flow completion times",
                        .subtitle = absl::StrCat(input.subtitle, unfinished_note(input.results)),
                        .x = {.title = "Completion time", .quantity = Quantity::kTime},
                        .y_title = "Share of the finished flows"};
  std::vector<double> ideal;
  for (const sim::FlowRecord& flow : input.results.flows)
    if (flow.is_done() && flow.ideal > 0) ideal.push_back(static_cast<double>(flow.ideal));
  chart.distributions.push_back({.name = "measured", .values = completions(input.results)});
  chart.distributions.push_back({.name = "each flow alone on an idle network",
                                 .values = std::move(ideal),
                                 .is_dashed = true,
                                 .look = 6});
  choose_axis(chart);
  Plot plot{.name = "completion", .title = "Completion times"};
  if (chart.distributions[0].values.empty()) plot.missing = "No flow finished.";
  plot.chart = std::move(chart);
  return plot;
}

Plot compare_completions(std::span<const NamedResults> runs, std::string subtitle) {
  chart::CdfChart chart{.title = "Flow completion times",
                        .subtitle = std::move(subtitle),
                        .x = {.title = "Completion time", .quantity = Quantity::kTime},
                        .y_title = "Share of the finished flows"};
  bool is_empty = true;
  for (const NamedResults& run : runs) {
    chart.distributions.push_back({.name = run.name, .values = completions(*run.results)});
    if (!chart.distributions.back().values.empty()) is_empty = false;
  }
  choose_axis(chart);
  return {.name = "completions",
          .title = "Completion times",
          .chart = std::move(chart),
          .missing = is_empty ? "No flow finished." : ""};
}

Plot plot_paths(const PlotInput& input) {
  const std::string title = "Share per path";
  std::vector<Connection> connections = connections_of(input.results);
  if (connections.empty()) {
    Plot plot = without_series("paths", title);
    plot.missing = "Shares were not recorded: set sample_every, for example to 1 us.";
    return plot;
  }
  Plot plot{.name = "paths", .title = title};
  if (connections.size() <= kPathLinesMax)
    plot.chart = path_lines(input, connections);
  else
    plot.chart = path_map(input, std::move(connections));
  return plot;
}

}  // namespace spindrift::simtool
