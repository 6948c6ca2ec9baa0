#include "tools/sim/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spindrift/open.h"

namespace spindrift::simtool {
namespace {

using testing::HasSubstr;

constexpr const char* kFlow =
    R"({"event":"flow","version":1,"algorithm":"fixed_window","parameters":{},"now_ns":0,)"
    R"("base_rtt_ns":10000,"host_latency_ns":0,"link_rate_bps":100000000000,"mtu_bytes":4096,)"
    R"("max_window_bytes":1000000,"events":1,"left_out":0,"window_bytes":1,"credit_bytes":1,)"
    R"("rate_bps":0,"timer_ns":0})";
constexpr const char* kLoss =
    R"({"event":"loss","now_ns":5,"newest_sent_ns":1,"lost_bytes":4096,"in_flight_bytes":0,)"
    R"("lost_packets":1,"cause":3,"window_bytes":7,"credit_bytes":8,"rate_bps":9,"timer_ns":10})";

std::string lines(std::initializer_list<const char*> texts) {
  std::string out;
  for (const char* text : texts)
    out += std::string(text) + "\n";
  return out;
}

TEST(Replay, ReadsWhatWasRecorded) {
  const auto read = parse_recordings(lines({kFlow, kLoss, kFlow}), "r");
  ASSERT_TRUE(read.ok()) << read.error().message();
  ASSERT_EQ(read.value().size(), 2U);
  const Recording& one = read.value()[0];
  EXPECT_EQ(one.algorithm, "fixed_window");
  EXPECT_EQ(one.flow.base_rtt, std::chrono::microseconds(10));
  ASSERT_EQ(one.events.size(), 1U);
  const auto* loss = std::get_if<LossEvent>(&one.events[0].event);
  ASSERT_NE(loss, nullptr);
  EXPECT_EQ(loss->lost_bytes, 4096U);
  EXPECT_EQ(loss->cause, LossCause::kTimeout);
  EXPECT_EQ(one.events[0].limits.window_bytes, 7U);
}

TEST(Replay, SaysInWhichLineARecordIsDamaged) {
  const auto refused = [](const std::string& text) {
    const auto read = parse_recordings(text, "r.jsonl");
    return read.ok() ? std::string() : read.error().message();
  };
  EXPECT_THAT(refused(lines({kLoss})), HasSubstr("r.jsonl:1"));
  EXPECT_THAT(refused(lines({kFlow, "{\"event\":\"dance\"}"})), HasSubstr("r.jsonl:2"));
  EXPECT_THAT(refused(lines({kFlow, "{\"event\":\"ack\"}"})), HasSubstr("r.jsonl:2"));
  EXPECT_THAT(refused(lines({"not json"})), HasSubstr("r.jsonl:1"));
  EXPECT_THAT(refused(""), HasSubstr("holds no record"));
}

TEST(Replay, ShowsTheFirstDecisionThatDiffers) {
  const auto read = parse_recordings(lines({kFlow, kLoss}), "r");
  ASSERT_TRUE(read.ok());
  const auto done = replay(read.value()[0], builtin_registry(), "");
  ASSERT_TRUE(done.ok()) << done.error().message();
  EXPECT_FALSE(done.value().starts_equal);  // the window of 1 byte is this test's invention
  EXPECT_EQ(done.value().first_difference, 0U);
  EXPECT_THAT(replay_text(read.value(), {done.value()}), HasSubstr("recorded: window 7 B"));
  EXPECT_FALSE(replay(read.value()[0], builtin_registry(), "no_such_algorithm").ok());
}

}  // namespace
}  // namespace spindrift::simtool
