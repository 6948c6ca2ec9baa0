// tools/coll: what needs no network.
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "tools/coll/account.h"
#include "tools/coll/pattern.h"
#include "tools/coll/report.h"
#include "tools/coll/table.h"
#include "tools/coll/workload.h"

namespace spindrift::coll {
namespace {

TEST(CollTable, PrintsRowsLetterByLetterAsNcclTestsDo) {
  Row row;
  row.bytes = 1048576;
  row.count = 262144;
  row.out_of_place = {.time_us = 95.34, .wrong = 0};
  row.in_place = {.time_us = 93.10, .wrong = std::nullopt};
  EXPECT_EQ(table_row(row, DataType::kFloat32, ReduceOp::kSum, 8),
            "     1048576        262144     float     sum      -1    95.34   11.00   19.25       0 "
            "   93.10   11.26   19.71    N/A\n");
}

TEST(CollTable, HeaderNamesTheColumnsInThePlacesOfTheRows) {
  EXPECT_NE(table_header().find("#       size         count      type   redop    root     time   "
                                "algbw   busbw  #wrong     time   algbw   busbw  #wrong \n"),
            std::string::npos);
}

TEST(CollTable, FooterSaysWhetherResultsWereRight) {
  EXPECT_EQ(table_footer(0, 19.48),
            "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 19.48 \n#\n"
            "# Collective test concluded: all_reduce_perf\n#\n");
  EXPECT_NE(table_footer(3, 1).find("Out of bounds values : 3 FAILED"), std::string::npos);
}

TEST(CollTable, NumbersLoseDecimalsBeforeTheyLeaveTheirColumn) {
  EXPECT_EQ(fit(95.34, 7), "  95.34");
  EXPECT_EQ(fit(9999.99, 7), "9999.99");
  EXPECT_EQ(fit(12345.6, 7), "12345.6");
  EXPECT_EQ(fit(1234567.0, 7), "1234567");
  EXPECT_EQ(fit(123456789.0, 7), "1.2e+08");
  EXPECT_EQ(fit(0, 6), "  0.00");
  EXPECT_EQ(fit(123456789.0, 6), " 1e+08");
}

TEST(CollTable, BusBandwidthIsWhatTheSlowestLinkCarries) {
  const Bandwidth bandwidth = bandwidth_of(1'000'000, 1000, 4);
  EXPECT_DOUBLE_EQ(bandwidth.algorithm_gbs, 1);
  EXPECT_DOUBLE_EQ(bandwidth.bus_gbs, 1.5);
  EXPECT_EQ(bandwidth_of(1000, 1, 1).bus_gbs, 0);
  EXPECT_EQ(bandwidth_of(0, 0, 4).bus_gbs, 0);
}

TEST(CollPattern, SumsOfAllRanksCountAsRight) {
  const Pattern pattern(5);
  std::vector<float> sum(70000);
  for (std::uint32_t rank = 0; rank < 5; ++rank) {
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] += Pattern::value(rank, 100 + i);
  }
  EXPECT_EQ(pattern.count_wrong(sum, 100), 0U);
}

TEST(CollPattern, CountsMissingTwiceAddedMisplacedAndUnwrittenElements) {
  const Pattern pattern(2);
  std::vector<float> sum(1000);
  for (std::size_t i = 0; i < sum.size(); ++i)
    sum[i] = Pattern::value(0, i) + Pattern::value(1, i);
  ASSERT_EQ(pattern.count_wrong(sum, 0), 0U);
  std::vector<float> broken = sum;
  broken[7] = std::numeric_limits<float>::quiet_NaN();
  broken[8] += 1;
  EXPECT_EQ(pattern.count_wrong(broken, 0), 2U);
  EXPECT_GT(pattern.count_wrong(sum, 1), 900U);
  Pattern::fill(broken, 0, 0);
  EXPECT_GT(pattern.count_wrong(broken, 0), 900U);
}

TEST(CollPattern, SumsAreExactForTheLargestGroup) {
  for (std::uint64_t i = 0; i < 100000; ++i) {
    const float value = Pattern::value(63, i);
    ASSERT_EQ(value, static_cast<float>(static_cast<int>(value)));
    ASSERT_LE(value < 0 ? -value : value, 128.0F);  // 64 * 128 is far below 2^24
  }
}

TEST(Workload, ResNet50Has161TensorsAnd25557032Parameters) {
  const std::vector<Tensor> tensors = load_workload("resnet50").value();
  std::uint64_t parameters = 0;
  for (const Tensor& tensor : tensors)
    parameters += tensor.elements;
  EXPECT_EQ(tensors.size(), 161U);
  EXPECT_EQ(parameters, 25'557'032U);
  EXPECT_EQ(tensors.front().name, "conv1.weight");
  EXPECT_EQ(tensors.front().elements, 64U * 3 * 7 * 7);
  EXPECT_EQ(tensors.back().elements, 1000U);
}

TEST(Workload, EveryTensorIsInOneBucketAndTheFirstIsSmall) {
  const std::vector<Tensor> tensors = load_workload("resnet50").value();
  const std::vector<Bucket> buckets = make_buckets(tensors, 25ULL << 20);
  std::uint64_t parameters = 0;
  std::uint32_t count = 0;
  for (const Bucket& bucket : buckets) {
    parameters += bucket.elements;
    count += bucket.tensors;
  }
  EXPECT_EQ(parameters, 25'557'032U);
  EXPECT_EQ(count, 161U);
  // fc.bias and fc.weight fill the first one, which is closed at 1 MiB.
  EXPECT_EQ(buckets.front().tensors, 2U);
  EXPECT_EQ(buckets.front().elements, 2048U * 1000 + 1000);
  for (std::size_t i = 1; i + 1 < buckets.size(); ++i) {
    EXPECT_GE(buckets[i].elements * sizeof(float), 25ULL << 20);
  }
}

TEST(Workload, ErrorsNameTheLine) {
  const auto message = [](const char* text) {
    const auto tensors = parse_workload(text);
    return tensors.ok() ? std::string("accepted") : tensors.error().message();
  };
  EXPECT_NE(message("# comment\n\na 3x3\nb\n").find("line 4"), std::string::npos);
  EXPECT_NE(message("a 3x0\n").find("line 1"), std::string::npos);
  EXPECT_NE(message("a 3x-1\n").find("line 1"), std::string::npos);
  EXPECT_NE(message("a 3x3 4\n").find("line 1"), std::string::npos);
  EXPECT_NE(message("a 1099511627776x1099511627776\n").find("line 1"), std::string::npos);
  EXPECT_NE(message("").find("no tensor"), std::string::npos);
  EXPECT_EQ(message("a 3x3\n"), "accepted");
  EXPECT_FALSE(load_workload("/nowhere/at/all").ok());
}

TEST(CollAccount, SurvivesItsTripThroughTheStore) {
  Account account;
  account.counters = {{"packets_sent", 1000}, {"fault_lost_packets", 10}};
  account.connections = 1;
  account.paths = 16;
  account.least_share = 0.05;
  account.most_share = 0.07;
  const Account back = account_from_text(to_text(account)).value();
  EXPECT_EQ(back.counters, account.counters);
  EXPECT_EQ(back.paths, 16U);
  EXPECT_DOUBLE_EQ(back.least_share, 0.05);
  EXPECT_FALSE(account_from_text("{]").ok());
  EXPECT_FALSE(account_from_text("{\"counters\": 7}").ok());
}

TEST(CollAccount, ShowsPathsLossAndRepairSummedOverRanks) {
  Account one;
  one.counters = {{"packets_sent", 1000},
                  {"retransmits_reordered", 9},
                  {"retransmits_timeout", 1},
                  {"fault_lost_packets", 11}};
  one.connections = 1;
  one.paths = 16;
  one.least_share = 0.06;
  one.most_share = 0.065;
  Account sum = one;
  one.least_share = 0.055;
  sum.add(one);
  const std::string text = describe(sum, 2);
  EXPECT_NE(text.find(": " + std::string(8, ' ') + "2000"), std::string::npos) << text;
  EXPECT_NE(text.find("20  1.00 % of the packets"), std::string::npos) << text;
  EXPECT_NE(text.find("lost packets on purpose"), std::string::npos) << text;
  EXPECT_NE(text.find("16.0  each carried 5.50 % to 6.50 %"), std::string::npos) << text;
}

TEST(CollAccount, TextOfARankDoesNothingToATerminal) {
  const auto account =
      account_from_text(R"({"counters": {"fault_\u001b[2J": 1}, "connections": 1, "paths": 1})");
  ASSERT_TRUE(account.ok());
  const std::string shown = describe(account.value(), 2);
  EXPECT_NE(shown.find("\\x1b[2J on purpose"), std::string::npos) << shown;
}

TEST(CollReport, HostNamesDoNothingToATerminal) {
  Options options;
  const std::string who[] = {"#  Rank 0 on \x1b[2Jhost"};
  testing::internal::CaptureStdout();
  Report(options, 1).begin(who);
  EXPECT_NE(testing::internal::GetCapturedStdout().find("\\x1b[2Jhost"), std::string::npos);
}

}  // namespace
}  // namespace spindrift::coll
