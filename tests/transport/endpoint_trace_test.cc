// What the flight recorder sees of an engine under faults; endpoint_trace.cc, which writes it.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "spindrift/counter_snapshot.h"

#include "tests/transport/engine_host.h"

namespace spindrift::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

std::size_t count_of(const Trace& trace, TraceKind kind) {
  return static_cast<std::size_t>(
      std::count_if(trace.events.begin(), trace.events.end(),
                    [kind](const TraceEvent& event) { return event.kind == kind; }));
}

EndpointConfig recording(std::uint32_t level) {
  return {.trace_events = 1U << 18U, .trace_level = level};
}

// 10 WRITEs of 100 kB from a to b, 5 % of a's packets lost.
Trace trace_of_lossy_writes(EnginePair& pair) {
  pair.a.harm({.loss = 0.05, .seed = 7});
  EXPECT_TRUE(pair.open({.path_count = 4}));
  std::vector<std::byte> from(100'000);
  std::vector<std::byte> to(100'000);
  const MemoryRegion source = pair.a.context().memory.add(from, kAllAccess, {}, 1).value();
  const MemoryRegion target = pair.b.context().memory.add(to, kAllAccess, {}, 2).value();
  const Sge piece = sge_of(source, 0, 100'000);
  for (int i = 0; i < 10; ++i)
    EXPECT_TRUE(pair.a.post({.conn = pair.at_a->id,
                             .kind = OpKind::kWrite,
                             .local = {&piece, 1},
                             .remote_key = target.remote.key}));
  for (int i = 0; i < 1'000'000 && pair.a_done.size() < 10; ++i) {
    pair.step();
    pair.a.take_completions(pair.a_done);
  }
  EXPECT_EQ(pair.a_done.size(), 10U);
  return pair.a.context().recorder.snapshot();
}

TEST(EngineTrace, CountsTheSameLossesAsTheCounters) {
  EnginePair pair({}, recording(2));
  const Trace trace = trace_of_lossy_writes(pair);
  ASSERT_EQ(trace.overwritten, 0U);
  const ConnectionCounters& counted = pair.at_a->counters;
  EXPECT_GT(count_of(trace, TraceKind::kLoss), 0U);
  EXPECT_EQ(count_of(trace, TraceKind::kLoss),
            counted.retransmits_reordered + counted.retransmits_timeout);
  EXPECT_EQ(count_of(trace, TraceKind::kTimeout), counted.timeouts);
  EXPECT_EQ(count_of(trace, TraceKind::kProbeSent), counted.probes_sent);
  EXPECT_EQ(count_of(trace, TraceKind::kProbeAnswered), counted.probes_answered);
  EXPECT_GT(count_of(trace, TraceKind::kLimits), 0U);
  EXPECT_EQ(count_of(trace, TraceKind::kPacketSent), 0U);
}

TEST(EngineTrace, HasEveryPacketAtItsHighestLevel) {
  EnginePair pair({}, recording(3));
  const Trace trace = trace_of_lossy_writes(pair);
  const ConnectionCounters& counted = pair.at_a->counters;
  EXPECT_EQ(count_of(trace, TraceKind::kPacketSent) + count_of(trace, TraceKind::kRetransmit),
            counted.packets_sent);
  EXPECT_EQ(count_of(pair.b.context().recorder.snapshot(), TraceKind::kPacketReceived),
            pair.at_b->counters.packets_received);
}

TEST(EngineTrace, AtItsLowestLevelHasOnlyChanges) {
  EnginePair pair({}, recording(1));
  const Trace trace = trace_of_lossy_writes(pair);
  EXPECT_EQ(count_of(trace, TraceKind::kLoss), 0U);
  ASSERT_GE(count_of(trace, TraceKind::kState), 2U);
  EXPECT_EQ(trace.events[0].cause, static_cast<std::uint8_t>(Phase::kConnecting));
  EXPECT_EQ(trace.events[1].cause, static_cast<std::uint8_t>(Phase::kOpen));
}

TEST(EngineTrace, TimesNeverGoBack) {
  EnginePair pair({}, recording(3));
  const Trace trace = trace_of_lossy_writes(pair);
  EXPECT_TRUE(std::is_sorted(
      trace.events.begin(), trace.events.end(),
      [](const TraceEvent& one, const TraceEvent& other) { return one.at < other.at; }));
}

class TraceFile {
 public:
  TraceFile()
      : path_((std::filesystem::path(::testing::TempDir()) /
               ("endpoint_trace_test." + std::to_string(::getpid())))
                  .string()) {
    std::filesystem::remove(path_);
  }
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  ~TraceFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }
  std::string contents() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string path_;
};

OpenOptions tracing_to(const std::string& path) {
  OpenOptions open;
  open.endpoint.trace = path;
  return open;
}

// Nobody listens at the discard port of this host.
constexpr std::string_view kNobody = "udp://127.0.0.1:9";

TEST(EndpointTrace, IsWrittenAsSoonAsAConnectionHasFailed) {
  const TraceFile file;
  const auto endpoint = open_endpoint("udp://127.0.0.1:0", tracing_to(file.path()));
  ASSERT_TRUE(endpoint.ok());
  ASSERT_FALSE(connect_and_wait(*endpoint.value(), kNobody, {.connect_timeout = 200ms}).ok());
  EXPECT_THAT(file.contents(), HasSubstr("\"event\":\"state\""));
  EXPECT_THAT(file.contents(), HasSubstr("\"state\":\"failed\""));
  EXPECT_THAT(file.contents(), HasSubstr("\"peer\":\"udp://127.0.0.1:9\""));
}

TEST(EndpointTrace, IsAppendedAndNothingIsWrittenTwice) {
  const TraceFile file;
  auto endpoint = open_endpoint("udp://127.0.0.1:0", tracing_to(file.path()));
  ASSERT_TRUE(endpoint.ok());
  ASSERT_FALSE(connect_and_wait(*endpoint.value(), kNobody, {.connect_timeout = 200ms}).ok());
  ASSERT_TRUE(endpoint.value()->write_trace().ok());
  endpoint.value().reset();
  const std::string text = file.contents();
  const std::string failed = "\"state\":\"failed\"";
  EXPECT_EQ(text.find(failed), text.rfind(failed));
}

TEST(EndpointTrace, SaysWhyTheFileCannotBeWritten) {
  const auto endpoint = open_endpoint("udp://127.0.0.1:0", tracing_to("/dev/full"));
  ASSERT_TRUE(endpoint.ok());
  const Status status = endpoint.value()->write_trace();
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message(), HasSubstr("cannot write the trace to /dev/full: No space"));
}

TEST(EndpointTrace, WithoutAFileWritesNothing) {
  const auto endpoint = open_endpoint("udp://127.0.0.1:0");
  ASSERT_TRUE(endpoint.ok());
  EXPECT_TRUE(endpoint.value()->write_trace().ok());
  EXPECT_TRUE(endpoint.value()->trace().events.empty());
}

TEST(CounterDocs, NameEveryCounterThatIsWritten) {
  const TraceFile capture;
  OpenOptions open;
  open.faults = "loss=1%";
  open.capture = capture.path();
  const auto endpoint = open_endpoint("udp://127.0.0.1:0", open);
  ASSERT_TRUE(endpoint.ok()) << endpoint.error().message();
  CounterSnapshot all;
  endpoint.value()->counters(all);
  MemoryNetwork network(MemoryNetworkConfig{});
  MemoryHostConfig host;
  host.addresses = {parse_net_address("10.0.0.1", 0).value()};
  network.add_host(host)->counters(all);
  std::ifstream file(SPINDRIFT_DOCS "/COUNTERS.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_GT(all.entries().size(), 60U);
  for (const auto& [name, value] : all.entries())
    EXPECT_THAT(text, HasSubstr("\n| `" + name + "` | "));
}

}  // namespace
}  // namespace spindrift::test
