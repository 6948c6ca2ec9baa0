// The parts of the packet path one by one. Nanoseconds per call, or per packet where the name says
// so.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "cc/algorithms.h"
#include "transport/base/crc32c.h"
#include "transport/paths/policies.h"
#include "transport/receive_log.h"
#include "transport/sent_log.h"
#include "transport/timer_heap.h"
#include "transport/wire/pds.h"
#include "transport/wire/request_codec.h"
#include "transport/wire/ses.h"

namespace spindrift {
namespace {

constexpr std::uint64_t kBurstBytes = 67200;  // 16 packets of 4200 bytes

constexpr std::uint32_t kWindow = 2048;
constexpr std::uint32_t kFlight = 256;

// Codec.

void encode_request(benchmark::State& state) {
  std::array<std::byte, 128> packet{};
  wire::RudRequest pds{.next = wire::NextHeader::kRequestStandard, .spdcid = 1, .dpdcid = 2};
  wire::StandardRequest ses{.opcode = wire::Opcode::kWrite, .key = 3, .request_length = 1U << 20U};
  for (auto _ : state) {
    ++pds.psn;
    ses.message_offset += 4096;
    const std::size_t bytes = wire::encode(pds, packet);
    benchmark::DoNotOptimize(wire::encode(ses, std::span(packet).subspan(bytes)));
    benchmark::DoNotOptimize(packet);
  }
}
BENCHMARK(encode_request);

void parse_request(benchmark::State& state) {
  std::array<std::byte, 128> packet{};
  const wire::RudRequest pds{.next = wire::NextHeader::kRequestStandard, .spdcid = 1, .dpdcid = 2};
  const wire::StandardRequest ses{
      .opcode = wire::Opcode::kWrite, .key = 3, .request_length = 1U << 20U};
  const std::size_t header = wire::encode(pds, packet);
  wire::encode(ses, std::span(packet).subspan(header));
  for (auto _ : state) {
    benchmark::DoNotOptimize(packet);
    wire::Pds pds_seen;
    wire::StandardRequest ses_seen;
    std::size_t bytes = 0;
    benchmark::DoNotOptimize(wire::parse_pds(packet, pds_seen));
    benchmark::DoNotOptimize(
        wire::parse(std::span<const std::byte>(packet).subspan(pds_seen.bytes), ses_seen, bytes));
    benchmark::DoNotOptimize(ses_seen);
  }
}
BENCHMARK(parse_request);

wire::Ack some_ack() {
  return {.has_cc = true, .mpr = 16, .cack_psn = 5, .spdcid = 1, .dpdcid = 2, .sack_bitmap = 0xff};
}

void encode_ack(benchmark::State& state) {
  std::array<std::byte, 64> packet{};
  wire::Ack ack = some_ack();
  for (auto _ : state) {
    ++ack.cack_psn;
    benchmark::DoNotOptimize(wire::encode(ack, packet));
    benchmark::DoNotOptimize(packet);
  }
}
BENCHMARK(encode_ack);

void parse_ack(benchmark::State& state) {
  std::array<std::byte, 64> packet{};
  wire::encode(some_ack(), packet);
  for (auto _ : state) {
    benchmark::DoNotOptimize(packet);
    wire::Pds seen;
    benchmark::DoNotOptimize(wire::parse_pds(packet, seen));
    benchmark::DoNotOptimize(seen);
  }
}
BENCHMARK(parse_ack);

// Memory.

void checksum(benchmark::State& state) {
  const std::vector<std::byte> bytes(static_cast<std::size_t>(state.range(0)), std::byte{5});
  for (auto _ : state)
    benchmark::DoNotOptimize(crc32c(bytes));
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * state.range(0));
}
BENCHMARK(checksum)->Arg(1024)->Arg(4096)->Arg(65536);

// What the receiver's placement costs at least: from a hot packet into a 1 MiB message.
void copy_payload(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0));
  const std::vector<std::byte> from(count, std::byte{5});
  std::vector<std::byte> to(1U << 20U);
  std::size_t at = 0;
  for (auto _ : state) {
    std::memcpy(&to[at], from.data(), count);
    benchmark::ClobberMemory();
    at += count;
    if (at + count > to.size()) at = 0;
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * state.range(0));
}
BENCHMARK(copy_payload)->Arg(1024)->Arg(4096)->Arg(16256);

// Logs.

void receive_log_in_order(benchmark::State& state) {
  ReceiveLog log(kWindow, Psn{1});
  std::uint64_t psn = 1;
  for (auto _ : state)
    benchmark::DoNotOptimize(log.mark(Psn{psn++}));
}
BENCHMARK(receive_log_in_order);

