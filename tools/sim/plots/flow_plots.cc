// What flows do over time: rates, windows, pacing.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/sim/plots/parts.h"

namespace spindrift::simtool {
namespace {

using chart::Point;
using chart::Quantity;
using sim::FlowSample;
using sim::Picoseconds;

// An algorithm that limits by rate alone leaves the window open.
constexpr std::uint64_t kOpenWindowBytes = 1ULL << 40U;
constexpr std::size_t kWindowLinesMax = 4;
// Rates are means over intervals, so many a run, each long enough for some packets.
constexpr double kIntervalsMax = 240;
constexpr double kIntervalsMin = 40;
constexpr double kPacketsPerInterval = 8;

struct FlowLine {
  std::uint32_t flow = 0;
  std::vector<Point> points{};
};

using Samples = std::vector<const FlowSample*>;  // of one flow

std::map<std::uint32_t, Samples> samples_by_flow(const sim::Results& results) {
  std::map<std::uint32_t, Samples> out;
  for (const FlowSample& sample : results.flow_samples)
    out[sample.flow].push_back(&sample);
  return out;
}

// What flows got on average while they lasted.
double mean_rate_bps(const PlotInput& input) {
  double bits = 0;
  double seconds = 0;
  for (const sim::FlowRecord& flow : input.results.flows) {
    if (!flow.is_done()) continue;
    bits += 8 * static_cast<double>(flow.bytes);
    seconds += static_cast<double>(flow.finish - flow.start) * 1e-12;
  }
  return seconds > 0 ? bits / seconds : 0;
}

// The time over which a rate is measured: a whole number of samples.
Picoseconds rate_interval(const PlotInput& input) {
  const Picoseconds every = std::max<Picoseconds>(input.scenario.sample_every, 1);
  const auto samples = static_cast<double>(input.results.simulated) / static_cast<double>(every);
  const double rate_bps = mean_rate_bps(input);
  const double packets_take =
      rate_bps > 0 ? kPacketsPerInterval * input.scenario.transport.payload_mtu * 8e12 / rate_bps
                   : 0;
  const double wanted =
      std::max(samples / kIntervalsMax,
               std::min(packets_take / static_cast<double>(every), samples / kIntervalsMin));
  return every * static_cast<Picoseconds>(std::max(1.0, std::ceil(wanted)));
}

// Steps: each value holds from its point to the next. The connection's bytes are the flow's where
// no other flow shares the connection; then the time before the first sample and after the last
// one is known too.
FlowLine rate_of(const PlotInput& input, std::uint32_t flow, const Samples& samples,
                 Picoseconds interval) {
  const sim::FlowRecord& record = input.results.flows[flow];
  const bool knows_ends = is_alone(input, flow);
  std::vector<std::pair<Picoseconds, std::uint64_t>> received;
  if (knows_ends) received.emplace_back(record.start, 0);
  for (const FlowSample* sample : samples)
    if (sample->at % interval == 0 && (received.empty() || sample->at > received.back().first))
      received.emplace_back(sample->at, sample->received_bytes);
  const Picoseconds end = record.delivered >= 0 ? record.delivered : record.finish;
  const bool has_tail =
      knows_ends && end > received.back().first && record.bytes >= received.back().second;
  if (has_tail) received.emplace_back(end, record.bytes);
  FlowLine line{.flow = flow};
  for (std::size_t i = 1; i < received.size(); ++i) {
    const auto [from, before] = received[i - 1];
    const auto [to, after] = received[i];
    const double bits = 8 * static_cast<double>(after - before);
    line.points.push_back(
        {.x = static_cast<double>(from), .y = bits * 1e12 / static_cast<double>(to - from)});
  }
  if (line.points.empty()) return line;
  const double last = line.points.back().y;
  const auto at = static_cast<double>(received.back().first);
  line.points.push_back({.x = at, .y = record.is_done() ? 0 : last});
  return line;
}

std::vector<FlowLine> lines_of(
    const PlotInput& input, const std::function<FlowLine(std::uint32_t, const Samples&)>& line_of) {
  std::vector<FlowLine> lines;
  for (const auto& [flow, samples] : samples_by_flow(input.results)) {
    FlowLine line = line_of(flow, samples);
    if (!line.points.empty()) lines.push_back(std::move(line));
  }
  return lines;
}

// A field at every sample.
std::vector<FlowLine> field_lines(const PlotInput& input,
                                  const std::function<double(const FlowSample&)>& field) {
  return lines_of(input, [&](std::uint32_t flow, const Samples& samples) {
    FlowLine line{.flow = flow};
    for (const FlowSample* sample : samples)
      line.points.push_back({.x = static_cast<double>(sample->at), .y = field(*sample)});
    return line;
  });
}

struct Spread {
  std::vector<chart::BandPoint> all{};
  std::vector<Point> median{};
};

// Over the flows that are active, at times `step` apart.
Spread spread_of(const std::vector<FlowLine>& lines, double step) {
  std::map<std::int64_t, std::vector<double>> at;
  for (const FlowLine& line : lines)
    for (std::size_t i = 0; i + 1 < line.points.size(); ++i) {
      const auto first = static_cast<std::int64_t>(std::ceil(line.points[i].x / step));
      for (std::int64_t n = first; static_cast<double>(n) * step < line.points[i + 1].x; ++n)
        at[n].push_back(line.points[i].y);
    }
  Spread spread;
  for (auto& [n, values] : at) {
    std::sort(values.begin(), values.end());
    const double x = static_cast<double>(n) * step;
    spread.all.push_back({.x = x, .low = values.front(), .high = values.back()});
    spread.median.push_back({.x = x, .y = values[values.size() / 2]});
  }
  return spread;
}

void add_spread(chart::LineChart& chart, const std::vector<FlowLine>& lines, double step,
                const std::string& of_what, std::size_t look) {
  Spread spread = spread_of(lines, step);
  chart.series.push_back(
      {.name = absl::StrCat("median", of_what), .points = std::move(spread.median), .look = look});
  chart.bands.push_back({.name = absl::StrCat("lowest to highest", of_what),
                         .points = std::move(spread.all),
                         .look = look});
}

// A line each, or the spread of many.
void add_lines(chart::LineChart& chart, const PlotInput& input, std::vector<FlowLine> lines,
               Picoseconds step) {
  if (lines.size() > kLinesMax) {
    add_spread(chart, lines, static_cast<double>(step),
               absl::StrCat(" of ", lines.size(), " flows"), 0);
    return;
  }
  for (FlowLine& line : lines)
    chart.series.push_back(
        {.name = flow_name(input, line.flow), .points = std::move(line.points), .is_step = true});
}

chart::LineChart chart_of(const PlotInput& input, std::string title, chart::Axis y) {
  return {.title = std::move(title),
          .subtitle = input.subtitle,
          .x = time_axis(input),
          .y = std::move(y),
          .spans = input.faults};
}

}  // namespace

Plot plot_rates(const PlotInput& input) {
  if (input.results.flow_samples.empty()) return without_series("rates", "Rates over time");
  chart::LineChart chart = chart_of(input, "Rates at which flows arrive",
                                    {.title = "Rate of payload", .quantity = Quantity::kBitRate});
  const Picoseconds interval = rate_interval(input);
  const auto line_of = [&](std::uint32_t flow, const Samples& samples) {
    return rate_of(input, flow, samples, interval);
  };
  add_lines(chart, input, lines_of(input, line_of), interval);
  return {.name = "rates", .title = "Rates over time", .chart = std::move(chart)};
}

Plot plot_windows(const PlotInput& input) {
  const std::string title = "Windows over time";
  if (input.results.flow_samples.empty()) return without_series("windows", title);
  chart::LineChart chart = chart_of(input, "Congestion windows and bytes in flight",
                                    {.title = "Bytes of a flow", .quantity = Quantity::kBytes});
  std::vector<FlowLine> in_flight = field_lines(
      input, [](const FlowSample& s) { return static_cast<double>(s.in_flight_bytes); });
  std::vector<FlowLine> windows =
      field_lines(input, [](const FlowSample& s) { return static_cast<double>(s.window_bytes); });
  const bool is_open =
      std::all_of(input.results.flow_samples.begin(), input.results.flow_samples.end(),
                  [](const FlowSample& s) {
                    return s.window_bytes == 0 || s.window_bytes >= kOpenWindowBytes;
                  });
  if (is_open) {
    windows.clear();
    chart.title = "Bytes in flight (the algorithm sets no window)";
  }
  if (in_flight.size() > kWindowLinesMax) {
    const auto step = static_cast<double>(rate_interval(input));
    if (!is_open)
      add_spread(chart, windows, step, absl::StrCat(" window of ", windows.size(), " flows"), 0);
    add_spread(chart, in_flight, step, " in flight", 1);
    return {.name = "windows", .title = title, .chart = std::move(chart)};
  }
  for (std::size_t i = 0; i < in_flight.size(); ++i) {
    const std::string name = flow_name(input, in_flight[i].flow);
    if (!is_open)
      chart.series.push_back({.name = absl::StrCat(name, " window"),
                              .points = std::move(windows[i].points),
                              .is_step = true,
                              .look = i});
    chart.series.push_back({.name = absl::StrCat(name, " in flight"),
                            .points = std::move(in_flight[i].points),
                            .is_step = true,
                            .is_dashed = !is_open,
                            .look = i});
  }
  return {.name = "windows", .title = title, .chart = std::move(chart)};
}

std::optional<Plot> plot_pacing(const PlotInput& input) {
  const auto& samples = input.results.flow_samples;
  if (std::none_of(samples.begin(), samples.end(),
                   [](const FlowSample& s) { return s.pacing_bps > 0; }))
    return std::nullopt;
  chart::LineChart chart =
      chart_of(input, "Rates that the algorithm allows",
               {.title = "Pacing rate of a flow", .quantity = Quantity::kBitRate});
  add_lines(
      chart, input,
      field_lines(input, [](const FlowSample& s) { return static_cast<double>(s.pacing_bps); }),
      rate_interval(input));
  return Plot{.name = "pacing", .title = "Pacing rates over time", .chart = std::move(chart)};
}

}  // namespace spindrift::simtool
