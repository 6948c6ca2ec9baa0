#pragma once
// Packets of several flows through one FIFO queue with ECN: just enough network to see whether
// flows share it.
//
// A flow that is receiver-driven gets its credit from the pacer that endpoints have.
//
//   flow 0 --+
//   flow 1 --+--> [ queue, marks on dequeue ] --> receiver --base RTT--> acknowledgements
#include <cstdint>
#include <deque>
#include <memory>
#include <queue>
#include <vector>

#include "spindrift/congestion_control.h"

#include "transport/base/rng.h"
#include "transport/credit_pacer.h"

namespace spindrift::test {

class Bottleneck {
 public:
  struct Config {
    Rate rate = Rate::gbps(40);
    Duration base_rtt = std::chrono::microseconds(4);
    std::uint32_t packet_bytes = 1000;
    double mark_min_bytes = 5e3;  // RED: none below, mark_probability at mark_max_bytes, then all
    double mark_max_bytes = 200e3;
    double mark_probability = 0.01;
    std::uint64_t queue_limit_bytes = 4'000'000;
    std::uint64_t seed = 1;
  };
  struct Flow {
    const CcInfo* info = nullptr;
    std::unique_ptr<CongestionControl> cc;
    SendLimits limits{};
    std::uint64_t in_flight_bytes = 0;
    std::uint64_t sent_bytes = 0;
    std::uint64_t delivered_bytes = 0;
    std::uint64_t dropped_packets = 0;
    std::int64_t next_send_ps = 0;
    std::int64_t last_notification_ps = -1'000'000'000'000;
    bool is_waiting = false;  // for its pacing
    Time timer_set = kNever;
  };

  explicit Bottleneck(const Config& config)
      : config_(config),
        service_ps_(static_cast<std::int64_t>(config.rate.picoseconds_for(config.packet_bytes))),
        rng_(config.seed) {
    pacer_.set_link_rate(config.rate);
  }

  FlowInfo flow_info() const {
    return {.now = now(),
            .base_rtt = config_.base_rtt + Duration((service_ps_ + 999) / 1000),
            .link_rate = config_.rate,
            .mtu_bytes = config_.packet_bytes,
            .max_window_bytes = config_.queue_limit_bytes};
  }
  // The flow begins now, with the limits that `cc` has come to.
  void add(const CcInfo& info, std::unique_ptr<CongestionControl> cc, const SendLimits& limits);
  void run_for(Duration duration);

  Time now() const { return Time(Duration(now_ps_ / 1000)); }
  const Flow& flow(std::size_t index) const { return flows_[index]; }
  std::size_t flow_count() const { return flows_.size(); }
  std::uint64_t queue_bytes() const { return queue_.size() * config_.packet_bytes; }

 private:
  enum class Kind : std::uint8_t { kServed, kAck, kLoss, kWake, kTimer, kGrant };
  struct Packet {
    std::size_t flow = 0;
    std::int64_t sent_ps = 0;
    bool is_marked = false;
    HopTelemetry hop{};
  };
  struct Event {
    std::int64_t time_ps = 0;
    std::uint64_t order = 0;
    Kind kind = Kind::kWake;
    Packet packet{};
    bool operator<(const Event& other) const {
      return time_ps != other.time_ps ? time_ps > other.time_ps : order > other.order;
    }
  };

  void schedule(std::int64_t time_ps, Kind kind, Packet packet) {
    events_.push({time_ps, order_++, kind, packet});
  }
  void handle(const Event& event);
  void enqueue(std::size_t flow);
  void serve();
  void acknowledge(const Packet& packet);
  void send(std::size_t flow);
  void grant();
  void schedule_grant();
  void set_limits(std::size_t flow, const SendLimits& limits);
  bool marks();

  Config config_;
  std::int64_t service_ps_;
  Rng rng_;
  CreditPacer pacer_{16};
  bool is_grant_scheduled_ = false;
  std::vector<Flow> flows_;
  std::deque<Packet> queue_;
  std::priority_queue<Event> events_;
  std::uint64_t order_ = 0;
  std::int64_t now_ps_ = 0;
  std::uint64_t served_bytes_ = 0;
};

}  // namespace spindrift::test
