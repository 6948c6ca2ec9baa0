#include "tools/chart/ticks.h"

#include <cmath>
#include <tuple>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace spindrift::chart {
namespace {

using testing::ElementsAre;

std::vector<std::string> labels(const Ticks& ticks) {
  std::vector<std::string> out;
  for (const Tick& tick : ticks.ticks)
    out.push_back(tick.label);
  return out;
}

TEST(Ticks, StandOnRoundNumbersOfTheUnitThatSuits) {
  const Ticks time = linear_ticks({.from = 0, .to = 203.7e6}, Quantity::kTime, 6);
  EXPECT_EQ(time.unit, "µs");
  EXPECT_THAT(labels(time), ElementsAre("0", "50", "100", "150", "200"));
  const Ticks bytes = linear_ticks({.from = 0, .to = 1.5 * 1024 * 1024}, Quantity::kBytes, 6);
  EXPECT_EQ(bytes.unit, "MiB");
  EXPECT_THAT(labels(bytes), ElementsAre("0.0", "0.5", "1.0", "1.5"));
  const Ticks share = linear_ticks({.from = 0, .to = 1}, Quantity::kShare, 6);
  EXPECT_THAT(labels(share), ElementsAre("0", "20", "40", "60", "80", "100"));
}

TEST(Ticks, LieWithinTheRangeInEqualStepsAndAreNotTooMany) {
  for (const double from : {0.0, -3.7, 12.25, 1e6})
    for (const double span : {1e-3, 0.7, 1.0, 9.99, 123.0, 5e11})
      for (const int count_max : {2, 4, 9}) {
        const Range range{.from = from, .to = from + span};
        const auto ticks = linear_ticks(range, Quantity::kNumber, count_max).ticks;
        EXPECT_LE(ticks.size(), static_cast<std::size_t>(count_max)) << from << " " << span;
        for (std::size_t i = 0; i < ticks.size(); ++i) {
          EXPECT_GE(ticks[i].value, range.from - span * 1e-6);
          EXPECT_LE(ticks[i].value, range.to + span * 1e-6);
          if (i < 2) continue;
          EXPECT_NEAR(ticks[i].value - ticks[i - 1].value, ticks[1].value - ticks[0].value,
                      span * 1e-6);
        }
      }
}

TEST(Ticks, OfAnEmptyRangeAreOne) {
  EXPECT_THAT(labels(linear_ticks({.from = 5, .to = 5}, Quantity::kNumber, 6)), ElementsAre("5"));
}

TEST(Ticks, OfBytesAreNeverParts) {
  EXPECT_THAT(labels(linear_ticks({.from = 0, .to = 3}, Quantity::kBytes, 9)),
              ElementsAre("0", "1", "2", "3"));
}

TEST(Ticks, OfALogarithmicAxisArePowersEachWithItsUnit) {
  EXPECT_THAT(labels(logarithmic_ticks({.from = 3e5, .to = 2e9}, Quantity::kTime, 5)),
              ElementsAre("1 µs", "10 µs", "100 µs", "1 ms"));
  EXPECT_THAT(labels(logarithmic_ticks({.from = 1e6, .to = 10e6}, Quantity::kTime, 9)),
              ElementsAre("1 µs", "2 µs", "5 µs", "10 µs"));
  EXPECT_THAT(labels(logarithmic_ticks({.from = 1024, .to = 8192}, Quantity::kBytes, 9)),
              ElementsAre("1 KiB", "2 KiB", "4 KiB", "8 KiB"));
  EXPECT_LE(logarithmic_ticks({.from = 1, .to = 1e18}, Quantity::kNumber, 6).ticks.size(), 6U);
}

TEST(Ticks, RoundedRangesEndOnATickThatIsNotBelowTheData) {
  for (const double largest : {0.3, 1.0, 7.2, 99.0, 101.0, 2e7}) {
    const Range range = rounded_range({.from = 0, .to = largest}, Quantity::kNumber, 6);
    EXPECT_EQ(range.from, 0);
    EXPECT_GE(range.to, largest * (1 - 1e-9));
    EXPECT_LE(range.to, largest * 2);
    const auto ticks = linear_ticks(range, Quantity::kNumber, 7).ticks;
    EXPECT_NEAR(ticks.back().value, range.to, range.to * 1e-9);
  }
  const Range nothing = rounded_range({.from = 0, .to = 0}, Quantity::kNumber, 6);
  EXPECT_LT(nothing.from, nothing.to);
}

}  // namespace
}  // namespace spindrift::chart
