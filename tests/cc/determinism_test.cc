// The same events give the same limits with every compiler, at every optimisation level: the hashes
// of one long history per algorithm, recorded once. One that changes with its algorithm is replaced
// by what the failure prints; one that differs between two builds of the same source is a bug.
#include <bit>
#include <map>

#include "tests/cc/algorithms_under_test.h"
#include "tests/cc/random_events.h"

namespace spindrift::test {
namespace {

class Hash {
 public:
  void add(std::uint64_t value) { state_ = std::rotl(state_ ^ value, 23) * 0x9E3779B97F4A7C15ULL; }
  void add(const SendLimits& limits) {
    add(limits.window_bytes);
    add(limits.credit_bytes);
    add(limits.pacing_rate.bits_per_second());
    add(static_cast<std::uint64_t>(limits.timer.time_since_epoch().count()));
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 1;
};

// Half hostile events, half the acknowledgements of a busy network, which move the limits more.
std::uint64_t history_hash(const CcInfo& info) {
  Rng rng(2026);
  FlowInfo flow = reference_flow();
  const auto cc = make_default(info, flow);
  Hash hash;
  hash.add(cc->initial());
  Time now = flow.now;
  std::uint64_t sent_bytes = 0;
  for (int i = 0; i < 20'000; ++i) {
    now += Duration(static_cast<std::int64_t>(rng.below(3'000)));
    if (i % 64 == 63) {
      hash.add(random_event(*cc, rng, now, flow));
      continue;
    }
    const Duration rtt = microseconds(12) + Duration(static_cast<std::int64_t>(rng.below(40'000)));
    sent_bytes += 4'160 + 97ULL * static_cast<std::uint64_t>(i % 89);
    const HopTelemetry hop{
        .tx_bytes = sent_bytes,
        .timestamp_ns = static_cast<std::uint64_t>(now.time_since_epoch().count()),
        .queue_bytes = static_cast<std::uint32_t>(sent_bytes % 65'536),
        .link_id = 1,
        .link_rate = Rate::gbps(100)};
    hash.add(cc->on_ack({.now = now,
                         .sent_time = now - rtt,
                         .rtt = rtt,
                         .acked_bytes = 4'160,
                         .received_bytes = 4'160,
                         .in_flight_bytes = rng.below(200'000),
                         .acked_packets = 1,
                         .is_marked = rng.chance(0.1),
                         .telemetry = {&hop, 1}}));
  }
  for (const auto& field : StateCollector(*cc).fields)
    hash.add(std::bit_cast<std::uint64_t>(field.second));
  return hash.value();
}

class CcDeterminism : public ::testing::TestWithParam<const CcInfo*> {};

TEST_P(CcDeterminism, SameHistoryWithEveryCompiler) {
  static const std::map<std::string_view, std::uint64_t> kRecorded{
      {"fixed_window", 0x8f9ed4f413a1615c},
      {"dcqcn", 0xb803696a4ed342cf},
      {"nscc", 0x38c2c8961180e697},
      {"dctcp", 0xa6bfb1302b730959},
      {"swift", 0x742292708007a4ea},
      {"timely", 0xe92b80d9c5e81a9f},
      {"receiver_credit", 0xe3e699de6da29f77},
      {"nscc+receiver_credit", 0x3c69c839675adca6},
      {"hpcc", 0x5e85e8565f29fd14},
  };
  const std::string_view name = GetParam()->name;
  ASSERT_TRUE(kRecorded.contains(name)) << name << ": 0x" << std::hex << history_hash(*GetParam());
  EXPECT_EQ(kRecorded.at(name), history_hash(*GetParam()))
      << name << ": 0x" << std::hex << history_hash(*GetParam());
}

INSTANTIATE_TEST_SUITE_P(All, CcDeterminism, ::testing::ValuesIn(kAlgorithms), test_name);

}  // namespace
}  // namespace spindrift::test
