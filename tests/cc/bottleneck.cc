#include "tests/cc/bottleneck.h"

#include <algorithm>

namespace spindrift::test {
namespace {

constexpr std::int64_t kNotificationSpacingPs = 50'000'000;

std::int64_t to_ps(Duration duration) {
  return duration.count() * 1000;
}

}  // namespace

void Bottleneck::add(const CcInfo& info, std::unique_ptr<CongestionControl> cc,
                     const SendLimits& limits) {
  Flow& flow = flows_.emplace_back();
  flow.info = &info;
  flow.cc = std::move(cc);
  flow.next_send_ps = now_ps_;
  const auto index = static_cast<std::uint32_t>(flows_.size() - 1);
  if (info.traits.is_receiver_driven) {
    pacer_.open(index, {.grant_bytes = 4ULL * config_.packet_bytes});
    pacer_.want(index, kNoLimit / 2);
    schedule_grant();
  }
  set_limits(index, limits);
  send(flows_.size() - 1);
}

void Bottleneck::run_for(Duration duration) {
  const std::int64_t end_ps = now_ps_ + to_ps(duration);
  while (!events_.empty() && events_.top().time_ps <= end_ps) {
    const Event event = events_.top();
    events_.pop();
    now_ps_ = event.time_ps;
    handle(event);
  }
  now_ps_ = end_ps;
}

void Bottleneck::handle(const Event& event) {
  const std::size_t index = event.packet.flow;
  Flow& flow = flows_[index];
  switch (event.kind) {
    case Kind::kServed:
      serve();
      return;
    case Kind::kGrant:
      grant();
      return;
    case Kind::kAck:
      acknowledge(event.packet);
      break;
    case Kind::kLoss:
      flow.in_flight_bytes -= config_.packet_bytes;
      ++flow.dropped_packets;
      set_limits(index, flow.cc->on_loss({.now = now(),
                                          .lost_bytes = config_.packet_bytes,
                                          .in_flight_bytes = flow.in_flight_bytes,
                                          .lost_packets = 1}));
      break;
    case Kind::kWake:
      flow.is_waiting = false;
      break;
    case Kind::kTimer:
      if (flow.limits.timer > now()) return;  // it was moved since
      flow.timer_set = kNever;
      set_limits(index, flow.cc->on_signal(now(), TimerFired{}));
      break;
  }
  send(index);
}

void Bottleneck::enqueue(std::size_t flow) {
  const Packet packet{.flow = flow, .sent_ps = now_ps_};
  if (queue_bytes() + config_.packet_bytes > config_.queue_limit_bytes) {
    schedule(now_ps_ + to_ps(config_.base_rtt), Kind::kLoss, packet);
    return;
  }
  queue_.push_back(packet);
  if (queue_.size() == 1) schedule(now_ps_ + service_ps_, Kind::kServed, packet);
}

void Bottleneck::serve() {
  Packet packet = queue_.front();
  queue_.pop_front();
  packet.is_marked = marks();
  served_bytes_ += config_.packet_bytes;
  packet.hop = {.tx_bytes = served_bytes_,
                .timestamp_ns = static_cast<std::uint64_t>(now_ps_ / 1000),
                .queue_bytes = static_cast<std::uint32_t>(queue_bytes()),
                .link_id = 1,
                .link_rate = config_.rate};
  schedule(now_ps_ + to_ps(config_.base_rtt), Kind::kAck, packet);
  if (!queue_.empty()) schedule(now_ps_ + service_ps_, Kind::kServed, queue_.front());
}

bool Bottleneck::marks() {
  const auto bytes = static_cast<double>(queue_bytes());
  if (bytes <= config_.mark_min_bytes) return false;
  if (bytes > config_.mark_max_bytes) return true;
  return rng_.chance(config_.mark_probability * (bytes - config_.mark_min_bytes) /
                     (config_.mark_max_bytes - config_.mark_min_bytes));
}

void Bottleneck::acknowledge(const Packet& packet) {
  Flow& flow = flows_[packet.flow];
  flow.in_flight_bytes -= config_.packet_bytes;
  flow.delivered_bytes += config_.packet_bytes;
  const bool may_notify = now_ps_ - flow.last_notification_ps >= kNotificationSpacingPs;
  if (packet.is_marked && flow.info->traits.needs_cnp && may_notify) {
    flow.last_notification_ps = now_ps_;
    set_limits(packet.flow, flow.cc->on_signal(now(), CongestionNotification{}));
  }
  set_limits(packet.flow, flow.cc->on_ack({.now = now(),
                                           .sent_time = Time(Duration(packet.sent_ps / 1000)),
                                           .rtt = Duration((now_ps_ - packet.sent_ps) / 1000),
                                           .acked_bytes = config_.packet_bytes,
                                           .received_bytes = config_.packet_bytes,
                                           .in_flight_bytes = flow.in_flight_bytes,
                                           .acked_packets = 1,
                                           .is_marked = packet.is_marked,
                                           .telemetry = {&packet.hop, 1}}));
}

void Bottleneck::set_limits(std::size_t index, const SendLimits& limits) {
  Flow& flow = flows_[index];
  flow.limits = limits;
  if (limits.timer == kNever || limits.timer == flow.timer_set) return;
  flow.timer_set = limits.timer;
  schedule(std::max(now_ps_, to_ps(limits.timer.time_since_epoch())), Kind::kTimer,
           {.flow = index});
}

void Bottleneck::schedule_grant() {
  if (is_grant_scheduled_ || pacer_.next() == kNever) return;
  is_grant_scheduled_ = true;
  schedule(std::max(now_ps_, to_ps(pacer_.next().time_since_epoch())), Kind::kGrant, {});
}

void Bottleneck::grant() {
  is_grant_scheduled_ = false;
  pacer_.run(now(), [this](std::uint32_t index) {
    const CreditGranted credit{pacer_.granted_bytes(index)};
    set_limits(index, flows_[index].cc->on_signal(now(), credit));
    send(index);
  });
  schedule_grant();
}

void Bottleneck::send(std::size_t index) {
  Flow& flow = flows_[index];
  while (flow.in_flight_bytes + config_.packet_bytes <= flow.limits.window_bytes &&
         flow.sent_bytes + config_.packet_bytes <= flow.limits.credit_bytes) {
    if (!flow.limits.pacing_rate.is_unlimited()) {
      if (flow.next_send_ps > now_ps_) {
        // One wake-up per flow at a time, else they would multiply with every acknowledgement.
        if (!flow.is_waiting) {
          flow.is_waiting = true;
          schedule(flow.next_send_ps, Kind::kWake, {.flow = index});
        }
        return;
      }
      flow.next_send_ps =
          std::max(flow.next_send_ps, now_ps_ - service_ps_) +
          static_cast<std::int64_t>(flow.limits.pacing_rate.picoseconds_for(config_.packet_bytes));
    }
    flow.in_flight_bytes += config_.packet_bytes;
    flow.sent_bytes += config_.packet_bytes;
    enqueue(index);
  }
}

}  // namespace spindrift::test
