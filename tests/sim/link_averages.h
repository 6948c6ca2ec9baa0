#pragma once
// What one direction of a link carries and queues, measured over a part of a run.
#include <functional>
#include <string>
#include <utility>

#include "sim/observer.h"
#include "sim/packet_pool.h"

namespace spindrift::sim {

class LinkAverages final : public RunObserver {
 public:
  struct Span {
    Picoseconds from = 0;
    Picoseconds to = kEndOfTime;
  };
  LinkAverages(std::string from, std::string to, const Span& span)
      : from_(std::move(from)), to_(std::move(to)), span_(span) {}

  std::optional<Complaint> begin(const NetworkPlan& plan,
                                 std::span<const FlowRecord> /*flows*/) override {
    for (std::uint32_t port = 0; port < 2 * plan.links.size(); ++port)
      if (plan.nodes[plan.near_end(port)].name == from_ &&
          plan.nodes[plan.far_end(port)].name == to_)
        port_ = port;
    return std::nullopt;
  }
  void on_packet(const PacketEvent& event) override {
    if (event.port != port_ || event.at < span_.from || event.at >= span_.to) return;
    if (event.kind == EventKind::kMark) ++marks_;
    if (event.kind != EventKind::kDequeue || event.packet->traffic != TrafficClass::kData) return;
    ++packets_;
    bytes_ += event.packet->wire_bytes;
    queue_sum_ += static_cast<double>(event.queue_bytes);
    queue_max_ = std::max(queue_max_, event.queue_bytes);
    if (on_departure) on_departure();
  }
  void on_port(const PortEvent& /*event*/) override {}
  void on_flow(const FlowEvent& /*event*/) override {}

  // As packets leave: what waits behind them.
  double mean_queue_bytes() const { return queue_sum_ / static_cast<double>(packets_); }
  std::uint64_t max_queue_bytes() const { return queue_max_; }
  double marked_share() const {
    return static_cast<double>(marks_) / static_cast<double>(packets_);
  }
  std::uint64_t packets() const { return packets_; }
  std::uint64_t bytes() const { return bytes_; }

  std::function<void()> on_departure{};

 private:
  std::string from_;
  std::string to_;
  Span span_;
  std::uint32_t port_ = 0xffffffff;
  std::uint64_t packets_ = 0;
  std::uint64_t marks_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t queue_max_ = 0;
  double queue_sum_ = 0;
};

}  // namespace spindrift::sim
