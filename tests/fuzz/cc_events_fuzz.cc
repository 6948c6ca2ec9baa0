// Operation lists over every congestion control algorithm: whatever the events say, the limits stay
// sane. The first bytes choose the algorithm and the network; each later group is one event.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "spindrift/congestion_control.h"

#include "cc/algorithms.h"
#include "tests/fuzz/input.h"
#include "transport/base/check.h"

namespace spindrift {
namespace {

using Hops = std::array<HopTelemetry, 6>;

std::span<const HopTelemetry> telemetry(FuzzInput& in, Hops& hops) {
  const std::size_t count = in.u8() % (hops.size() + 1);
  for (std::size_t i = 0; i < count; ++i)
    hops[i] = {.tx_bytes = in.u64(),
               .timestamp_ns = in.u64(),
               .queue_bytes = in.u32(),
               .link_id = in.u8() % 2U,
               .link_rate = in.rate()};
  return {hops.data(), count};
}

AckEvent ack_event(FuzzInput& in, Time now, const FlowInfo& flow, Hops& hops) {
  AckEvent event;
  event.now = now;
  event.sent_time = now - in.duration();
  event.rtt = in.duration();
  event.acked_bytes = in.u32();
  event.received_bytes = in.u32();
  event.in_flight_bytes = in.u32();
  event.acked_packets = static_cast<std::uint32_t>(event.acked_bytes / flow.mtu_bytes + 1);
  event.out_of_order_packets = in.u8();
  event.receiver_penalty = in.u8() & 127;
  const std::uint8_t flags = in.u8();
  event.restores_window = (flags & 1) != 0;
  event.is_marked = (flags & 2) != 0;
  event.delivery = {
      .delivered_bytes = in.u32(), .interval = in.duration(), .is_app_limited = (flags & 4) != 0};
  if ((flags & 8) != 0) event.telemetry = telemetry(in, hops);
  return event;
}

LossEvent loss_event(FuzzInput& in, Time now) {
  LossEvent event;
  event.now = now;
  event.newest_sent_time = now - in.duration();
  event.lost_bytes = in.u32();
  event.in_flight_bytes = in.u32();
  event.lost_packets = in.u8() + 1U;
  event.cause = static_cast<LossCause>(in.u8() % 4);
  return event;
}

// A changed path is noted in `flow`.
Signal signal_of(FuzzInput& in, FlowInfo& flow) {
  switch (in.u8() % 5) {
    case 0:
      return CongestionNotification{};
    case 1:
      return CreditGranted{.credit_bytes = in.u64()};
    case 2:
      flow.base_rtt = in.duration();
      flow.link_rate = in.rate();
      return PathChanged{.base_rtt = flow.base_rtt, .link_rate = flow.link_rate};
    case 3:
      return LossWasSpurious{.bytes = in.u32()};
    default:
      return TimerFired{};
  }
}

void check_sane(const SendLimits& limits, Time now, const FlowInfo& flow) {
  SPINDRIFT_CHECK(limits.window_bytes >= flow.mtu_bytes);
  SPINDRIFT_CHECK(limits.timer > now);
  SPINDRIFT_CHECK(flow.link_rate.is_unlimited() || limits.pacing_rate <= flow.link_rate);
}

FlowInfo flow_info(FuzzInput& in) {
  FlowInfo flow;
  flow.base_rtt = in.duration();
  flow.link_rate = in.rate();
  flow.mtu_bytes = 64 + in.u32() % 16384;
  if ((in.u8() & 1) != 0) flow.max_window_bytes = flow.mtu_bytes + std::uint64_t{in.u32()};
  return flow;
}

void run(FuzzInput in) {
  static constexpr std::array kAlgorithms{
      &kFixedWindow,        &kDcqcn, &kNscc, &kDctcp, &kSwift, &kTimely, &kReceiverCredit,
      &kNsccReceiverCredit, &kHpcc};
  const CcInfo& info = *kAlgorithms[in.u8() % kAlgorithms.size()];
  std::vector<double> values;
  for (const ParameterInfo& parameter : info.parameters)
    values.push_back(parameter.default_value);
  FlowInfo flow = flow_info(in);
  Time now{std::chrono::hours(1)};
  flow.now = now;
  const auto algorithm = info.make(flow, values);
  SendLimits limits = algorithm->initial();
  Hops hops{};
  check_sane(limits, now, flow);
  for (int i = 0; i < 256 && !in.is_empty(); ++i) {
    now += in.duration() % std::chrono::hours(1);
    const std::uint8_t kind = in.u8() % 8;
    if (kind < 5) {
      limits = algorithm->on_ack(ack_event(in, now, flow, hops));
    } else if (kind < 7) {
      limits = algorithm->on_loss(loss_event(in, now));
    } else {
      limits = algorithm->on_signal(now, signal_of(in, flow));
    }
    check_sane(limits, now, flow);
  }
}

}  // namespace
}  // namespace spindrift

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  spindrift::run(spindrift::FuzzInput(std::span(data, bytes)));
  return 0;
}
