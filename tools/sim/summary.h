#pragma once
// What a run comes to, in numbers that people compare.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/simulation.h"

namespace spindrift::simtool {

struct Spread {
  double min = 0;
  double mean = 0;
  double p50 = 0;
  double p99 = 0;
  double max = 0;
};
// Percentiles by rank, without interpolation. All zero for no values.
Spread spread_of(std::vector<double> values);

struct Summary {
  std::size_t flows = 0;
  std::size_t unfinished = 0;
  Spread completion_ps{};  // of the finished flows, from their start
  Spread slowdown{};       // completion by what arithmetic allows on an idle network
  // Payload of finished flows by the time from the workload's start to its end.
  double goodput_bps = 0;
  // Jain's index over the flows' own rates (bytes by completion): 1 is perfectly fair.
  double jain = 0;
  std::uint64_t packets_sent = 0;
  std::uint64_t retransmits_reordered = 0;
  std::uint64_t retransmits_trimmed = 0;
  std::uint64_t retransmits_timeout = 0;
  std::uint64_t spurious_retransmits = 0;
  std::uint64_t drops = 0;  // full queues, random loss, links that were down
  std::uint64_t trims = 0;
  std::uint64_t marks = 0;
  std::uint64_t pauses = 0;
  double paused_ps = 0;         // summed over ports
  double mean_queue_bytes = 0;  // of the port where it is largest
  std::uint64_t max_queue_bytes = 0;
  double simulated_ps = 0;
  double cpu_seconds = 0;  // of the workload, set-up not counted
  double hops_per_cpu_second = 0;

  std::uint64_t retransmits() const {
    return retransmits_reordered + retransmits_trimmed + retransmits_timeout;
  }
};

Summary summarise(const sim::Results& results);

// One number of a summary, as tables, CSV and JSON name it.
struct Figure {
  std::string_view name;   // "completion_p99_ps"
  std::string_view title;  // "p99"
  double (*value)(const Summary& summary);
  std::string (*text)(double value);  // for people, with its unit
};
std::span<const Figure> figures();

}  // namespace spindrift::simtool
