#include "transport/base/flight_recorder.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "transport/base/check.h"
#include "transport/base/live_recorders.h"

namespace spindrift {
namespace {

using ::testing::HasSubstr;

TraceEvent numbered(std::uint64_t number) {
  return {.first = number, .conn = ConnId{7}, .kind = TraceKind::kLoss};
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A file of this process alone, gone at the end.
struct TemporaryFile {
  TemporaryFile()
      : path(std::filesystem::path(::testing::TempDir()) /
             ("flight_recorder_test." + std::to_string(::getpid()))) {}
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::filesystem::remove(path); }
  std::filesystem::path path;
};

TEST(FlightRecorder, KeepsTheNewestEventsAndCountsTheOthers) {
  FlightRecorder recorder(4, kMaxTraceLevel);
  for (std::uint64_t i = 0; i < 7; ++i)
    recorder.record(numbered(i));
  const Trace trace = recorder.snapshot();
  EXPECT_EQ(trace.overwritten, 3U);
  ASSERT_EQ(trace.events.size(), 4U);
  EXPECT_EQ(trace.events.front().first, 3U);
  EXPECT_EQ(trace.events.back().first, 6U);
}

TEST(FlightRecorder, RoundsItsSizeUp) {
  FlightRecorder recorder(5, kMaxTraceLevel);
  for (std::uint64_t i = 0; i < 8; ++i)
    recorder.record(numbered(i));
  EXPECT_EQ(recorder.snapshot().events.size(), 8U);
}

TEST(FlightRecorder, StampsEventsWithTheTimeItWasToldLast) {
  FlightRecorder recorder(4, kMaxTraceLevel);
  recorder.set_time(Time(Duration(30)));
  recorder.record(numbered(0));
  EXPECT_EQ(recorder.snapshot().events[0].at, Time(Duration(30)));
}

TEST(FlightRecorder, WantsWhatItsLevelCovers) {
  EXPECT_TRUE(FlightRecorder(4, 1).wants(TraceKind::kCompletionError));
  EXPECT_FALSE(FlightRecorder(4, 1).wants(TraceKind::kRefused));
  EXPECT_TRUE(FlightRecorder(4, 2).wants(TraceKind::kLimits));
  EXPECT_FALSE(FlightRecorder(4, 2).wants(TraceKind::kPacketSent));
  EXPECT_TRUE(FlightRecorder(4, 3).wants(TraceKind::kAckReceived));
  EXPECT_FALSE(FlightRecorder(4, 0).wants(TraceKind::kState));
}

TEST(FlightRecorder, WithoutRoomWantsNothing) {
  const FlightRecorder recorder(0, kMaxTraceLevel);
  EXPECT_FALSE(recorder.wants(TraceKind::kState));
  EXPECT_TRUE(recorder.snapshot().events.empty());
}

TEST(LiveRecorders, AllAreWrittenWithoutAskingAnEndpoint) {
  const TemporaryFile file;
  FlightRecorder one(4, kMaxTraceLevel);
  FlightRecorder another(4, kMaxTraceLevel);
  one.record(numbered(41));
  another.record(numbered(42));
  ASSERT_TRUE(write_all_traces(file.path.c_str()));
  EXPECT_THAT(contents(file.path), HasSubstr("\"psn\":41"));
  EXPECT_THAT(contents(file.path), HasSubstr("\"psn\":42"));
}

TEST(LiveRecorders, ForgetTheOnesThatAreGone) {
  const TemporaryFile file;
  { FlightRecorder recorder(4, kMaxTraceLevel); }
  ASSERT_TRUE(write_all_traces(file.path.c_str()));
  EXPECT_EQ(contents(file.path), "");
}

TEST(LiveRecorders, SayWhenTheFileCannotBeWritten) {
  FlightRecorder recorder(4, kMaxTraceLevel);
  EXPECT_FALSE(write_all_traces("/dev/full"));
  EXPECT_FALSE(write_all_traces("/nowhere/trace.jsonl"));
}

TEST(LiveRecordersDeathTest, AFailedCheckWritesThemAndNamesTheFile) {
  const std::string folder =
      ::testing::TempDir() + "flight_recorder_crash." + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  ::setenv("TMPDIR", folder.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
  FlightRecorder recorder(4, kMaxTraceLevel);
  recorder.record(numbered(4711));
  EXPECT_DEATH(SPINDRIFT_CHECK(recorder.recorded() == 0),
               "internal check failed: .*written to .*flight_recorder_crash.*jsonl");
  ::unsetenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe): one thread
  const std::filesystem::directory_iterator files(folder);
  ASSERT_NE(files, std::filesystem::directory_iterator());
  EXPECT_THAT(contents(files->path()), HasSubstr("\"psn\":4711"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace spindrift
