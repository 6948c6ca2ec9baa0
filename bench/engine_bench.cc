// What one packet costs in the engine: send, receive and acknowledge together, two engines on one
// thread. An iteration is one message (256 of 64 bytes); the counter ns_per_packet is what to read.
#include <cstdint>
#include <string>

#include <benchmark/benchmark.h>

#include "bench/engine_stream.h"
#include "bench/skipped_copies.h"
#include "tests/paths/allocation_count.h"

namespace spindrift::bench {
namespace {

void measure(benchmark::State& state, const StreamCase& one) {
  EngineStream stream(one);
  const std::uint64_t messages = one.message_bytes < one.payload_mtu ? 256 : 1;
  if (!stream.is_open() || !stream.run(256 * messages)) {
    state.SkipWithError("the engines did not connect");
    return;
  }
  const ConnectionCounters& counters = stream.pair().at_a().counters;
  const std::uint64_t packets_before = counters.packets_sent;
  const std::uint64_t acks_before = counters.acks_received;
  const std::uint64_t allocations_before = test::allocation_count();
  const std::uint64_t skipped_before = skipped_copies();
  for (auto _ : state) {
    if (!stream.run(messages)) {
      state.SkipWithError("a message failed");
      break;
    }
  }
  const auto allocations = static_cast<double>(test::allocation_count() - allocations_before);
  const auto packets = static_cast<double>(counters.packets_sent - packets_before);
  if (!one.has_placement_copy &&
      static_cast<double>(skipped_copies() - skipped_before) < 0.9 * packets)
    state.SkipWithError("the copies of the payload are no calls of memcpy any more");
  if (!stream.was_clean()) state.SkipWithError("packets were lost or sent twice");
  if (allocations != 0) state.SkipWithError("the engines allocated memory");
  state.SetItemsProcessed(static_cast<std::int64_t>(packets));
  state.SetBytesProcessed(state.iterations() *
                          static_cast<std::int64_t>(messages * one.message_bytes));
  state.counters["ns_per_packet"] =
      benchmark::Counter(packets / 1e9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["allocations"] = allocations / packets;
  state.counters["packets_per_ack"] =
      packets / static_cast<double>(counters.acks_received - acks_before);
}

void add(const std::string& name, const StreamCase& one) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [one](benchmark::State& state) { measure(state, one); });
}

void add_all() {
  for (const std::uint32_t burst : {1U, 8U, 16U, 32U})
    for (const std::uint32_t paths : {1U, 16U, 256U})
      for (const bool has_crc : {false, true})
        add("write_1M/burst:" + std::to_string(burst) + "/paths:" + std::to_string(paths) +
                "/crc:" + (has_crc ? "on" : "off"),
            {.burst_packets = burst, .turn_packets = burst, .paths = paths, .has_crc = has_crc});
  for (const std::uint32_t burst : {1U, 16U})
    for (const bool has_crc : {false, true})
      add("write_64/burst:" + std::to_string(burst) + "/crc:" + (has_crc ? "on" : "off"),
          {.burst_packets = burst, .message_bytes = 64, .has_crc = has_crc});
  for (const std::uint32_t burst : {16U, 32U})
    add("write_1M/no_copy/burst:" + std::to_string(burst),
        {.burst_packets = burst, .turn_packets = burst, .has_placement_copy = false});
  add("write_1M/with_link_copy", {.has_link_copy = true});
  add("write_1M/turn:64", {.turn_packets = 64});
  add("write_1M/mtu:512", {.payload_mtu = 512});
  for (const char* selector : {"single", "round_robin", "bitmap", "least_rtt", "mixed"})
    add(std::string("write_1M/policy:") + selector, {.path_selector = selector});
  for (const char* control : {"fixed_window", "dcqcn"})
    add(std::string("write_1M/control:") + control, {.congestion_control = control});
}

}  // namespace
}  // namespace spindrift::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  spindrift::bench::add_all();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
