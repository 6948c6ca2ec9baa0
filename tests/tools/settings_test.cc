// tools/settings.cc, tools/info/tunables.cc and tools/trace: what needs no process.
#include "tools/settings.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/info/tunables.h"
#include "tools/trace/trace_text.h"

namespace spindrift::tools {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(InfoTunables, ShowsNameUnitDefaultBoundsValueAndOrigin) {
  const Settings settings = load_settings({.environment = {"SPINDRIFT_PATH_COUNT=4"}}).value();
  const nlohmann::json list = describe_tunables(settings);
  ASSERT_EQ(list.size(), tunables().size());
  EXPECT_THAT(format_tunables(list),
              testing::ContainsRegex("path_count +paths +16 +1..256 +4 +environment\n"));
}

TEST(CheckedSettings, NameThePlaceOfAnUnknownAlgorithm) {
  const Registry empty;
  const Result<Settings> checked =
      check_settings(load_settings({.environment = {"SPINDRIFT_CONGESTION_CONTROL=x"}}), empty, {});
  ASSERT_FALSE(checked.ok());
  EXPECT_THAT(checked.error().message(), HasSubstr("environment: SPINDRIFT_CONGESTION_CONTROL: "));
}

TEST(CheckedSettings, NameAPluginThatCouldNotBeLoaded) {
  PluginReport report;
  report.file = "./x.so";
  report.error = "plug-in ./x.so: no such file";
  const Result<Settings> checked = check_settings(Settings{}, Registry{}, {&report, 1});
  ASSERT_FALSE(checked.ok());
  EXPECT_THAT(checked.error().message(), HasSubstr("SPINDRIFT_PLUGINS: plug-in ./x.so: no such"));
}

std::vector<TraceSection> example() {
  std::istringstream text(
      "{\"event\":\"recorder\",\"process\":7,\"level\":2,\"events\":4,\"overwritten\":9}\n"
      "{\"event\":\"connection\",\"conn\":5,\"peer\":\"udp://10.0.0.1:4793\",\"error\":\"gone\"}\n"
      "{\"t_ns\":1000000,\"event\":\"state\",\"conn\":5,\"state\":\"open\"}\n"
      "{\"t_ns\":2000000,\"event\":\"loss\",\"conn\":5,\"path\":3,\"cause\":\"reordered\",\"psn\":"
      "1}\n"
      "{\"t_ns\":2500000,\"event\":\"path\",\"conn\":5,\"path\":3,\"state\":\"bad\"}\n"
      "{\"t_ns\":3000000,\"event\":\"refused\",\"conn\":0,\"cause\":\"crc\",\"bytes\":64}\n");
  return read_trace(text).value();
}

TEST(TraceSummary, TellsStatesPathsCountsAndTheError) {
  const std::string text = format_summary(example().front(), {});
  EXPECT_THAT(text, HasSubstr("conn 5 with udp://10.0.0.1:4793\n  states: open +0.000 ms\n"));
  EXPECT_THAT(text, HasSubstr("  paths: 3 bad +1.500 ms\n"));
  EXPECT_THAT(text, testing::ContainsRegex("loss reordered +1\n"));
  EXPECT_THAT(text, HasSubstr("error: gone"));
  EXPECT_THAT(text, HasSubstr("conn 0 (the endpoint itself)"));
  EXPECT_THAT(text, HasSubstr("9 earlier ones were overwritten"));
}

TEST(TraceTimeLine, CountsFromTheFirstEventAndKeepsMembers) {
  const std::string text = format_time_line(example().front(), {});
  EXPECT_THAT(text, testing::ContainsRegex("\\+1.000000 ms  conn 5 +loss +path=3 cause=reordered"));
}

TEST(TraceFilter, LeavesOutOtherConnectionsPathsAndEvents) {
  const TraceSection section = example().front();
  EXPECT_THAT(format_time_line(section, {.conn = 0}), Not(HasSubstr("loss")));
  EXPECT_THAT(format_time_line(section, {.path = 4}), testing::IsEmpty());
  EXPECT_THAT(format_time_line(section, {.events = {"path"}}), Not(HasSubstr("loss")));
  EXPECT_THAT(format_time_line(section, {.events = {"path"}}), HasSubstr("state=bad"));
}

TEST(TraceReader, NamesTheLineThatIsNoneOfATrace) {
  for (const char* line : {"nonsense", "7", "{}", "{\"event\":\"loss\",\"conn\":-1,\"t_ns\":1}",
                           "{\"event\":\"loss\",\"conn\":1}"}) {
    std::istringstream text(std::string("{\"event\":\"recorder\"}\n") + line + "\n");
    const auto sections = read_trace(text);
    ASSERT_FALSE(sections.ok()) << line;
    EXPECT_THAT(sections.error().message(), HasSubstr("line 2"));
  }
  std::istringstream early("{\"event\":\"state\",\"conn\":1,\"t_ns\":1}\n");
  EXPECT_FALSE(read_trace(early).ok());
}

}  // namespace
}  // namespace spindrift::tools
