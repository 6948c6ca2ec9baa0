// What a run says: counters of flows and ports, samples.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "sim/world.h"

namespace spindrift::sim {
namespace {

// Picks fields by name.
class Fields final : public StateWriter {
 public:
  void field(std::string_view name, double value) override {
    if (name == "window_bytes") window_bytes = value;
    if (name == "in_flight_bytes") in_flight_bytes = value;
    if (name == "pacing_rate_bps") pacing_bps = value;
    if (name == "rtt_us") rtt_us = value;
  }
  double window_bytes = 0;
  double in_flight_bytes = 0;
  double pacing_bps = 0;
  double rtt_us = 0;
};

class Counts final : public CounterWriter {
 public:
  void counter(std::string_view name, std::uint64_t value) override {
    if (name == "packets_sent") packets_sent = value;
    if (name == "bytes_sent") bytes_sent = value;
    if (name == "retransmits_reordered") reordered = value;
    if (name == "retransmits_trimmed") trimmed = value;
    if (name == "retransmits_timeout") timeout = value;
    if (name == "spurious_retransmits") spurious = value;
    if (name == "bytes_received") bytes_received = value;
  }
  std::uint64_t packets_sent = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t reordered = 0;
  std::uint64_t trimmed = 0;
  std::uint64_t timeout = 0;
  std::uint64_t spurious = 0;
  std::uint64_t bytes_received = 0;
};

void add(PortCounters& sum, const PortCounters& one) {
  sum.packets += one.packets;
  sum.bytes += one.bytes;
  sum.drops_full += one.drops_full;
  sum.drops_loss += one.drops_loss;
  sum.drops_down += one.drops_down;
  sum.trims += one.trims;
  sum.marks += one.marks;
  sum.pauses_received += one.pauses_received;
  sum.paused += one.paused;
  sum.max_queue_bytes = std::max(sum.max_queue_bytes, one.max_queue_bytes);
  sum.mean_queue_bytes = std::max(sum.mean_queue_bytes, one.mean_queue_bytes);
}

std::uint64_t whole(double value) {
  return value <= 0 ? 0 : static_cast<std::uint64_t>(std::min(value, 0x1.0p63));
}

}  // namespace

// At the start the counters are taken away, at the end added.
void World::count_into(FlowRecord& record, const Pair& pair, bool is_end) const {
  Counts counts;
  hosts_[pair.source]->endpoint().counters(pair.at_source, counts);
  const auto put = [is_end](std::uint64_t& field, std::uint64_t value) {
    field = is_end ? field + value : field - value;
  };
  put(record.packets_sent, counts.packets_sent);
  put(record.retransmits_reordered, counts.reordered);
  put(record.retransmits_trimmed, counts.trimmed);
  put(record.retransmits_timeout, counts.timeout);
  put(record.spurious_retransmits, counts.spurious);
}

std::string World::name_of(std::uint32_t port) const {
  return absl::StrCat(plan_.nodes[plan_.near_end(port)].name, ">",
                      plan_.nodes[plan_.far_end(port)].name);
}

void World::sample() {
  for (std::uint32_t i = 0; i < flows_.size(); ++i) {
    const Flow& flow = flows_[i];
    const bool is_active = flow.posted != 0 && !flow.record.is_done() && flow.record.error.empty();
    if (!is_active) continue;
    const Pair& pair = pairs_[flow.pair];
    Fields fields;
    hosts_[pair.source]->endpoint().describe(pair.at_source, fields);
    Counts counts;
    hosts_[pair.destination]->endpoint().counters(pair.at_destination, counts);
    results_.flow_samples.push_back({.at = since_start(),
                                     .flow = i,
                                     .received_bytes = counts.bytes_received,
                                     .window_bytes = whole(fields.window_bytes),
                                     .pacing_bps = whole(fields.pacing_bps),
                                     .in_flight_bytes = whole(fields.in_flight_bytes),
                                     .rtt = static_cast<Picoseconds>(fields.rtt_us * 1e6)});
  }
  for (std::uint32_t port = 0; port < network_.port_count(); ++port)
    results_.port_samples.push_back({.at = since_start(),
                                     .port = port,
                                     .queue_bytes = network_.queue_bytes(port),
                                     .sent_bytes = network_.counters(port).bytes,
                                     .is_paused = network_.is_paused(port)});
  plan_item(events_.now() + scenario_.sample_every, Item::Kind::kSample, 0);
}

void World::look_for_deadlocks() {
  for (const auto& cycle : network_.find_deadlocks(scenario_.network.deadlock_after)) {
    std::string sentence = "each waits for the next, paused: ";
    for (const std::uint32_t port : cycle)
      absl::StrAppend(&sentence, name_of(port), ", ");
    absl::StrAppend(&sentence, "and again the first");
    if (std::find(results_.deadlocks.begin(), results_.deadlocks.end(), sentence) ==
        results_.deadlocks.end())
      results_.deadlocks.push_back(std::move(sentence));
  }
  plan_item(events_.now() + scenario_.network.deadlock_after, Item::Kind::kDeadlock, 0);
}

Results World::results() {
  Results& out = results_;
  for (std::uint32_t i = 0; i < flows_.size(); ++i) {
    Flow& flow = flows_[i];
    const bool is_unfinished =
        flow.posted != 0 && !flow.record.is_done() && flow.record.error.empty();
    if (is_unfinished) count_into(flow.record, pairs_[flow.pair], true);
    if (!collective_ && flow.record.is_done() && !memory_.is_intact(i)) ++out.payload_errors;
    out.flows.push_back(std::move(flow.record));
  }
  for (std::uint32_t port = 0; port < network_.port_count(); ++port) {
    PortRecord record{.from = plan_.nodes[plan_.near_end(port)].name,
                      .to = plan_.nodes[plan_.far_end(port)].name,
                      .rate_bps = network_.rate_of(port),
                      .counters = network_.counters(port)};
    add(out.total, record.counters);
    out.ports.push_back(std::move(record));
  }
  if (scenario_.sample_every > 0)
    for (const Pair& pair : pairs_) {
      const auto paths = hosts_[pair.source]->endpoint().paths(pair.at_source);
      for (std::uint32_t path = 0; path < paths.size(); ++path)
        out.path_shares.push_back({.flow = pair.first_flow,
                                   .path = path,
                                   .packets = paths[path].packets_sent,
                                   .lost = paths[path].packets_lost,
                                   .marked = paths[path].packets_marked});
    }
  out.pauses_sent = network_.pauses_sent();
  out.simulated = finished_ - started_;
  out.history = network_.history();
  out.hops = network_.hops();
  out.events = events_.taken();
  return std::move(out);
}

}  // namespace spindrift::sim
