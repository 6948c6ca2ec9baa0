#include "tools/sim/quantities.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spindrift::simtool {
namespace {

using testing::HasSubstr;

TEST(Quantities, TimesAreExactPicoseconds) {
  EXPECT_EQ(parse_time("1.5 us").value(), 1'500'000);
  EXPECT_EQ(parse_time("640ps").value(), 640);
  EXPECT_EQ(parse_time("0.001 ns").value(), 1);
  EXPECT_EQ(parse_time("0").value(), 0);
  EXPECT_EQ(parse_time(" 2 s ").value(), 2 * sim::kSecond);
}

TEST(Quantities, RatesCountInThousandsAndSizesIn1024) {
  EXPECT_EQ(parse_rate("100 Gb/s").value(), 100'000'000'000U);
  EXPECT_EQ(parse_rate("2.5G").value(), 2'500'000'000U);
  EXPECT_EQ(parse_rate("9600").value(), 9600U);
  EXPECT_EQ(parse_bytes("2 MiB").value(), 2097152U);
  EXPECT_EQ(parse_bytes("64k").value(), 65536U);
  EXPECT_EQ(parse_bytes("0.5 KiB").value(), 512U);
}

TEST(Quantities, WhatIsNoQuantityIsRefusedWithAnExample) {
  EXPECT_THAT(parse_time("5").error().message(), HasSubstr("lacks its unit"));
  EXPECT_THAT(parse_time("5 min").error().message(), HasSubstr("unknown unit"));
  EXPECT_THAT(parse_time("-1 us").error().message(), HasSubstr("no number"));
  EXPECT_THAT(parse_time("0.5 ps").error().message(), HasSubstr("finer"));
  EXPECT_THAT(parse_time("99999999999 s").error().message(), HasSubstr("too large"));
  EXPECT_THAT(parse_bytes("").error().message(), HasSubstr("\"2 MiB\""));
  EXPECT_FALSE(parse_bytes("1..5 MiB").ok());
  EXPECT_FALSE(parse_rate("99999999999999999999999999999999 Gb/s").ok());
  EXPECT_FALSE(parse_count("3.5").ok());
  EXPECT_FALSE(parse_count("-3").ok());
  EXPECT_FALSE(parse_number("nan").ok());
  EXPECT_FALSE(parse_number("0.5x").ok());
  EXPECT_FALSE(parse_flag("maybe").ok());
}

TEST(Quantities, NumbersMayBePercent) {
  EXPECT_DOUBLE_EQ(parse_number("50 %").value(), 0.5);
  EXPECT_DOUBLE_EQ(parse_number("1e-3").value(), 0.001);
}

TEST(Quantities, WhatIsPrintedMeansTheSameNumber) {
  for (const sim::Picoseconds time :
       {1LL, 640LL, 999LL, 1'500'000LL, 1'234'567LL, 3'000'000'000'000LL})
    EXPECT_EQ(parse_time(format_time(time)).value(), time) << format_time(time);
  for (const std::uint64_t bytes : {1ULL, 1000ULL, 1536ULL, 2097152ULL, 123456789ULL})
    EXPECT_EQ(parse_bytes(format_bytes(bytes)).value(), bytes) << format_bytes(bytes);
  for (const std::uint64_t rate : {1ULL, 999ULL, 25'000'000'000ULL, 12'345'678'901ULL})
    EXPECT_EQ(parse_rate(format_rate(rate)).value(), rate) << format_rate(rate);
  EXPECT_EQ(format_time(1'500'000), "1.5 us");
  EXPECT_EQ(format_bytes(2U << 20U), "2 MiB");
  EXPECT_EQ(format_rate(100'000'000'000), "100 Gb/s");
}

TEST(Quantities, TablesShowThreeDigits) {
  EXPECT_EQ(rounded_time(203'456'000), "203 us");
  EXPECT_EQ(rounded_time(999'600'000), "1.00 ms");
  EXPECT_EQ(rounded_bytes(1536), "1.50 KiB");
  EXPECT_EQ(rounded_rate(0), "0 b/s");
}

}  // namespace
}  // namespace spindrift::simtool
