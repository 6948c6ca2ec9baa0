// What the network does: queues over time, load of the links.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "sim/derive.h"
#include "tools/sim/plots/parts.h"

namespace spindrift::simtool {
namespace {

using chart::Quantity;
using sim::Picoseconds;
using sim::PortSample;

constexpr std::size_t kQueuesMax = 6;
constexpr std::size_t kLinkRowsMax = 48;
constexpr std::size_t kLinkColumnsMax = 120;
constexpr std::size_t kMatrixSidesMax = 60;

bool is_switch(const sim::NetworkPlan& plan, std::uint32_t node) {
  return plan.nodes[node].is_switch;
}

// Ports of switches with the longest queues on average, since many reach the limit once; longest
// first, without those that never queued.
std::vector<std::uint32_t> busiest_queues(const PlotInput& input) {
  const auto& ports = input.results.ports;
  std::vector<std::uint32_t> chosen;
  for (std::uint32_t port = 0; port < ports.size(); ++port) {
    const bool is_host = input.plan && !is_switch(*input.plan, input.plan->near_end(port));
    if (!is_host && ports[port].counters.max_queue_bytes > 0) chosen.push_back(port);
  }
  std::stable_sort(chosen.begin(), chosen.end(), [&](std::uint32_t a, std::uint32_t b) {
    const sim::PortCounters& of_a = ports[a].counters;
    const sim::PortCounters& of_b = ports[b].counters;
    if (of_a.mean_queue_bytes != of_b.mean_queue_bytes)
      return of_a.mean_queue_bytes > of_b.mean_queue_bytes;
    return of_a.max_queue_bytes > of_b.max_queue_bytes;
  });
  chosen.resize(std::min(chosen.size(), kQueuesMax));
  return chosen;
}

std::vector<chart::Threshold> thresholds_of(const PlotInput& input) {
  if (!input.plan || input.plan->nics.size() < 2) return {};
  const sim::SwitchSpec spec =
      sim::derive(input.scenario.network, *input.plan, input.scenario.transport);
  std::vector<chart::Threshold> out;
  const auto add = [&out](std::uint64_t bytes, std::string label) {
    out.push_back({.y = static_cast<double>(bytes), .label = std::move(label)});
  };
  switch (spec.marking) {
    case sim::Marking::kOff:
      break;
    case sim::Marking::kRed:
      add(spec.kmin_bytes, "ECN Kmin");
      add(spec.kmax_bytes, "ECN Kmax");
      break;
    case sim::Marking::kStep:
      add(spec.kmin_bytes, "ECN step");
      break;
  }
  // Counted per ingress, while queues are drawn per egress: a guide, not a limit of these queues.
  if (spec.has_pfc) add(spec.xoff_bytes, "PFC XOFF");
  if (spec.buffer == sim::BufferKind::kPerPort && !spec.has_pfc) add(spec.queue_bytes, "full at");
  return out;
}

// Links in order of travel: out of hosts, between switches, into hosts.
int tier_of(const PlotInput& input, std::uint32_t port) {
  if (!input.plan) return 0;
  if (!is_switch(*input.plan, input.plan->near_end(port))) return 0;
  return is_switch(*input.plan, input.plan->far_end(port)) ? 1 : 2;
}

std::vector<std::uint32_t> busiest_links(const PlotInput& input) {
  const auto& ports = input.results.ports;
  std::vector<std::uint32_t> chosen;
  for (std::uint32_t port = 0; port < ports.size(); ++port)
    if (ports[port].counters.bytes > 0) chosen.push_back(port);
  std::stable_sort(chosen.begin(), chosen.end(), [&](std::uint32_t a, std::uint32_t b) {
    return ports[a].counters.bytes > ports[b].counters.bytes;
  });
  chosen.resize(std::min(chosen.size(), kLinkRowsMax));
  std::sort(chosen.begin(), chosen.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(tier_of(input, a), a) < std::pair(tier_of(input, b), b);
  });
  return chosen;
}

double load_of(std::uint64_t bytes, std::uint64_t rate_bps, Picoseconds time) {
  if (rate_bps == 0 || time <= 0) return 0;
  return static_cast<double>(bytes) * 8e12 /
         (static_cast<double>(rate_bps) * static_cast<double>(time));
}

std::string links_note(const PlotInput& input, std::size_t shown) {
  const std::size_t all = input.results.ports.size();
  return absl::StrCat(input.subtitle,
                      shown < all ? absl::StrCat("; ", shown, " busiest of ", all, " links") : "");
}

// A column is the mean over several samples.
Plot links_over_time(const PlotInput& input) {
  const std::vector<std::uint32_t> links = busiest_links(input);
  const Picoseconds every = std::max<Picoseconds>(input.scenario.sample_every, 1);
  std::vector<std::size_t> row_of(input.results.ports.size(), links.size());
  for (std::size_t row = 0; row < links.size(); ++row)
    row_of[links[row]] = row;
  Picoseconds last = 0;
  for (const PortSample& sample : input.results.port_samples)
    last = std::max(last, sample.at);
  const auto samples = static_cast<std::size_t>(last / every);
  const std::size_t stride =
      std::max<std::size_t>((samples + kLinkColumnsMax - 1) / kLinkColumnsMax, 1);
  const std::size_t columns = std::max<std::size_t>(samples / stride, 1);
  const Picoseconds width = every * static_cast<Picoseconds>(stride);
  chart::HeatMap map{.title = "Load of the links over time",
                     .subtitle = links_note(input, links.size()),
                     .x = time_axis(input),
                     .row_title = "Link",
                     .value = {.title = "Utilisation", .quantity = Quantity::kShare, .to = 1}};
  map.x.to = static_cast<double>(width) * static_cast<double>(columns);
  map.cells.assign(links.size(), std::vector<double>(columns, 0));
  std::vector<std::uint64_t> sent(links.size(), 0);
  for (const PortSample& sample : input.results.port_samples) {
    const std::size_t row = row_of[sample.port];
    if (row == links.size() || sample.at % width != 0) continue;
    const auto end = static_cast<std::size_t>(sample.at / width);
    if (end > 0 && end <= columns)
      map.cells[row][end - 1] =
          load_of(sample.sent_bytes - sent[row], input.results.ports[sample.port].rate_bps, width);
    sent[row] = sample.sent_bytes;
  }
  for (const std::uint32_t link : links)
    map.rows.push_back(port_name(input.results.ports[link]));
  return {.name = "links", .title = "Load of the links", .chart = std::move(map)};
}

// From switches to switches, the mean over the run.
Plot links_by_ends(const PlotInput& input) {
  Plot plot = without_series("links", "Load of the links");
  if (!input.plan) return plot;
  std::vector<std::uint32_t> ends;
  for (std::uint32_t node = 0; node < input.plan->nodes.size(); ++node)
    if (is_switch(*input.plan, node)) ends.push_back(node);
  if (ends.size() < 2 || ends.size() > kMatrixSidesMax) return plot;
  const double none = std::numeric_limits<double>::quiet_NaN();
  std::vector<std::vector<double>> sums(ends.size(), std::vector<double>(ends.size(), 0));
  std::vector<std::vector<double>> counts = sums;
  for (std::uint32_t port = 0; port < input.results.ports.size(); ++port) {
    const std::uint32_t from = input.plan->near_end(port);
    const std::uint32_t to = input.plan->far_end(port);
    if (!is_switch(*input.plan, from) || !is_switch(*input.plan, to)) continue;
    const sim::PortRecord& record = input.results.ports[port];
    sums[from - ends[0]][to - ends[0]] +=
        load_of(record.counters.bytes, record.rate_bps, input.results.simulated);
    ++counts[from - ends[0]][to - ends[0]];
  }
  chart::HeatMap map{.title = "Mean load of the links between switches",
                     .subtitle = input.subtitle,
                     .x = {.title = "To"},
                     .row_title = "From",
                     .value = {.title = "Utilisation", .quantity = Quantity::kShare, .to = 1}};
  for (std::size_t row = 0; row < ends.size(); ++row) {
    map.rows.push_back(input.plan->nodes[ends[row]].name);
    map.columns.push_back(input.plan->nodes[ends[row]].name);
    for (std::size_t column = 0; column < ends.size(); ++column)
      sums[row][column] = counts[row][column] > 0 ? sums[row][column] / counts[row][column] : none;
  }
  map.cells = std::move(sums);
  plot.chart = std::move(map);
  plot.missing.clear();
  return plot;
}

}  // namespace

