#include "tools/perf/units.h"

#include <gtest/gtest.h>

namespace spindrift::perf {
namespace {

TEST(ParseBytes, ReadsPlainNumbersAndPowersOf1024) {
  EXPECT_EQ(parse_bytes("0").value(), 0u);
  EXPECT_EQ(parse_bytes("65536").value(), 65536u);
  EXPECT_EQ(parse_bytes("64K").value(), 65536u);
  EXPECT_EQ(parse_bytes("64k").value(), 65536u);
  EXPECT_EQ(parse_bytes("8M").value(), 8u << 20);
  EXPECT_EQ(parse_bytes("2GiB").value(), 2ULL << 30);
  EXPECT_EQ(parse_bytes("1.5K").value(), 1536u);
}

TEST(ParseBytes, RefusesWhatIsNoWholeNumberOfBytes) {
  for (const char* text : {"", "K", "-1", "64X", "64KX", "0.5", "1e3", "nan", "inf", "64 K"}) {
    EXPECT_FALSE(parse_bytes(text).ok()) << text;
  }
}

TEST(ParseBytes, QuotesTheTextItRefuses) {
  EXPECT_NE(parse_bytes("64X").error().message().find("'64X'"), std::string::npos);
}

TEST(ParseDuration, ReadsSecondsAndUnits) {
  EXPECT_EQ(parse_duration("2").value(), std::chrono::seconds(2));
  EXPECT_EQ(parse_duration("1.5s").value(), std::chrono::milliseconds(1500));
  EXPECT_EQ(parse_duration("200ms").value(), std::chrono::milliseconds(200));
  EXPECT_EQ(parse_duration("10us").value(), std::chrono::microseconds(10));
  EXPECT_EQ(parse_duration("50ns").value(), std::chrono::nanoseconds(50));
  EXPECT_EQ(parse_duration("2m").value(), std::chrono::minutes(2));
}

TEST(ParseDuration, RefusesUnknownUnitsAndNegativeTimes) {
  for (const char* text : {"", "s", "-1s", "5x", "5 s", "1e30"}) {
    EXPECT_FALSE(parse_duration(text).ok()) << text;
  }
}

TEST(FormatBytes, UsesUnitsOnlyForWholeMultiples) {
  EXPECT_EQ(format_bytes(0), "0");
  EXPECT_EQ(format_bytes(1000), "1000");
  EXPECT_EQ(format_bytes(65536), "64K");
  EXPECT_EQ(format_bytes(8u << 20), "8M");
  EXPECT_EQ(format_bytes((1u << 20) + 1), "1048577");
}

TEST(SizeLadder, RunsFrom2BytesTo8MiBInPowersOfTwo) {
  const std::vector<std::uint64_t> sizes = size_ladder();
  ASSERT_EQ(sizes.size(), 23u);
  EXPECT_EQ(sizes.front(), 2u);
  EXPECT_EQ(sizes.back(), 8u << 20);
  for (std::size_t i = 1; i < sizes.size(); ++i)
    EXPECT_EQ(sizes[i], 2 * sizes[i - 1]);
}

TEST(DefaultDepth, FallsFrom128To16AsMessagesGrow) {
  EXPECT_EQ(default_depth(2), 128u);
  EXPECT_EQ(default_depth(4097), 64u);
  EXPECT_EQ(default_depth(65537), 32u);
  EXPECT_EQ(default_depth(8u << 20), 16u);
}

}  // namespace
}  // namespace spindrift::perf
