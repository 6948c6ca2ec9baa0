#include "tools/perf/statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace spindrift::perf {

LatencyHistogram::LatencyHistogram()
    : counts_(std::make_unique<std::array<std::uint64_t, kBuckets>>()) {}

std::size_t LatencyHistogram::bucket_of(std::uint64_t ns) {
  if (ns < kExactValues) return ns;
  const auto shift = static_cast<std::uint64_t>(std::bit_width(ns)) - 10;
  const std::uint64_t bucket =
      kExactValues + (shift - 1) * kStepsPerOctave + ((ns >> shift) - kStepsPerOctave);
  return std::min<std::uint64_t>(bucket, kBuckets - 1);
}

double LatencyHistogram::middle_of(std::size_t bucket) {
  if (bucket < kExactValues) return static_cast<double>(bucket);
  const std::uint64_t octave = (bucket - kExactValues) / kStepsPerOctave;
  const std::uint64_t step = (bucket - kExactValues) % kStepsPerOctave;
  const std::uint64_t width = 2ULL << octave;
  return static_cast<double>((kStepsPerOctave + step) * width) + static_cast<double>(width - 1) / 2;
}

void LatencyHistogram::add(Duration latency) {
  const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(latency.count(), 0));
  ++(*counts_)[bucket_of(ns)];
  min_ns_ = samples_ == 0 ? ns : std::min(min_ns_, ns);
  max_ns_ = std::max(max_ns_, ns);
  ++samples_;
  const double distance = static_cast<double>(ns) - mean_ns_;
  mean_ns_ += distance / static_cast<double>(samples_);
  squares_ns2_ += distance * (static_cast<double>(ns) - mean_ns_);
}

double LatencyHistogram::quantile_ns(double share) const {
  const auto rank = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(samples_)));
  std::uint64_t seen = 0;
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    seen += (*counts_)[bucket];
    if (seen >= rank && seen > 0) {
      return std::clamp(middle_of(bucket), static_cast<double>(min_ns_),
                        static_cast<double>(max_ns_));
    }
  }
  return static_cast<double>(max_ns_);
}

LatencySummary LatencyHistogram::summary(double divisor) const {
  if (samples_ == 0) return {};
  const double scale = 1.0 / (1000.0 * divisor);
  const double variance = samples_ > 1 ? squares_ns2_ / static_cast<double>(samples_ - 1) : 0.0;
  return LatencySummary{.samples = samples_,
                        .min_us = static_cast<double>(min_ns_) * scale,
                        .max_us = static_cast<double>(max_ns_) * scale,
                        .typical_us = quantile_ns(0.5) * scale,
                        .average_us = mean_ns_ * scale,
                        .stdev_us = std::sqrt(variance) * scale,
                        .p99_us = quantile_ns(0.99) * scale,
                        .p999_us = quantile_ns(0.999) * scale};
}

BandwidthMeter::BandwidthMeter(std::uint64_t message_bytes, std::uint64_t window_messages)
    : message_bytes_(message_bytes), window_messages_min_(window_messages) {}

void BandwidthMeter::start(Time now) {
  is_started_ = true;
  start_ = now;
  last_ = now;
  window_start_ = now;
}

void BandwidthMeter::add(Time now, std::uint64_t messages) {
  messages_ += messages;
  window_messages_ += messages;
  last_ = now;
  const Duration window = now - window_start_;
  if (window < kWindow || window_messages_ < window_messages_min_) return;
  best_messages_per_ns_ = std::max(best_messages_per_ns_, static_cast<double>(window_messages_) /
                                                              static_cast<double>(window.count()));
  window_start_ = now;
  window_messages_ = 0;
}

BandwidthSummary BandwidthMeter::summary() const {
  BandwidthSummary out{.iterations = messages_, .bytes = messages_ * message_bytes_};
  const double elapsed_ns = static_cast<double>((last_ - start_).count());
  if (messages_ == 0 || elapsed_ns <= 0) return out;
  const double messages_per_ns = static_cast<double>(messages_) / elapsed_ns;
  const double best = std::max(best_messages_per_ns_, messages_per_ns);
  const double mb_per_message = static_cast<double>(message_bytes_) / kBytesPerMb;
  out.elapsed_s = elapsed_ns / 1e9;
  out.average_mb_per_s = messages_per_ns * 1e9 * mb_per_message;
  out.peak_mb_per_s = best * 1e9 * mb_per_message;
  out.rate_mpps = messages_per_ns * 1e3;
  return out;
}

BandwidthSummary sum_of(const BandwidthSummary& a, const BandwidthSummary& b) {
  return BandwidthSummary{.iterations = a.iterations + b.iterations,
                          .bytes = a.bytes + b.bytes,
                          .elapsed_s = std::max(a.elapsed_s, b.elapsed_s),
                          .average_mb_per_s = a.average_mb_per_s + b.average_mb_per_s,
                          .peak_mb_per_s = a.peak_mb_per_s + b.peak_mb_per_s,
                          .rate_mpps = a.rate_mpps + b.rate_mpps};
}

}  // namespace spindrift::perf
