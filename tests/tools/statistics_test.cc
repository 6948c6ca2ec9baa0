#include "tools/perf/statistics.h"

#include <cmath>

#include <gtest/gtest.h>

namespace spindrift::perf {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

Time at(Duration since_start) {
  return Time{} + since_start;
}

TEST(LatencyHistogram, IsAllZeroWithoutSamples) {
  const LatencySummary summary = LatencyHistogram().summary(1);
  EXPECT_EQ(summary.samples, 0u);
  EXPECT_EQ(summary.max_us, 0);
}

TEST(LatencyHistogram, GivesExactQuantilesBelow1024Nanoseconds) {
  LatencyHistogram histogram;
  for (int ns = 1; ns <= 1000; ++ns)
    histogram.add(nanoseconds(ns));
  const LatencySummary summary = histogram.summary(1);
  EXPECT_EQ(summary.samples, 1000u);
  EXPECT_DOUBLE_EQ(summary.min_us, 0.001);
  EXPECT_DOUBLE_EQ(summary.max_us, 1.0);
  EXPECT_DOUBLE_EQ(summary.typical_us, 0.5);
  EXPECT_DOUBLE_EQ(summary.p99_us, 0.99);
  EXPECT_DOUBLE_EQ(summary.p999_us, 0.999);
  EXPECT_NEAR(summary.average_us, 0.5005, 1e-9);
  EXPECT_NEAR(summary.stdev_us, std::sqrt(1000.0 * 1001 / 12) / 1000, 1e-9);
}

TEST(LatencyHistogram, KeepsQuantilesWithinAThousandthAbove) {
  for (const std::int64_t ns : {1024, 1025, 2047, 2048, 70'001, 1'234'567, 999'999'999}) {
    LatencyHistogram histogram;
    histogram.add(nanoseconds(1));
    for (int i = 0; i < 100; ++i)
      histogram.add(nanoseconds(ns));
    histogram.add(nanoseconds(2'000'000'000));
    const double us = static_cast<double>(ns) / 1000;
    EXPECT_NEAR(histogram.summary(1).typical_us, us, us * 0.001) << ns;
  }
}

TEST(LatencyHistogram, NeverLeavesTheRangeOfItsSamples) {
  LatencyHistogram histogram;
  histogram.add(std::chrono::hours(10));
  histogram.add(nanoseconds(-5));
  const LatencySummary summary = histogram.summary(1);
  EXPECT_EQ(summary.min_us, 0);
  EXPECT_DOUBLE_EQ(summary.max_us, 36e9);
  EXPECT_LE(summary.p999_us, summary.max_us);
  EXPECT_GE(summary.typical_us, summary.min_us);
}

TEST(LatencyHistogram, DividesEverythingForHalfRoundTrips) {
  LatencyHistogram histogram;
  histogram.add(microseconds(10));
  histogram.add(microseconds(20));
  EXPECT_DOUBLE_EQ(histogram.summary(2).min_us, 5);
  EXPECT_DOUBLE_EQ(histogram.summary(2).max_us, 10);
  EXPECT_DOUBLE_EQ(histogram.summary(2).average_us, 7.5);
  EXPECT_NEAR(histogram.summary(2).stdev_us, histogram.summary(1).stdev_us / 2, 1e-12);
}

TEST(BandwidthMeter, DividesByTheTimeToTheLastCompletion) {
  BandwidthMeter meter(1 << 20, 1);
  meter.start(at(milliseconds(100)));
  meter.add(at(milliseconds(600)), 50);
  meter.add(at(milliseconds(1100)), 50);
  const BandwidthSummary summary = meter.summary();
  EXPECT_EQ(summary.iterations, 100u);
  EXPECT_EQ(summary.bytes, 100ULL << 20);
  EXPECT_DOUBLE_EQ(summary.elapsed_s, 1.0);
  EXPECT_DOUBLE_EQ(summary.average_mb_per_s, 100.0);
  EXPECT_DOUBLE_EQ(summary.rate_mpps, 1e-4);
}

TEST(BandwidthMeter, TakesThePeakFromTheBestWindow) {
  BandwidthMeter meter(1 << 20, 1);
  meter.start(at({}));
  meter.add(at(milliseconds(100)), 10);
  meter.add(at(milliseconds(110)), 10);
  meter.add(at(milliseconds(200)), 1);
  EXPECT_DOUBLE_EQ(meter.summary().peak_mb_per_s, 1000.0);
}

TEST(BandwidthMeter, DoesNotTakeABurstOfCompletionsForARate) {
  BandwidthMeter meter(1 << 20, 64);
  meter.start(at({}));
  meter.add(at(milliseconds(99)), 1);
  meter.add(at(milliseconds(100)), 32);
  EXPECT_DOUBLE_EQ(meter.summary().peak_mb_per_s, meter.summary().average_mb_per_s);
}

TEST(BandwidthMeter, NeverReportsAPeakBelowTheAverage) {
  BandwidthMeter meter(1 << 20, 1);
  meter.start(at({}));
  meter.add(at(milliseconds(10)), 1);
  meter.add(at(milliseconds(11)), 100);
  EXPECT_GE(meter.summary().peak_mb_per_s, meter.summary().average_mb_per_s);
}

TEST(BandwidthMeter, IsZeroBeforeAnythingCompleted) {
  BandwidthMeter meter(4096, 1);
  meter.start(at({}));
  EXPECT_EQ(meter.summary().iterations, 0u);
  EXPECT_EQ(meter.summary().average_mb_per_s, 0);
}

TEST(SumOf, AddsRatesAndKeepsTheLongerTime) {
  const BandwidthSummary a{.iterations = 1,
                           .bytes = 2,
                           .elapsed_s = 3,
                           .average_mb_per_s = 4,
                           .peak_mb_per_s = 5,
                           .rate_mpps = 6};
  const BandwidthSummary b{.iterations = 10,
                           .bytes = 20,
                           .elapsed_s = 1,
                           .average_mb_per_s = 40,
                           .peak_mb_per_s = 50,
                           .rate_mpps = 60};
  const BandwidthSummary sum = sum_of(a, b);
  EXPECT_EQ(sum.iterations, 11u);
  EXPECT_EQ(sum.bytes, 22u);
  EXPECT_EQ(sum.elapsed_s, 3);
  EXPECT_EQ(sum.average_mb_per_s, 44);
  EXPECT_EQ(sum.peak_mb_per_s, 55);
  EXPECT_EQ(sum.rate_mpps, 66);
}

}  // namespace
}  // namespace spindrift::perf
