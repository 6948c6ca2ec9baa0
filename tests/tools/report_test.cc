#include "tools/perf/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tools/exit_codes.h"
#include "tools/perf/account.h"

namespace spindrift::perf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

PerfOptions json_options() {
  PerfOptions options;
  options.has_json = true;
  options.shape.sizes = {65536};
  return options;
}

BandwidthSummary bandwidth(double mb_per_s) {
  return {.iterations = 10,
          .bytes = 655360,
          .elapsed_s = 1,
          .average_mb_per_s = mb_per_s,
          .peak_mb_per_s = 2 * mb_per_s,
          .rate_mpps = 0.5};
}

TEST(Report, RowsStandInPerftestsColumns) {
  EXPECT_EQ(format_bandwidth_row(bandwidth(1000.5), 65536),
            " 65536      10             2001.00            1000.50              0.500000\n");
  const LatencySummary latency{.samples = 1000,
                               .min_us = 1,
                               .max_us = 9,
                               .typical_us = 2,
                               .average_us = 3,
                               .stdev_us = 0.5,
                               .p99_us = 7,
                               .p999_us = 8};
  EXPECT_EQ(format_latency_row(latency, 8),
            " 8          1000           1.00           9.00         2.00               3.00"
            "           0.50            7.00                   8.00\n");
}

TEST(Report, HeaderNamesTheTestAndBothAddresses) {
  PerfOptions options = json_options();
  options.shape.operation = Operation::kRead;
  ConnInfo info;
  info.local_address = "udp://a:1";
  info.remote_address = "udp://b:2";
  const std::string header = format_header(options, info, true);
  EXPECT_THAT(header, HasSubstr("Read Latency Test"));
  EXPECT_THAT(header, HasSubstr("udp://a:1"));
  EXPECT_THAT(header, HasSubstr("udp://b:2"));
  EXPECT_THAT(header, HasSubstr("from post to completion"));
  EXPECT_THAT(header, HasSubstr("t_typical[usec]"));
}

TEST(Report, MissesNothingWithoutLimits) {
  const PerfOptions options = json_options();
  Report report(options);
  report.add(65536, bandwidth(1));
  EXPECT_THAT(report.misses(), IsEmpty());
}

TEST(Report, SaysByHowMuchTheBandwidthMisses) {
  PerfOptions options = json_options();
  options.min_mb_per_s = 100;
  Report report(options);
  report.add(65536, bandwidth(75));
  EXPECT_THAT(report.misses(), ElementsAre(HasSubstr("by 25.00 MB/s (25.0 %)")));
}

TEST(Report, JudgesTheBestSize) {
  PerfOptions options = json_options();
  options.min_mb_per_s = 100;
  Report report(options);
  report.add(2, bandwidth(1));
  report.add(65536, bandwidth(100));
  EXPECT_THAT(report.misses(), IsEmpty());
}

TEST(Report, SaysByHowMuchTheLatencyMisses) {
  PerfOptions options = json_options();
  options.max_latency_us = 5;
  Report report(options);
  report.add(8, LatencySummary{.samples = 1, .average_us = 7.5});
  EXPECT_THAT(report.misses(), ElementsAre(HasSubstr("by 2.50 usec")));
}

TEST(Report, MissesALimitThatNothingWasMeasuredFor) {
  PerfOptions options = json_options();
  options.max_latency_us = 5;
  options.min_mb_per_s = 1;
  const Report report(options);
  EXPECT_EQ(report.misses().size(), 2u);
}

TEST(Report, PrintsOneJsonDocumentWithRowsAndError) {
  const PerfOptions options = json_options();
  Report report(options);
  testing::internal::CaptureStdout();
  report.begin_test(false);
  report.add(65536, bandwidth(100));
  report.finish("it broke");
  const auto document = nlohmann::json::parse(testing::internal::GetCapturedStdout());
  EXPECT_EQ(document["bandwidth"][0]["message_bytes"], 65536);
  EXPECT_EQ(document["bandwidth"][0]["average_mb_per_s"], 100);
  EXPECT_EQ(document["parameters"]["operation"], "write");
  EXPECT_EQ(document["error"], "it broke");
}

TEST(Account, SurvivesARoundTripAndSharesAddUp) {
  const Account account{.counters = {{"packets_sent", 40}},
                        .state = {{"window_bytes", 1.5}},
                        .paths = {{.state = "good", .packets = 30, .bytes = 300, .rtt_us = 5},
                                  {.state = "bad", .packets = 10, .lost = 2, .marked = 1}}};
  const nlohmann::json object = to_json(account);
  EXPECT_EQ(object["paths"][0]["share_percent"], 75.0);
  const Account back = parse_account(nlohmann::json::parse(object.dump()));
  EXPECT_EQ(back.counters, account.counters);
  EXPECT_EQ(back.state, account.state);
  ASSERT_EQ(back.paths.size(), 2u);
  EXPECT_EQ(back.paths[1].state, "bad");
  EXPECT_EQ(back.paths[1].lost, 2u);
  EXPECT_EQ(back.paths[0].rtt_us, 5);
}

TEST(Account, LeavesOutWhatIsMalformed) {
  EXPECT_TRUE(parse_account(nlohmann::json::array()).counters.entries().empty());
  const Account account = parse_account(
      {{"counters", {{"a", -1}, {"b", "x"}, {"c", 3u}}}, {"state", 7}, {"paths", {1, "x"}}});
  EXPECT_EQ(account.counters.entries().size(), 1u);
  EXPECT_TRUE(account.paths.empty());
}

TEST(Account, TextLeavesOutCountersThatAreZero) {
  const std::string text =
      format_account("Title", {.counters = {{"packets_sent", 4}, {"crc_errors", 0}}});
  EXPECT_THAT(text, HasSubstr("packets_sent"));
  EXPECT_THAT(text, testing::Not(HasSubstr("crc_errors")));
}

// What a peer sends is shown, not obeyed: ESC begins commands of terminals.
TEST(Report, TextOfAPeerDoesNothingToATerminal) {
  const nlohmann::json account = nlohmann::json::parse(R"({
      "counters": {"\u001b[2J": 1}, "state": {"a\nb": 2.5},
      "paths": [{"state": "\u001b]0;x\u0007", "packets": 3}]})");
  const std::string shown = format_account("their side", parse_account(account));
  EXPECT_THAT(shown, HasSubstr("\\x1b[2J"));
  EXPECT_THAT(shown, HasSubstr("a\\x0ab"));
  EXPECT_THAT(shown, HasSubstr("\\x1b]0;x\\x07"));
  EXPECT_THAT(shown, Not(HasSubstr("\x1b")));

  testing::internal::CaptureStderr();
  EXPECT_EQ(tools::complain("perf", "it reports: \x1b[31mred", 1), 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "spindrift perf: it reports: \\x1b[31mred\n");
}

}  // namespace
}  // namespace spindrift::perf
