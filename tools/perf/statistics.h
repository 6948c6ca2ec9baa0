#pragma once
// What a measurement collects, in memory fixed at construction, and what it says at the end.
#include <array>
#include <cstdint>
#include <memory>

#include "spindrift/types.h"

namespace spindrift::perf {

struct LatencySummary {
  std::uint64_t samples = 0;
  double min_us = 0;
  double max_us = 0;
  double typical_us = 0;  // median
  double average_us = 0;
  double stdev_us = 0;
  double p99_us = 0;
  double p999_us = 0;
};

// Latencies by value. Minimum, maximum, average and deviation are exact; quantiles are exact below
// 1024 ns and within 0.1 % above.
class LatencyHistogram {
 public:
  LatencyHistogram();
  void add(Duration latency);
  // Every value is divided by `divisor` (2: half round trips).
  LatencySummary summary(double divisor) const;

 private:
  static constexpr std::uint64_t kExactValues = 1024;
  static constexpr std::uint64_t kStepsPerOctave = 512;
  static constexpr std::uint64_t kOctaves = 31;  // up to 2^41 ns, 36 minutes
  static constexpr std::size_t kBuckets = kExactValues + kOctaves * kStepsPerOctave;

  static std::size_t bucket_of(std::uint64_t ns);
  static double middle_of(std::size_t bucket);
  double quantile_ns(double share) const;

  std::unique_ptr<std::array<std::uint64_t, kBuckets>> counts_;
  std::uint64_t samples_ = 0;
  std::uint64_t min_ns_ = 0;
  std::uint64_t max_ns_ = 0;
  double mean_ns_ = 0;
  double squares_ns2_ = 0;  // sum of squared distances from the mean (Welford)
};

// MB are 2^20 bytes, as perftest counts them.
inline constexpr double kBytesPerMb = 1024.0 * 1024.0;

struct BandwidthSummary {
  std::uint64_t iterations = 0;
  std::uint64_t bytes = 0;
  double elapsed_s = 0;
  double average_mb_per_s = 0;
  double peak_mb_per_s = 0;  // of the best window, never below the average
  double rate_mpps = 0;      // 10^6 messages per second
};

// Counts completions between the first after the warm-up and the last one.
class BandwidthMeter {
 public:
  // A window ends once it has lasted kWindow and taken in `window_messages`, so that the
  // completions of one acknowledgement do not look like a rate of their own.
  static constexpr Duration kWindow = std::chrono::milliseconds(2);

  BandwidthMeter(std::uint64_t message_bytes, std::uint64_t window_messages);
  void start(Time now);
  bool is_started() const { return is_started_; }
  void add(Time now, std::uint64_t messages);
  std::uint64_t messages() const { return messages_; }
  Time started() const { return start_; }
  BandwidthSummary summary() const;

 private:
  std::uint64_t message_bytes_;
  std::uint64_t window_messages_min_;
  std::uint64_t messages_ = 0;
  std::uint64_t window_messages_ = 0;
  Time start_{};
  Time last_{};
  Time window_start_{};
  double best_messages_per_ns_ = 0;
  bool is_started_ = false;
};

// Both directions of a bidirectional test, as perftest reports them: rates add up.
BandwidthSummary sum_of(const BandwidthSummary& a, const BandwidthSummary& b);

}  // namespace spindrift::perf
