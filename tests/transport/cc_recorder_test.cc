#include "transport/cc_recorder.h"

#include <cstdio>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "spindrift/open.h"

namespace spindrift {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string contents(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

class CcRecorderTest : public testing::Test {
 protected:
  ~CcRecorderTest() override { std::remove(file_.c_str()); }

  std::unique_ptr<CcRecorder> recorder() {
    const auto choice = builtin_registry().find_congestion_control("nscc").value();
    const FlowInfo flow{.base_rtt = std::chrono::microseconds(10),
                        .link_rate = Rate::bits_per_second(100'000'000'000),
                        .max_window_bytes = 1U << 20U};
    return std::make_unique<CcRecorder>(choice.info->create(flow, choice.values), choice, flow,
                                        file_);
  }
  std::string file_ = testing::TempDir() + "cc_record_" + std::to_string(getpid());
};

TEST_F(CcRecorderTest, AnswersAsTheAlgorithmDoesAndWritesBoth) {
  const auto choice = builtin_registry().find_congestion_control("nscc").value();
  const FlowInfo flow{.base_rtt = std::chrono::microseconds(10),
                      .link_rate = Rate::bits_per_second(100'000'000'000),
                      .max_window_bytes = 1U << 20U};
  const auto alone = choice.info->create(flow, choice.values);
  auto recorded = recorder();
  EXPECT_EQ(recorded->initial(), alone->initial());
  const AckEvent ack{.now = Time(Duration(30000)),
                     .rtt = std::chrono::microseconds(30),
                     .acked_bytes = 4096,
                     .received_bytes = 4096,
                     .acked_packets = 1,
                     .is_marked = true};
  EXPECT_EQ(recorded->on_ack(ack), alone->on_ack(ack));
  const LossEvent loss{.now = Time(Duration(40000)), .lost_bytes = 4096, .lost_packets = 1};
  EXPECT_EQ(recorded->on_loss(loss), alone->on_loss(loss));
  const Time later(Duration(50000));
  EXPECT_EQ(recorded->on_signal(later, LossWasSpurious{4096}),
            alone->on_signal(later, LossWasSpurious{4096}));
  EXPECT_EQ(contents(file_), "") << "written before its end";
  recorded.reset();
  const std::string text = contents(file_);
  EXPECT_THAT(text, StartsWith(R"({"event":"flow","version":1,"algorithm":"nscc")"));
  EXPECT_THAT(text, HasSubstr(R"("events":3,"left_out":0)"));
  EXPECT_THAT(text, HasSubstr("\n{\"event\":\"ack\",\"now_ns\":30000,"));
  EXPECT_THAT(text, HasSubstr("\n{\"event\":\"loss\",\"now_ns\":40000,"));
  EXPECT_THAT(text, HasSubstr("\n{\"event\":\"spurious\",\"bytes\":4096,\"now_ns\":50000,"));
  recorder().reset();
  EXPECT_THAT(contents(file_), StartsWith(text)) << "the next record goes behind";
}

TEST_F(CcRecorderTest, AFileThatCannotBeWrittenIsSaidBeforeAnythingRuns) {
  EXPECT_TRUE(CcRecorder::check("").ok());
  EXPECT_TRUE(CcRecorder::check(file_).ok());
  const Status refused = CcRecorder::check("/no/such/folder/r.jsonl");
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message(), HasSubstr("/no/such/folder/r.jsonl"));
}

}  // namespace
}  // namespace spindrift
