#include "tools/sim/plots/plots.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sim/topology.h"
#include "tools/sim/plots/parts.h"

namespace spindrift::simtool {
namespace {

using chart::format_value;
using chart::Quantity;

std::string size_text(std::uint64_t bytes) {
  return format_value(Quantity::kBytes, static_cast<double>(bytes));
}

std::string describe_workload(const sim::WorkloadSpec& spec) {
  const std::string size = size_text(spec.bytes);
  if (spec.name == "incast") return absl::StrCat("incast ", spec.fan_in, ":1 of ", size);
  if (spec.name == "one_flow") return absl::StrCat("one flow of ", size);
  if (spec.name == "permutation") return absl::StrCat("permutation of ", size);
  if (spec.name == "all_to_all") return absl::StrCat("all to all of ", size);
  if (spec.name == "random_pairs")
    return absl::StrCat(spec.flows, " random flows of ", spec.sizes, " sizes at load ", spec.load);
  if (spec.name == "ring_all_reduce") return absl::StrCat("ring all-reduce of ", size);
  if (spec.name == "tree_all_reduce") return absl::StrCat("tree all-reduce of ", size);
  if (spec.name == "training_step")
    return absl::StrCat("training steps with ", spec.buckets, " buckets of ", size);
  return spec.file.empty() ? spec.name : absl::StrCat(spec.name, " ", spec.file);
}

std::string describe_topology(const sim::TopologySpec& spec) {
  if (spec.name == "file") return spec.file;
  if (spec.name == "two_hosts") return "two hosts";
  if (spec.name == "fat_tree" && spec.hosts == 0)
    return absl::StrCat("fat_tree of radix ", spec.radix);
  return absl::StrCat(spec.name, ", ", spec.hosts, " hosts");
}

// What several charts must have room for.
struct Extent {
  std::optional<double> from{};
  std::optional<double> to{};
  void add(double value) {
    from = std::min(from.value_or(value), value);
    to = std::max(to.value_or(value), value);
  }
  void add(const std::optional<double>& value) {
    if (value) add(*value);
  }
};

template <class T>
std::vector<T*> charts_of(std::span<Plot*> plots) {
  std::vector<T*> charts;
  for (Plot* plot : plots)
    if (auto* chart = std::get_if<T>(&plot->chart); chart != nullptr && plot->missing.empty())
      charts.push_back(chart);
  return charts;
}

void share(std::span<chart::LineChart* const> charts) {
  Extent x;
  Extent y;
  for (const chart::LineChart* chart : charts) {
    x.add(chart->x.to);
    for (const chart::Series& series : chart->series)
      for (const chart::Point& point : series.points)
        if (std::isfinite(point.y)) y.add(point.y);
    for (const chart::Band& band : chart->bands)
      for (const chart::BandPoint& point : band.points)
        y.add(point.high);
  }
  for (chart::LineChart* chart : charts) {
    chart->x.to = x.to;
    chart->y.to = y.to;
  }
}

void share(std::span<chart::CdfChart* const> charts) {
  Extent x;
  bool is_logarithmic = false;
  for (const chart::CdfChart* chart : charts) {
    is_logarithmic = is_logarithmic || chart->x.is_logarithmic;
    for (const chart::Distribution& distribution : chart->distributions)
      for (const double value : distribution.values)
        if (value > 0) x.add(value);
  }
  for (chart::CdfChart* chart : charts) {
    chart->x.is_logarithmic = is_logarithmic;
    chart->x.from = x.from;
    chart->x.to = x.to;
  }
}

// Maps over time get empty columns until the longest run's end.
void share(std::span<chart::HeatMap* const> maps) {
  Extent x;
  Extent value;
  for (const chart::HeatMap* map : maps) {
    x.add(map->x.to);
    value.add(map->value.to);
    if (map->value.to) continue;
    for (const auto& row : map->cells)
      for (const double cell : row)
        if (std::isfinite(cell)) value.add(cell);
  }
  for (chart::HeatMap* map : maps) {
    map->value.to = value.to;
    if (!map->columns.empty() || map->cells.empty() || !map->x.to) continue;
    const auto columns = static_cast<double>(map->cells.front().size());
    const double width = *map->x.to / columns;
    const double wanted = std::ceil(*x.to / width - 1e-9);
    for (auto& row : map->cells)
      row.resize(static_cast<std::size_t>(wanted), std::numeric_limits<double>::quiet_NaN());
    map->x.to = wanted * width;
  }
}

}  // namespace

std::string describe(const sim::Scenario& scenario) {
  const sim::TransportSpec& transport = scenario.transport;
  return absl::StrCat(describe_topology(scenario.topology), ", ",
                      describe_workload(scenario.workload), ", ", transport.congestion_control,
                      ", ", transport.path_count, transport.path_count == 1 ? " path" : " paths",
                      " by ", transport.path_selector, ", seed ", scenario.seed);
}

std::vector<Plot> plots_of(const sim::Scenario& scenario, const sim::Results& results) {
  PlotInput input{.scenario = scenario,
                  .results = results,
                  .subtitle = describe(scenario),
                  .faults = fault_spans(scenario, results.simulated)};
  for (const sim::FlowRecord& flow : results.flows)
    ++input.flows_of_pair[{flow.source, flow.destination}];
  auto planned = sim::plan_network(scenario.topology);
  if (auto* plan = std::get_if<sim::NetworkPlan>(&planned))
    if (plan->links.size() * 2 == results.ports.size()) input.plan = std::move(*plan);
  std::vector<Plot> plots;
  plots.push_back(plot_rates(input));
  plots.push_back(plot_windows(input));
  if (auto pacing = plot_pacing(input)) plots.push_back(std::move(*pacing));
  plots.push_back(plot_queues(input));
  plots.push_back(plot_completions(input));
  plots.push_back(plot_links(input));
  plots.push_back(plot_paths(input));
  return plots;
}

void share_scales(std::span<Plot*> plots) {
  share(charts_of<chart::LineChart>(plots));
  share(charts_of<chart::CdfChart>(plots));
  share(charts_of<chart::HeatMap>(plots));
}

std::string draw(Plot plot, double width) {
  return std::visit(
      [width](auto& chart) {
        chart.width = width;
        return to_svg(chart);
      },
      plot.chart);
}

}  // namespace spindrift::simtool
