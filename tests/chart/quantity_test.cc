#include "tools/chart/quantity.h"

#include <limits>

#include "gtest/gtest.h"

namespace spindrift::chart {
namespace {

TEST(Quantity, TakesTheLargestUnitThatLeavesAWholeOne) {
  EXPECT_EQ(scale_for(Quantity::kTime, 999).unit, "ps");
  EXPECT_EQ(scale_for(Quantity::kTime, 1e6).unit, "µs");
  EXPECT_EQ(scale_for(Quantity::kTime, 999'999).unit, "ns");
  EXPECT_EQ(scale_for(Quantity::kTime, 3e12).unit, "s");
  EXPECT_EQ(scale_for(Quantity::kBytes, 1023).unit, "B");
  EXPECT_EQ(scale_for(Quantity::kBytes, 1024).unit, "KiB");
  EXPECT_EQ(scale_for(Quantity::kBitRate, 400e9).unit, "Gb/s");
  EXPECT_EQ(scale_for(Quantity::kShare, 0.5).unit, "%");
  EXPECT_EQ(scale_for(Quantity::kNumber, 1e9).unit, "");
}

TEST(Quantity, WritesValuesAsPeopleReadThem) {
  EXPECT_EQ(format_value(Quantity::kTime, 20.5e6), "20.5 µs");
  EXPECT_EQ(format_value(Quantity::kTime, 179'400'000), "179 µs");
  EXPECT_EQ(format_value(Quantity::kBytes, 2U << 20U), "2 MiB");
  EXPECT_EQ(format_value(Quantity::kBitRate, 98.76e9), "98.8 Gb/s");
  EXPECT_EQ(format_value(Quantity::kShare, 0.1234), "12.3 %");
  EXPECT_EQ(format_value(Quantity::kNumber, 1'234'567), "1,234,567");
  EXPECT_EQ(format_value(Quantity::kTime, 0), "0 ps");
  EXPECT_EQ(format_value(Quantity::kTime, std::numeric_limits<double>::quiet_NaN()), "–");
}

TEST(Quantity, PutsCommasBetweenThousandsAndNoMinusBeforeZero) {
  EXPECT_EQ(format_decimal(999, 0), "999");
  EXPECT_EQ(format_decimal(1000, 2), "1,000.00");
  EXPECT_EQ(format_decimal(-1234.5, 1), "-1,234.5");
  EXPECT_EQ(format_decimal(-0.001, 2), "0.00");
}

}  // namespace
}  // namespace spindrift::chart
