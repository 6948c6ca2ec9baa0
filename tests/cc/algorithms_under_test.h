#pragma once
// Every congestion control algorithm that ships, and a driver that plays the transport's part.
#include <algorithm>
#include <cmath>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cc/algorithms.h"

namespace spindrift {
inline void PrintTo(const CcInfo* info, std::ostream* out) {
  *out << info->name;
}
}  // namespace spindrift

namespace spindrift::test {

using std::chrono::microseconds;

inline const CcInfo* const kAlgorithms[] = {&kFixedWindow,    &kDcqcn, &kNscc,
                                            &kDctcp,          &kSwift, &kTimely,
                                            &kReceiverCredit, &kHpcc,  &kNsccReceiverCredit};

// As GoogleTest wants names.
inline std::string test_name(const ::testing::TestParamInfo<const CcInfo*>& param) {
  std::string name(param.param->name);
  std::replace(name.begin(), name.end(), '+', '_');
  return name;
}

inline std::vector<double> default_values(const CcInfo& info) {
  std::vector<double> values;
  for (const ParameterInfo& parameter : info.parameters)
    values.push_back(parameter.default_value);
  return values;
}

inline std::unique_ptr<CongestionControl> make_default(const CcInfo& info, const FlowInfo& flow) {
  return info.make(flow, default_values(info));
}

// 100 Gb/s and 12 us: the network the Ultra Ethernet constants were made for.
inline FlowInfo reference_flow() {
  return {.now = Time(Duration{0}),
          .base_rtt = microseconds(12),
          .link_rate = Rate::gbps(100),
          .mtu_bytes = 4160,
          .max_window_bytes = 8'000'000};
}

class StateCollector final : public StateWriter {
 public:
  explicit StateCollector(const CongestionControl& cc) { cc.describe(*this); }
  void field(std::string_view name, double value) override {
    fields.emplace_back(std::string(name), value);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& field : fields)
      result.push_back(field.first);
    return result;
  }
  std::vector<std::pair<std::string, double>> fields;
};

inline double state_of(const CongestionControl& cc, std::string_view name) {
  const StateCollector state(cc);
  for (const auto& field : state.fields) {
    if (field.first == name) return field.second;
  }
  ADD_FAILURE() << "no state named " << name;
  return std::nan("");
}

// Acknowledges what an algorithm allows, RTT by RTT, as a network of the test's choice would.
class Driver {
 public:
  Driver(const CcInfo& info, const FlowInfo& flow)
      : info_(info), flow_(flow), cc_(make_default(info, flow)), limits_(cc_->initial()) {
    now_ = flow.now;
  }

  struct Weather {
    Duration delay{};
    bool is_marked = false;
    double lost_share = 0;  // of the bytes of one RTT
  };

  // Acknowledges all that was in flight when the RTT began; the sender refills as it may.
  void run_rtt(const Weather& weather) {
    const Duration rtt = flow_.base_rtt + weather.delay;
    refill(rtt);
    const double to_ack = in_flight_bytes_ * (1 - weather.lost_share);
    const double to_lose = in_flight_bytes_ * weather.lost_share;
    const int packets =
        std::clamp(static_cast<int>(to_ack / static_cast<double>(flow_.mtu_bytes)), 1, 32);
    for (int i = 0; i < packets; ++i) {
      advance(rtt / packets);
      in_flight_bytes_ -= to_ack / packets;
      ack(static_cast<std::uint64_t>(to_ack / packets), rtt, weather.is_marked);
      refill(rtt);
    }
    if (to_lose < 1) return;
    in_flight_bytes_ -= to_lose;
    lose(static_cast<std::uint64_t>(to_lose));
  }

  void advance(Duration duration) {
    const Time end = now_ + duration;
    while (limits_.timer <= end) {
      now_ = std::max(now_, limits_.timer);
      limits_ = cc_->on_signal(now_, TimerFired{});
    }
    now_ = end;
  }

  void ack(std::uint64_t bytes, Duration rtt, bool is_marked) {
    if (info_.traits.needs_cnp) {
      if (is_marked && now_ - last_notification_ >= microseconds(50)) {
        limits_ = cc_->on_signal(now_, CongestionNotification{});
        last_notification_ = now_;
      }
    }
    const HopTelemetry hop = link_state(bytes, rtt);
    limits_ = cc_->on_ack({.now = now_,
                           .sent_time = now_ - rtt,
                           .rtt = rtt,
                           .acked_bytes = bytes,
                           .received_bytes = bytes,
                           .in_flight_bytes = static_cast<std::uint64_t>(in_flight_bytes_),
                           .acked_packets = 1,
                           .is_marked = is_marked,
                           .telemetry = {&hop, 1}});
    if (info_.traits.is_receiver_driven) grant(bytes);
  }

  // What a receiver grants that has the link to itself.
  void grant(std::uint64_t bytes) {
    granted_bytes_ += bytes;
    limits_ = cc_->on_signal(now_, CreditGranted{granted_bytes_});
  }

  void lose(std::uint64_t bytes, LossCause cause = LossCause::kReordered) {
    limits_ = cc_->on_loss({.now = now_, .lost_bytes = bytes, .lost_packets = 1, .cause = cause});
  }

  double allowed_bytes(Duration rtt) const {
    double bytes = static_cast<double>(limits_.window_bytes);
    if (!limits_.pacing_rate.is_unlimited()) bytes = std::min(bytes, rate_bytes(limits_, rtt));
    return std::max({1.0, std::min(bytes, rate_bytes({.pacing_rate = flow_.link_rate}, rtt))});
  }
  const SendLimits& limits() const { return limits_; }
  const CongestionControl& cc() const { return *cc_; }
  Time now() const { return now_; }

 private:
  void refill(Duration rtt) { in_flight_bytes_ = std::max(in_flight_bytes_, allowed_bytes(rtt)); }
  // A link that has sent these bytes since the last acknowledgement, or, with a queue before it, as
  // many as it can.
  HopTelemetry link_state(std::uint64_t bytes, Duration rtt) {
    const Duration queued = rtt - flow_.base_rtt;
    const double most = rate_bytes({.pacing_rate = flow_.link_rate}, now_ - last_hop_);
    tx_bytes_ += queued > Duration{} ? static_cast<std::uint64_t>(most) : bytes;
    last_hop_ = now_;
    return {.tx_bytes = tx_bytes_,
            .timestamp_ns = static_cast<std::uint64_t>(now_.time_since_epoch().count()),
            .queue_bytes =
                static_cast<std::uint32_t>(rate_bytes({.pacing_rate = flow_.link_rate}, queued)),
            .link_id = 1,
            .link_rate = flow_.link_rate};
  }
  static double rate_bytes(const SendLimits& limits, Duration rtt) {
    return static_cast<double>(limits.pacing_rate.bits_per_second()) / 8e9 *
           static_cast<double>(rtt.count());
  }

  const CcInfo& info_;
  FlowInfo flow_;
  std::unique_ptr<CongestionControl> cc_;
  SendLimits limits_;
  double in_flight_bytes_ = 0;
  std::uint64_t granted_bytes_ = 0;
  std::uint64_t tx_bytes_ = 0;
  Time last_hop_{};
  Time now_{};
  Time last_notification_{std::chrono::seconds(-1)};
};

}  // namespace spindrift::test
