// Tables for people.
#include <algorithm>
#include <array>
#include <map>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tools/sim/keys.h"
#include "tools/sim/output.h"
#include "tools/sim/quantities.h"
#include "tools/sim/text.h"

namespace spindrift::simtool {
namespace {

using Row = std::vector<std::string>;

// Columns as wide as their widest cell; the first one left-aligned, numbers right.
std::string aligned(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      append(out, i == 0 ? "" : "  ", i == 0 ? row[i] + padding : padding + row[i]);
    }
    while (out.back() == ' ')
      out.pop_back();
    out.push_back('\n');
  }
  return out;
}

const Figure& figure(std::string_view name) {
  return *std::find_if(figures().begin(), figures().end(),
                       [name](const Figure& one) { return one.name == name; });
}

std::string value_text(const Summary& summary, std::string_view name) {
  const Figure& one = figure(name);
  return one.text(one.value(summary));
}

std::string port_name(const sim::PortRecord& port) {
  return cat(port.from, " > ", port.to);
}

std::string busiest_ports(const sim::Results& results) {
  constexpr std::size_t kShown = 5;
  std::vector<const sim::PortRecord*> ports;
  for (const sim::PortRecord& port : results.ports)
    ports.push_back(&port);
  const std::size_t shown = std::min(kShown, ports.size());
  std::partial_sort(ports.begin(), ports.begin() + static_cast<std::ptrdiff_t>(shown), ports.end(),
                    [](const sim::PortRecord* a, const sim::PortRecord* b) {
                      if (a->counters.mean_queue_bytes != b->counters.mean_queue_bytes)
                        return a->counters.mean_queue_bytes > b->counters.mean_queue_bytes;
                      return a->counters.bytes > b->counters.bytes;
                    });
  std::vector<Row> rows = {
      {"port", "rate", "busy", "mean queue", "max queue", "drops", "trims", "marks", "paused"}};
  for (std::size_t i = 0; i < shown; ++i) {
    const sim::PortCounters& n = ports[i]->counters;
    const double could = static_cast<double>(ports[i]->rate_bps) / 8e12 *
                         static_cast<double>(std::max<sim::Picoseconds>(results.simulated, 1));
    rows.push_back({port_name(*ports[i]), rounded_rate(static_cast<double>(ports[i]->rate_bps)),
                    absl::StrFormat("%.0f %%", 100 * static_cast<double>(n.bytes) / could),
                    rounded_bytes(n.mean_queue_bytes),
                    rounded_bytes(static_cast<double>(n.max_queue_bytes)),
                    cat(n.drops_full + n.drops_loss + n.drops_down), cat(n.trims), cat(n.marks),
                    rounded_time(static_cast<double>(n.paused))});
  }
  return aligned(rows);
}

// Sentences about what did not go as it should.
std::string troubles(const sim::Results& results, const Summary& summary) {
  std::string out;
  if (summary.unfinished != 0)
    append(out, summary.unfinished, " of ", summary.flows, " flows were not finished at `end`.\n");
  for (const sim::FlowRecord& flow : results.flows) {
    if (flow.error.empty()) continue;
    append(out, "host", flow.source, " > host", flow.destination, ": ", flow.error, "\n");
    break;
  }
  for (const std::string& deadlock : results.deadlocks)
    append(out, "Deadlock: ", deadlock, "\n");
  if (results.payload_errors != 0)
    append(out, results.payload_errors, " flows did not arrive intact.\n");
  return out;
}

std::string what_it_was(const PlannedRun& plan) {
  const sim::Scenario& s = plan.file.scenario;
  return cat(plan.label(), plan.label().empty() ? "" : ": ", s.workload.name, " on ",
             s.topology.name, ", ", s.transport.congestion_control, ", ", s.transport.path_selector,
             " over ", s.transport.path_count, " paths, seed ", s.seed, "\n\n");
}

}  // namespace

