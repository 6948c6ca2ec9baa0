// What one packet costs in the engine: send, receive and acknowledge together, two engines on one
// thread. An iteration is one message (256 of 64 bytes); the counter ns_per_packet is what to read.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "bench/engine_pair.h"
#include "tests/paths/allocation_count.h"

namespace spindrift::bench {
namespace {

struct Case {
  std::uint32_t burst_packets = 16;
  std::uint32_t turn_packets = 16;
  std::uint32_t paths = 16;
  std::uint32_t payload_mtu = 4096;
  std::uint32_t message_bytes = 1U << 20U;
  bool has_crc = false;
  bool has_link_copy = false;
  std::string congestion_control = "nscc";
  std::string path_selector = "reps";
};

EnginePairOptions options_of(const Case& one) {
  EnginePairOptions options;
  options.connection.congestion_control = one.congestion_control;
  options.connection.path_selector = one.path_selector;
  options.connection.path_count = one.paths;
  options.connection.burst_bytes = one.burst_packets * one.payload_mtu;
  options.connection.max_payload_mtu = one.payload_mtu;
  options.connection.crc = one.has_crc ? CrcChoice::kOn : CrcChoice::kOff;
  options.batch_packets = one.burst_packets;
  options.turn_packets = one.turn_packets;
  options.carries_payload = one.has_link_copy;
  return options;
}

// A stream of WRITEs from a to b, always enough of them posted.
class Stream {
 public:
  explicit Stream(const Case& one)
      : source_(one.message_bytes), target_(one.message_bytes), pair_(options_of(one)) {
    if (!pair_.open()) return;
    auto from = pair_.a().context().memory.add(source_, Access::kLocalRead, {}, 1);
    auto to = pair_.b().context().memory.add(target_, kAllAccess, {}, 2);
    if (!from.ok() || !to.ok()) return;
    piece_ = sge_of(from.value(), 0, one.message_bytes);
    write_.conn = pair_.at_a().id;
    write_.kind = OpKind::kWrite;
    write_.remote_key = to.value().remote.key;
    is_open_ = true;
  }
  bool is_open() const { return is_open_; }
  // False when something failed.
  bool run(std::uint64_t messages) {
    write_.local = {&piece_, 1};
    for (std::uint64_t done = 0; done < messages;) {
      while (outstanding_ < kDepth && pair_.post(write_))
        ++outstanding_;
      pair_.step();
      std::uint64_t count = 0;
      if (!pair_.take_completions(count)) return false;
      outstanding_ -= count;
      done += count;
    }
    return true;
  }
  EnginePair& pair() { return pair_; }
  // Nothing was lost or sent twice: what was measured is the straight path.
  bool was_clean() {
    const ConnectionCounters& sent = pair_.at_a().counters;
    const ConnectionCounters& received = pair_.at_b().counters;
    return sent.retransmits_reordered + sent.retransmits_timeout + sent.acks_impossible == 0 &&
           received.crc_errors + received.duplicates_received == 0;
  }

 private:
  static constexpr std::uint64_t kDepth = 256;

  std::vector<std::byte> source_;
  std::vector<std::byte> target_;
  EnginePair pair_;
  Sge piece_{};
  WorkRequest write_{};
  std::uint64_t outstanding_ = 0;
  bool is_open_ = false;
};

void measure(benchmark::State& state, const Case& one) {
  Stream stream(one);
  const std::uint64_t messages = one.message_bytes < one.payload_mtu ? 256 : 1;
  if (!stream.is_open() || !stream.run(256 * messages)) {
    state.SkipWithError("the engines did not connect");
    return;
  }
  const ConnectionCounters& counters = stream.pair().at_a().counters;
  const std::uint64_t packets_before = counters.packets_sent;
  const std::uint64_t acks_before = counters.acks_received;
  const std::uint64_t allocations_before = test::allocation_count();
  for (auto _ : state) {
    if (!stream.run(messages)) {
      state.SkipWithError("a message failed");
      break;
    }
  }
  const auto allocations = static_cast<double>(test::allocation_count() - allocations_before);
  const auto packets = static_cast<double>(counters.packets_sent - packets_before);
  if (!stream.was_clean()) state.SkipWithError("packets were lost or sent twice");
  if (allocations != 0) state.SkipWithError("the engines allocated memory");
  state.SetItemsProcessed(static_cast<std::int64_t>(packets));
  state.SetBytesProcessed(
      static_cast<std::int64_t>(state.iterations() * messages * one.message_bytes));
  state.counters["ns_per_packet"] =
      benchmark::Counter(packets / 1e9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["allocations"] = allocations / packets;
  state.counters["packets_per_ack"] =
      packets / static_cast<double>(counters.acks_received - acks_before);
}

void add(const std::string& name, const Case& one) {
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