// Runs of 16 packets arrive the later one first.
void receive_log_out_of_order(benchmark::State& state) {
  ReceiveLog log(kWindow, Psn{1});
  std::uint64_t count = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(log.mark(Psn{(count ^ 16U) + 1}));
    ++count;
  }
}
BENCHMARK(receive_log_out_of_order);

// Per packet: append, send on one of 16 paths in runs of 16, acknowledge in order, retire.
void sent_log_append_ack(benchmark::State& state) {
  SentLog log(kWindow, 16, Psn{1});
  const Time now{};
  const auto send = [&] {
    SentUnit& unit = log.append();
    unit.nominal_bytes = 4200;
    const auto path = static_cast<std::uint16_t>(unit.psn.value / 16 % 16);
    log.sent(unit, PathId{path}, now);
  };
  for (std::uint32_t i = 0; i < kFlight; ++i)
    send();
  for (auto _ : state) {
    send();
    log.take_out(*log.find(log.oldest()), SentUnit::State::kAcked);
    log.retire();
  }
}
BENCHMARK(sent_log_append_ack);

// One of many connections moves its timer.
void timer_heap_rearm(benchmark::State& state) {
  const auto actors = static_cast<std::uint32_t>(state.range(0));
  TimerHeap timers(actors);
  std::int64_t now = 1;
  for (std::uint32_t i = 0; i < actors; ++i)
    timers.arm(i, Time{Duration(now + i * 37 % 1000)});
  std::uint32_t actor = 0;
  for (auto _ : state) {
    now += 3;
    actor = (actor + 7919) % actors;
    timers.arm(actor, Time{Duration(now + 1000)});
    benchmark::DoNotOptimize(timers.next());
  }
}
BENCHMARK(timer_heap_rearm)->Arg(1)->Arg(64)->Arg(1024);

// Policies and algorithms.

// One pick and its feedback, as for a burst of 16 packets.
void path_policy(benchmark::State& state, const PathSelectorInfo& info, std::uint32_t paths) {
  const auto selector = info.make(paths, 1);
  std::array<PathId, 1> picked{};
  std::uint32_t round = 0;
  for (auto _ : state) {
    selector->pick(picked);
    const bool is_marked = ++round % 64 == 0;
    const PathFeedback feedback{
        .path = picked[0],
        .outcome = is_marked ? PathOutcome::kMarked : PathOutcome::kDelivered,
        .packets = 16,
        .rtt = std::chrono::microseconds(20 + picked[0].value % 7)};
    selector->on_feedback({&feedback, 1});
  }
}

// One acknowledgement of 16 packets each microsecond, one in 64 marked.
void control_on_ack(benchmark::State& state, const CcInfo& info) {
  std::vector<double> values;
  for (const ParameterInfo& parameter : info.parameters)
    values.push_back(parameter.default_value);
  Time now{std::chrono::seconds(1)};
  const FlowInfo flow{.now = now,
                      .base_rtt = std::chrono::microseconds(20),
                      .link_rate = Rate::gbps(400),
                      .max_window_bytes = 8U << 20U};
  const auto control = info.make(flow, values);
  std::uint64_t received = 0;
  std::uint32_t round = 0;
  for (auto _ : state) {
    now += std::chrono::microseconds(1);
    received += kBurstBytes;
    const AckEvent event{.now = now,
                         .sent_time = now - std::chrono::microseconds(22),
                         .rtt = std::chrono::microseconds(22),
                         .acked_bytes = kBurstBytes,
                         .received_bytes = received,
                         .in_flight_bytes = 1U << 20U,
                         .acked_packets = 16,
                         .is_marked = ++round % 64 == 0};
    benchmark::DoNotOptimize(control->on_ack(event));
  }
}

void add_all() {
  for (const PathSelectorInfo* info :
       {&kRepsPathPolicy, &kMixedPathPolicy, &kBitmapPathPolicy, &kLeastRttPathPolicy,
        &kRoundRobinPathPolicy, &kSinglePathPolicy})
    for (const std::uint32_t paths : {16U, 256U})
      benchmark::RegisterBenchmark(
          ("path_policy/" + std::string(info->name) + "/" + std::to_string(paths)).c_str(),
          [info, paths](benchmark::State& state) { path_policy(state, *info, paths); });
  for (const CcInfo* info : {&kNscc, &kDcqcn, &kFixedWindow})
    benchmark::RegisterBenchmark(("control_on_ack/" + std::string(info->name)).c_str(),
                                 [info](benchmark::State& state) { control_on_ack(state, *info); });
}

}  // namespace
}  // namespace spindrift

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  spindrift::add_all();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
