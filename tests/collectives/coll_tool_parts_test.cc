// tools/coll: what needs no network.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <span>

#include <gtest/gtest.h>

#include "tools/coll/account.h"
#include "tools/coll/call_buffers.h"
#include "tools/coll/operations.h"
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
  row.out_of_place = {.time_us = 95.34, .wrong = 0, .ranks = {}};
  row.in_place = Outcome{.time_us = 93.10, .wrong = std::nullopt, .ranks = {}};
  EXPECT_EQ(table_row(row, Options{}, 8),
            "     1048576        262144     float     sum      -1    95.34   11.00   19.25       0 "
            "   93.10   11.26   19.71    N/A\n");
  row.in_place.reset();
  Options options;
  options.collective = Collective::kBroadcast;
  options.root = 3;
  options.type = DataType::kBfloat16;
  EXPECT_EQ(table_row(row, options, 8),
            "     1048576        262144  bfloat16    none       3    95.34   11.00   11.00       0 "
            "     N/A     N/A     N/A     N/A\n");
}

TEST(CollTable, SpreadNamesTheSlowRankAndTheSlowCall) {
  Row row;
  row.bytes = 64;
  row.out_of_place.ranks = {{.mean_us = 5, .slowest_us = 40},
                            {.mean_us = 9, .slowest_us = 12},
                            {.mean_us = 4, .slowest_us = 8}};
  EXPECT_EQ(spread_line(row),
            "# Ranks at 64 bytes     : 4.00 us at rank 2 to 9.00 us at rank 1; slowest call 40.00 "
            "us at rank 0\n");
}

TEST(CollTable, HeaderNamesTheColumnsInThePlacesOfTheRows) {
  EXPECT_NE(table_header().find("#       size         count      type   redop    root     time   "
                                "algbw   busbw  #wrong     time   algbw   busbw  #wrong \n"),
            std::string::npos);
}

TEST(CollTable, FooterSaysWhetherResultsWereRight) {
  EXPECT_EQ(table_footer(Collective::kAllReduce, 0, 19.48),
            "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 19.48 \n#\n"
            "# Collective test concluded: all_reduce_perf\n#\n");
  EXPECT_NE(table_footer(Collective::kAllGather, 3, 1).find("Out of bounds values : 3 FAILED"),
            std::string::npos);
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
  const Bandwidth bandwidth = bandwidth_of(Collective::kAllReduce, 1'000'000, 1000, 4);
  EXPECT_DOUBLE_EQ(bandwidth.algorithm_gbs, 1);
  EXPECT_DOUBLE_EQ(bandwidth.bus_gbs, 1.5);
  EXPECT_DOUBLE_EQ(bandwidth_of(Collective::kAllToAll, 1'000'000, 1000, 4).bus_gbs, 0.75);
  EXPECT_DOUBLE_EQ(bandwidth_of(Collective::kBroadcast, 1'000'000, 1000, 4).bus_gbs, 1);
  EXPECT_EQ(bandwidth_of(Collective::kAllReduce, 1000, 1, 1).bus_gbs, 0);
  EXPECT_EQ(bandwidth_of(Collective::kAllReduce, 0, 0, 4).bus_gbs, 0);
}

TEST(CollOperations, SizesAreThoseThatNcclTestsCounts) {
  const auto count = [](Collective collective) {
    return count_for(operation_of(collective), 4096, DataType::kFloat32, 4);
  };
  EXPECT_EQ(count(Collective::kAllReduce), 1024U);
  EXPECT_EQ(count(Collective::kAllGather), 256U);
  EXPECT_EQ(count(Collective::kAllToAllV), 102U);  // 4096 / 4 / (1 + 2 + 3 + 4)
  EXPECT_EQ(count(Collective::kBarrier), 0U);
  EXPECT_EQ(operations().size(), all_collectives().size());
  for (const Operation& operation : operations()) {
    const std::uint64_t bytes = bytes_for(operation, 7, DataType::kFloat16, 5);
    if (operation.collective == Collective::kBarrier) continue;
    EXPECT_EQ(count_for(operation, bytes, DataType::kFloat16, 5), 7U) << operation.name;
  }
}

constexpr std::array kAllTypes{DataType::kFloat32,  DataType::kFloat64, DataType::kFloat16,
                               DataType::kBfloat16, DataType::kInt8,    DataType::kUint8,
                               DataType::kInt16,    DataType::kUint16,  DataType::kInt32,
                               DataType::kUint32,   DataType::kInt64,   DataType::kUint64};

TEST(CollPattern, EveryTypeCarriesItsValuesAndNoticesOneThatDiffers) {
  for (const DataType type : kAllTypes) {
    Pattern pattern(type, ReduceOp::kSum, 4);
    std::vector<std::byte> buffer(70000 * bytes_of(type));
    pattern.fill(buffer, 2, 100);
    EXPECT_EQ(pattern.count_wrong(buffer, 2, 100), 0U) << to_string(type);
    EXPECT_GT(pattern.count_wrong(buffer, 1, 100), 10000U) << to_string(type);
    EXPECT_GT(pattern.count_wrong(buffer, 2, 101), 10000U) << to_string(type);
    buffer[65000 * bytes_of(type)] ^= std::byte{0x55};
    EXPECT_EQ(pattern.count_wrong(buffer, 2, 100), 1U) << to_string(type);
  }
}