Plot plot_queues(const PlotInput& input) {
  const std::string title = "Queues over time";
  if (input.results.port_samples.empty()) return without_series("queues", title);
  const std::vector<std::uint32_t> ports = busiest_queues(input);
  if (ports.empty())
    return {.name = "queues", .title = title, .missing = "No switch ever had a packet waiting."};
  chart::LineChart chart{.title = "Queues of the busiest switch ports",
                         .subtitle = input.subtitle,
                         .x = time_axis(input),
                         .y = {.title = "Data waiting", .quantity = Quantity::kBytes},
                         .thresholds = thresholds_of(input),
                         .spans = input.faults};
  std::vector<std::size_t> series_of(input.results.ports.size(), ports.size());
  for (std::size_t i = 0; i < ports.size(); ++i) {
    series_of[ports[i]] = i;
    chart.series.push_back({.name = port_name(input.results.ports[ports[i]])});
  }
  for (const PortSample& sample : input.results.port_samples)
    if (const std::size_t i = series_of[sample.port]; i < ports.size())
      chart.series[i].points.push_back(
          {.x = static_cast<double>(sample.at), .y = static_cast<double>(sample.queue_bytes)});
  return {.name = "queues", .title = title, .chart = std::move(chart)};
}

Plot plot_links(const PlotInput& input) {
  return input.results.port_samples.empty() ? links_by_ends(input) : links_over_time(input);
}

}  // namespace spindrift::simtool
