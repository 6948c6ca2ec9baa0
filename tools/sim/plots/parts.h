#pragma once
// The kinds of plots, and what they share. Internal to this folder.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/network_plan.h"
#include "tools/sim/plots/plots.h"

namespace spindrift::simtool {

// What one run's plots are made from.
struct PlotInput {
  const sim::Scenario& scenario;
  const sim::Results& results;
  // Ports of the results are ports of the plan; none if the topology cannot be built any more (its
  // file is gone).
  std::optional<sim::NetworkPlan> plan{};
  std::string subtitle{};
  std::vector<chart::Span> faults{};
  // By source and destination: flows that share a connection.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> flows_of_pair{};
};

Plot plot_rates(const PlotInput& input);
Plot plot_windows(const PlotInput& input);
std::optional<Plot> plot_pacing(const PlotInput& input);
Plot plot_queues(const PlotInput& input);
Plot plot_completions(const PlotInput& input);
Plot plot_links(const PlotInput& input);
Plot plot_paths(const PlotInput& input);

// Beyond so many flows a line each says less than their spread.
inline constexpr std::size_t kLinesMax = 12;

chart::Axis time_axis(const PlotInput& input);
bool is_alone(const PlotInput& input, std::uint32_t flow);  // on its connection
std::string flow_name(const PlotInput& input, std::uint32_t flow);
std::string port_name(const sim::PortRecord& port);
// "; 3 of 128 flows did not finish"; empty if all did.
std::string unfinished_note(const sim::Results& results);
// What a plot says that needs a time series and has none.
Plot without_series(std::string name, std::string title);

// How long each fault lasted.
std::vector<chart::Span> fault_spans(const sim::Scenario& scenario, sim::Picoseconds end);

}  // namespace spindrift::simtool
