#pragma once
// Runs a scenario: real endpoints on simulated hosts, in virtual time, from one seed. The same
// scenario and seed give the same results and the same history hash, whatever the compiler.
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "spindrift/registry.h"
#include "spindrift/seat.h"

#include "sim/scenario.h"

namespace spindrift::sim {

// Times are picoseconds after the workload's start.
struct FlowRecord {
  std::uint32_t source = 0;
  std::uint32_t destination = 0;
  std::uint64_t bytes = 0;
  Picoseconds start = 0;
  Picoseconds finish = -1;     // the sender knows that all arrived; -1: not finished
  Picoseconds delivered = -1;  // the receiver has all bytes; -1: not observed (nobody waits for it)
  // Of the connection between start and finish. Flows of one pair of hosts share a connection.
  std::uint64_t packets_sent = 0;
  std::uint64_t retransmits_reordered = 0;
  std::uint64_t retransmits_trimmed = 0;
  std::uint64_t retransmits_timeout = 0;
  std::uint64_t spurious_retransmits = 0;
  // What arithmetic allows on an idle network: serialisation and propagation of this flow alone.
  Picoseconds ideal = 0;
  std::string error{};  // of a connection that failed
  bool is_done() const { return finish >= 0; }
};

struct PortCounters {
  std::uint64_t packets = 0;  // that left: hops
  std::uint64_t bytes = 0;
  std::uint64_t drops_full = 0;
  std::uint64_t drops_loss = 0;  // random loss of the link
  std::uint64_t drops_down = 0;  // the link was down
  std::uint64_t trims = 0;
  std::uint64_t marks = 0;
  std::uint64_t pauses_received = 0;
  Picoseconds paused = 0;
  std::uint64_t max_queue_bytes = 0;  // data that waits
  double mean_queue_bytes = 0;        // over the run
};
struct PortRecord {
  std::string from{};
  std::string to{};
  std::uint64_t rate_bps = 0;
  PortCounters counters{};
};

// Rows of a time series: one per sample and flow, or port.
struct FlowSample {
  Picoseconds at = 0;
  std::uint32_t flow = 0;
  std::uint64_t received_bytes = 0;  // by the connection's far end, since it opened
  std::uint64_t window_bytes = 0;
  std::uint64_t pacing_bps = 0;  // 0: not paced
  std::uint64_t in_flight_bytes = 0;
  Picoseconds rtt = 0;  // smoothed
};
struct PortSample {
  Picoseconds at = 0;
  std::uint32_t port = 0;  // index into Results::ports
  std::uint64_t queue_bytes = 0;
  std::uint64_t sent_bytes = 0;  // since the workload's start
  bool is_paused = false;
};
// What one path of a flow's connection carried in the whole run.
struct PathShare {
  std::uint32_t flow = 0;
  std::uint32_t path = 0;
  std::uint64_t packets = 0;
  std::uint64_t lost = 0;
  std::uint64_t marked = 0;
};

struct Results {
  std::vector<FlowRecord> flows{};
  std::vector<PortRecord> ports{};
  PortCounters total{};  // sums; maxima for max_queue_bytes; the largest of mean_queue_bytes
  std::vector<FlowSample> flow_samples{};
  std::vector<PortSample> port_samples{};
  std::vector<PathShare> path_shares{};
  std::vector<std::string> deadlocks{};  // sentences that name the cycle of paused ports
  std::uint64_t pauses_sent = 0;
  Picoseconds simulated = 0;  // from the workload's start to its end
  std::uint64_t history = 0;  // hash over every packet that left a queue, when and which
  std::uint64_t hops = 0;     // packets that left a queue, set-up included
  std::uint64_t events = 0;
  double set_up_seconds = 0;         // processor time for building and connecting
  double run_seconds = 0;            // processor time for the workload itself
  std::uint64_t run_hops = 0;        // of the workload itself
  std::uint64_t payload_errors = 0;  // flows whose bytes did not arrive intact (carries_payload)
};

struct Progress {
  Picoseconds now = 0;
  std::size_t flows_done = 0;
  std::size_t flows_total = 0;
  std::uint64_t hops = 0;
};
class RunObserver;  // observer.h

// CommunicatorSeat::take of the collective layer, which the simulator is not linked to.
using TakeSeat =
    std::function<Result<std::unique_ptr<CommunicatorSeat>>(Endpoint&, const CommunicatorOptions&)>;

struct RunOptions {
  // Called about every 100,000 events; false stops the run, and Results hold what there is.
  std::function<bool(const Progress&)> on_progress{};
  RunObserver* observer = nullptr;  // lives as long as the run
  TakeSeat take_seat{};             // for workload "collective"
  // Turns in the order of time only: slower with many hosts, and nothing else (for tests).
  bool is_in_order_of_time = false;
};

using RunError = std::vector<Complaint>;  // never empty
std::variant<Results, RunError> run(const Scenario& scenario, const Registry& registry,
                                    const RunOptions& options = {});

}  // namespace spindrift::sim