std::vector<Point> points_of(std::span<const FinishedRun> runs) {
  std::vector<Point> points;
  for (const FinishedRun& run : runs) {
    if (points.empty() || points.back().first->plan->point != run.plan->point)
      points.push_back({.first = &run, .seeds = {}});
    points.back().seeds.push_back(summarise(run.results));
  }
  return points;
}

double mean_of(const Point& point, const Figure& one) {
  double sum = 0;
  for (const Summary& summary : point.seeds)
    sum += one.value(summary);
  return sum / static_cast<double>(point.seeds.size());
}

std::string detail_text(const FinishedRun& run) {
  const Summary summary = summarise(run.results);
  const auto text = [&summary](std::string_view name) { return value_text(summary, name); };
  std::string out = what_it_was(*run.plan);
  absl::StrAppend(
      &out,
      aligned({{"flows", "min", "mean", "p50", "p99", "max", "slowdown", "goodput", "Jain"},
               {text("flows"), text("completion_min_ps"), text("completion_mean_ps"),
                text("completion_p50_ps"), text("completion_p99_ps"), text("completion_max_ps"),
                text("slowdown_mean"), text("goodput_bps"), text("jain")}}),
      "\n",
      aligned({{"packets", "resent: gap", "trim", "timeout", "needless", "drops", "trims", "marks",
                "pauses", "paused"},
               {text("packets_sent"), text("retransmits_reordered"), text("retransmits_trimmed"),
                text("retransmits_timeout"), text("spurious_retransmits"), text("drops"),
                text("trims"), text("marks"), text("pauses"), text("paused_ps")}}),
      "\n", busiest_ports(run.results), "\n", troubles(run.results, summary));
  absl::StrAppendFormat(&out, "%s simulated in %s of processor time (%s hops); history %016x\n",
                        text("simulated_ps"), text("cpu_seconds"), text("hops_per_cpu_second"),
                        run.results.history);
  return out;
}

std::string table_text(std::span<const FinishedRun> runs) {
  const std::vector<Point> points = points_of(runs);
  if (points.empty()) return {};
  constexpr std::array<std::string_view, 11> kShown = {"flows",
                                                       "completion_mean_ps",
                                                       "completion_p99_ps",
                                                       "completion_max_ps",
                                                       "goodput_bps",
                                                       "jain",
                                                       "drops",
                                                       "trims",
                                                       "marks",
                                                       "pauses",
                                                       "max_queue_bytes"};
  const std::size_t most_seeds =
      std::max_element(points.begin(), points.end(), [](const Point& a, const Point& b) {
        return a.seeds.size() < b.seeds.size();
      })->seeds.size();
  std::vector<Row> rows(1);
  for (const auto& [key, value] : points.front().first->plan->varied)
    rows[0].push_back(key.substr(key.rfind('.') + 1));
  if (rows[0].empty()) rows[0].emplace_back("scenario");
  for (const std::string_view name : kShown)
    rows[0].emplace_back(figure(name).title);
  rows[0].emplace_back("resent");
  if (most_seeds > 1) rows[0].emplace_back("max over seeds");
  for (const Point& point : points) {
    Row row;
    for (const auto& [key, value] : point.first->plan->varied)
      row.push_back(value);
    if (row.empty()) row.push_back(point.first->plan->label());
    for (const std::string_view name : kShown)
      row.push_back(figure(name).text(mean_of(point, figure(name))));
    double resent = 0;
    std::vector<double> longest;
    for (const Summary& one : point.seeds) {
      resent += static_cast<double>(one.retransmits());
      longest.push_back(one.completion_ps.max);
    }
    row.push_back(absl::StrFormat("%.0f", resent / static_cast<double>(point.seeds.size())));
    const Spread spread = spread_of(longest);
    if (most_seeds > 1) row.push_back(rounded_time(spread.min) + " .. " + rounded_time(spread.max));
    rows.push_back(std::move(row));
  }
  std::string out = aligned(rows);
  if (most_seeds > 1)
    append(out, "Means over ", most_seeds,
           " seeds; the last column is the shortest and "
           "the longest time of the last flow.\n");
  return out;
}

}  // namespace spindrift::simtool
