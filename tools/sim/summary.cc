#include "tools/sim/summary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/sim/quantities.h"

namespace spindrift::simtool {
namespace {

double ranked(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

std::string count_text(double value) {
  return absl::StrFormat("%.0f", value);
}
std::string ratio_text(double value) {
  return absl::StrFormat("%.3f", value);
}
std::string seconds_text(double value) {
  return absl::StrFormat("%.2f s", value);
}
std::string rate_of_events_text(double value) {
  return absl::StrFormat("%.2f M/s", value / 1e6);
}

double whole(std::uint64_t value) {
  return static_cast<double>(value);
}

using S = const Summary&;
constexpr std::array kFigures = {
    Figure{"flows", "flows", [](S s) { return whole(s.flows); }, count_text},
    Figure{"unfinished", "unfinished", [](S s) { return whole(s.unfinished); }, count_text},
    Figure{"completion_min_ps", "min", [](S s) { return s.completion_ps.min; }, rounded_time},
    Figure{"completion_mean_ps", "mean", [](S s) { return s.completion_ps.mean; }, rounded_time},
    Figure{"completion_p50_ps", "p50", [](S s) { return s.completion_ps.p50; }, rounded_time},
    Figure{"completion_p99_ps", "p99", [](S s) { return s.completion_ps.p99; }, rounded_time},
    Figure{"completion_max_ps", "max", [](S s) { return s.completion_ps.max; }, rounded_time},
    Figure{"slowdown_mean", "slowdown", [](S s) { return s.slowdown.mean; }, ratio_text},
    Figure{"slowdown_p99", "slowdown p99", [](S s) { return s.slowdown.p99; }, ratio_text},
    Figure{"goodput_bps", "goodput", [](S s) { return s.goodput_bps; }, rounded_rate},
    Figure{"jain", "Jain", [](S s) { return s.jain; }, ratio_text},
    Figure{"packets_sent", "packets", [](S s) { return whole(s.packets_sent); }, count_text},
    Figure{"retransmits_reordered", "resent: gap",
           [](S s) { return whole(s.retransmits_reordered); }, count_text},
    Figure{"retransmits_trimmed", "resent: trim", [](S s) { return whole(s.retransmits_trimmed); },
           count_text},
    Figure{"retransmits_timeout", "resent: timeout",
           [](S s) { return whole(s.retransmits_timeout); }, count_text},
    Figure{"spurious_retransmits", "needless", [](S s) { return whole(s.spurious_retransmits); },
           count_text},
    Figure{"drops", "drops", [](S s) { return whole(s.drops); }, count_text},
    Figure{"trims", "trims", [](S s) { return whole(s.trims); }, count_text},
    Figure{"marks", "marks", [](S s) { return whole(s.marks); }, count_text},
    Figure{"pauses", "pauses", [](S s) { return whole(s.pauses); }, count_text},
    Figure{"paused_ps", "paused", [](S s) { return s.paused_ps; }, rounded_time},
    Figure{"mean_queue_bytes", "mean queue", [](S s) { return s.mean_queue_bytes; }, rounded_bytes},
    Figure{"max_queue_bytes", "max queue", [](S s) { return whole(s.max_queue_bytes); },
           rounded_bytes},
    Figure{"simulated_ps", "simulated", [](S s) { return s.simulated_ps; }, rounded_time},
    Figure{"cpu_seconds", "CPU", [](S s) { return s.cpu_seconds; }, seconds_text},
    Figure{"hops_per_cpu_second", "hops", [](S s) { return s.hops_per_cpu_second; },
           rate_of_events_text},
};

}  // namespace

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {.min = values.front(),
          .mean = std::accumulate(values.begin(), values.end(), 0.0) /
                  static_cast<double>(values.size()),
          .p50 = ranked(values, 0.5),
          .p99 = ranked(values, 0.99),
          .max = values.back()};
}

Summary summarise(const sim::Results& results) {
  Summary out;
  out.flows = results.flows.size();
  std::vector<double> completions;
  std::vector<double> slowdowns;
  double bytes = 0;
  double rates = 0;
  double squares = 0;
  for (const sim::FlowRecord& flow : results.flows) {
    out.packets_sent += flow.packets_sent;
    out.retransmits_reordered += flow.retransmits_reordered;
    out.retransmits_trimmed += flow.retransmits_trimmed;
    out.retransmits_timeout += flow.retransmits_timeout;
    out.spurious_retransmits += flow.spurious_retransmits;
    if (!flow.is_done()) {
      ++out.unfinished;
      continue;
    }
    const auto took = static_cast<double>(std::max<sim::Picoseconds>(flow.finish - flow.start, 1));
    completions.push_back(took);
    if (flow.ideal > 0) slowdowns.push_back(took / static_cast<double>(flow.ideal));
    const auto size = static_cast<double>(flow.bytes);
    bytes += size;
    rates += size / took;
    squares += size / took * (size / took);
  }
  if (squares > 0) out.jain = rates * rates / (static_cast<double>(completions.size()) * squares);
  out.completion_ps = spread_of(std::move(completions));
  out.slowdown = spread_of(std::move(slowdowns));
  out.simulated_ps = static_cast<double>(results.simulated);
  if (results.simulated > 0) out.goodput_bps = bytes * 8 / (out.simulated_ps * 1e-12);
  const sim::PortCounters& total = results.total;
  out.drops = total.drops_full + total.drops_loss + total.drops_down;
  out.trims = total.trims;
  out.marks = total.marks;
  out.pauses = results.pauses_sent;
  out.paused_ps = static_cast<double>(total.paused);
  out.mean_queue_bytes = total.mean_queue_bytes;
  out.max_queue_bytes = total.max_queue_bytes;
  out.cpu_seconds = results.run_seconds;
  if (results.run_seconds > 0)
    out.hops_per_cpu_second = static_cast<double>(results.run_hops) / results.run_seconds;
  return out;
}

std::span<const Figure> figures() {
  return kFigures;
}

}  // namespace spindrift::simtool