TEST(CollPattern, ReductionsOfFloatsAreThoseOfAllRanks) {
  for (const ReduceOp op :
       {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kAverage}) {
    Pattern pattern(DataType::kFloat32, op, 5);
    std::vector<float> result(1000);
    for (std::size_t i = 0; i < result.size(); ++i) {
      result[i] = static_cast<float>(pattern.value(0, 7 + i));
      for (std::uint32_t rank = 1; rank < 5; ++rank) {
        const auto value = static_cast<float>(pattern.value(rank, 7 + i));
        if (op == ReduceOp::kProduct) result[i] *= value;
        if (op == ReduceOp::kMin) result[i] = std::min(result[i], value);
        if (op == ReduceOp::kMax) result[i] = std::max(result[i], value);
        if (op == ReduceOp::kSum || op == ReduceOp::kAverage) result[i] += value;
      }
      if (op == ReduceOp::kAverage) result[i] *= 0.2F;  // rounded otherwise than a division
    }
    EXPECT_EQ(pattern.count_wrong_reduced(std::as_bytes(std::span(result)), 7), 0U)
        << to_string(op);
    result[3] += 1;
    result[4] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(pattern.count_wrong_reduced(std::as_bytes(std::span(result)), 7), 2U)
        << to_string(op);
  }
}

TEST(CollPattern, SumsAndProductsOfTheLargestGroupFitIntoHalfAndBfloat16) {
  for (const DataType type : {DataType::kFloat16, DataType::kBfloat16, DataType::kUint8}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProduct}) {
      const Pattern pattern(type, op, kMaxRanks);
      for (std::uint64_t i = 0; i < 5000; ++i) {
        std::int64_t result = op == ReduceOp::kSum ? 0 : 1;
        for (std::uint32_t rank = 0; rank < kMaxRanks; ++rank) {
          const std::int64_t value = pattern.value(rank, i);
          result = op == ReduceOp::kSum ? result + value : result * value;
        }
        ASSERT_LT(result, 256);
      }
    }
  }
}

// A call as an ideal communicator would run it, over the buffers of all ranks.
void run_ideally(std::vector<CollectiveCall> calls) {
  const auto ranks = static_cast<std::uint32_t>(calls.size());
  const CollectiveCall& first = calls.front();
  const std::size_t bytes = first.count * bytes_of(first.type);
  std::vector<std::vector<std::byte>> inputs;
  for (const CollectiveCall& call : calls) {
    const auto* from = static_cast<const std::byte*>(call.input);
    inputs.emplace_back(from, from + bytes * ranks);
  }
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    auto* const to = static_cast<std::byte*>(calls[rank].output);
    for (std::uint32_t other = 0; other < ranks; ++other) {
      if (first.collective == Collective::kAllGather) {
        std::memcpy(to + other * bytes, inputs[other].data(), bytes);
      } else if (first.collective == Collective::kAllToAll) {
        std::memcpy(to + other * bytes, inputs[other].data() + rank * bytes, bytes);
      } else if (first.collective == Collective::kScatter) {
        std::memcpy(to, inputs[first.root].data() + rank * bytes, bytes);
      }
    }
  }
}

TEST(CollBuffers, KnowRightResultsFromWrongOnes) {
  static constexpr std::uint32_t kRanks = 3;
  for (const Collective collective :
       {Collective::kAllGather, Collective::kAllToAll, Collective::kScatter}) {
    Options options;
    options.collective = collective;
    options.root = 1;
    std::vector<std::unique_ptr<CallBuffers>> buffers;
    std::vector<CollectiveCall> calls;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      // Room for what run_ideally() reads.
      buffers.push_back(std::make_unique<CallBuffers>(options, rank, kRanks, 1 << 16));
      buffers.back()->fill(100, Place::kApart);
      calls.push_back(buffers.back()->call(100, Place::kApart));
    }
    EXPECT_GT(buffers[2]->count_wrong(100, Place::kApart), 90U);
    run_ideally(calls);
    for (const auto& one : buffers)
      EXPECT_EQ(one->count_wrong(100, Place::kApart), 0U) << to_string(collective);
    static_cast<std::byte*>(calls[0].output)[17] ^= std::byte{1};
    EXPECT_EQ(buffers[0]->count_wrong(100, Place::kApart), 1U);
  }
}

TEST(CollBuffers, InPlaceTheSmallerBufferLiesWhereTheOperationWantsIt) {
  Options options;
  options.collective = Collective::kAllGather;
  CallBuffers gathering(options, 2, 4, 1 << 16);
  CollectiveCall call = gathering.call(100, Place::kInPlace);
  EXPECT_EQ(static_cast<const std::byte*>(call.input),
            static_cast<const std::byte*>(call.output) + 2 * 100 * sizeof(float));
  options.collective = Collective::kReduceScatter;
  CallBuffers scattering(options, 2, 4, 1 << 16);
  call = scattering.call(100, Place::kInPlace);
  EXPECT_EQ(static_cast<const std::byte*>(call.output),
            static_cast<const std::byte*>(call.input) + 2 * 100 * sizeof(float));
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

TEST(Workload, LanguageModelsHaveAsManyParametersAsTheirPapersSay) {
  const auto parameters = [](const std::string& name) {
    std::uint64_t sum = 0;
    const auto tensors = load_workload(name);
    EXPECT_TRUE(tensors.ok()) << tensors.error().message();
    for (const Tensor& tensor : tensors.value())
      sum += tensor.elements;
    return sum;
  };
  EXPECT_EQ(parameters("bert_large"), 335'141'888U);
  EXPECT_EQ(parameters("llama2_7b"), 6'738'415'616U);
}

TEST(Workload, EveryTensorIsInOneBucketAndTheFirstIsSmall) {
  const std::vector<Tensor> tensors = load_workload("resnet50").value();
  const std::vector<Bucket> buckets = make_buckets(tensors, 25ULL << 20, sizeof(float));
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
