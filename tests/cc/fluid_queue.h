#pragma once
// The fluid model of uet.md C.1 with the real algorithm in it. Rates flow into one queue that marks
// by RED. Each flow gets a notification per 50 us with the probability that one of its packets of
// that time was marked.
//
//   flow 0 --R0--+
//   flow 1 --R1--+--> dq/dt = sum R - C,  p = RED(q) --> 1 - (1-p)^(packets in 50 us)
//
// The model has means where flows have steps: it holds for very many flows. Its fixed point depends
// on the rate per flow alone, so every flow of the table stands here `copies` times, on a link, and
// at thresholds, as many times as large.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "spindrift/congestion_control.h"

#include "transport/base/rng.h"

namespace spindrift::test {

class FluidQueue {
 public:
  struct Config {
    double gbps = 40;
    double packet_bytes = 1000;
    double mark_min_bytes = 5e3;
    double mark_max_bytes = 200e3;
    double mark_probability = 0.01;
    double copies = 50;
    std::uint64_t seed = 1;
  };

  explicit FluidQueue(const Config& config) : config_(config), rng_(config.seed) {}

  void add(std::unique_ptr<CongestionControl> cc) {
    const SendLimits limits = cc->initial();
    flows_.push_back({.cc = std::move(cc), .limits = limits});
  }

  // The 50 us of one flow begin when those of another are half over.
  void run_for(Duration duration) {
    for (const Time end = now_ + duration; now_ < end; now_ += kStep, ++step_) {
      log_unmarked_ = std::log1p(-std::min(mark_probability(), 1 - 1e-9));
      for (std::size_t i = 0; i < flows_.size(); ++i)
        flow_one_step(flows_[i], (step_ + i) % kSlotSteps == 0);
      queue_bytes_ = std::max(0.0, queue_bytes_ - bytes_at(config_.gbps * 1e9 * config_.copies));
    }
  }

  // Of one copy.
  double queue_bytes() const { return queue_bytes_ / config_.copies; }
  double mark_probability() const {
    if (queue_bytes() <= config_.mark_min_bytes) return 0;
    if (queue_bytes() > config_.mark_max_bytes) return 1;
    return config_.mark_probability * (queue_bytes() - config_.mark_min_bytes) /
           (config_.mark_max_bytes - config_.mark_min_bytes);
  }
  const CongestionControl& cc(std::size_t flow) const { return *flows_[flow].cc; }
  std::size_t flow_count() const { return flows_.size(); }

 private:
  static constexpr Duration kStep = std::chrono::microseconds(2);
  static constexpr std::size_t kSlotSteps = 25;  // the notification point's 50 us

  struct Flow {
    std::unique_ptr<CongestionControl> cc;
    SendLimits limits{};
    double bytes = 0;         // of this slot
    double log_unmarked = 0;  // logarithm of the probability that none of them is marked
  };

  static double bytes_at(double bps) { return bps / 8e9 * static_cast<double>(kStep.count()); }

  void flow_one_step(Flow& flow, bool ends_slot) {
    if (flow.limits.timer <= now_) flow.limits = flow.cc->on_signal(now_, TimerFired{});
    const double bytes = bytes_at(static_cast<double>(flow.limits.pacing_rate.bits_per_second()));
    queue_bytes_ += bytes;
    flow.bytes += bytes;
    flow.log_unmarked += bytes / config_.packet_bytes * log_unmarked_;
    if (!ends_slot) return;
    flow.limits =
        flow.cc->on_ack({.now = now_, .acked_bytes = static_cast<std::uint64_t>(flow.bytes)});
    if (rng_.chance(1 - std::exp(flow.log_unmarked)))
      flow.limits = flow.cc->on_signal(now_, CongestionNotification{});
    flow.bytes = 0;
    flow.log_unmarked = 0;
  }

  Config config_;
  Rng rng_;
  std::vector<Flow> flows_;
  double queue_bytes_ = 0;
  double log_unmarked_ = 0;  // of one packet
  Time now_{};
  std::size_t step_ = 0;
};

}  // namespace spindrift::test
