#pragma once
// Events as hostile as a seed makes them: any size, any order, any time.
#include <array>

#include "spindrift/congestion_control.h"

#include "transport/base/rng.h"

namespace spindrift::test {

inline Signal random_signal(Rng& rng) {
  switch (rng.below(5)) {
    case 0:
      return CongestionNotification{};
    case 1:
      return CreditGranted{rng.next()};
    case 2:
      return TimerFired{};
    case 3:
      return PathChanged{Duration(static_cast<std::int64_t>(rng.below(100'000))),
                         Rate::gbps(static_cast<double>(1 + rng.below(400)))};
    default:
      return LossWasSpurious{rng.next() >> rng.below(64)};
  }
}

// Any size with the same likelihood, zero and the largest among them.
inline std::uint64_t wild(Rng& rng) {
  const std::uint64_t shift = rng.below(66);
  return shift == 65 ? 0 : shift == 64 ? ~0ULL : rng.next() >> shift;
}

// Up to seven hops, often the same links again.
struct RandomPath {
  explicit RandomPath(std::uint64_t seed) {
    Rng rng(seed);
    count = rng.below(8);
    for (HopTelemetry& hop : hops)
      hop = {.tx_bytes = wild(rng),
             .timestamp_ns = wild(rng),
             .queue_bytes = static_cast<std::uint32_t>(wild(rng)),
             .link_id = static_cast<std::uint32_t>(rng.below(2)),
             .link_rate = Rate::bits_per_second(wild(rng))};
  }
  std::array<HopTelemetry, 7> hops{};
  std::size_t count = 0;
};

inline SendLimits random_event(CongestionControl& cc, Rng& rng, Time now, FlowInfo& flow) {
  const std::uint64_t kind = rng.below(10);
  if (kind == 0) {
    const Signal signal = random_signal(rng);
    if (const auto* path = std::get_if<PathChanged>(&signal)) flow.link_rate = path->link_rate;
    return cc.on_signal(now, signal);
  }
  if (kind <= 2) {
    return cc.on_loss({.now = now,
                       .newest_sent_time = now,
                       .lost_bytes = wild(rng),
                       .in_flight_bytes = wild(rng),
                       .lost_packets = static_cast<std::uint32_t>(wild(rng)),
                       .cause = static_cast<LossCause>(rng.below(4))});
  }
  const RandomPath path(static_cast<std::uint64_t>(now.time_since_epoch().count()));
  return cc.on_ack({.now = now,
                    .sent_time = now,
                    .rtt = Duration(static_cast<std::int64_t>(wild(rng))),
                    .acked_bytes = wild(rng),
                    .received_bytes = wild(rng),
                    .in_flight_bytes = wild(rng),
                    .acked_packets = static_cast<std::uint32_t>(wild(rng)),
                    .out_of_order_packets = static_cast<std::uint32_t>(wild(rng)),
                    .receiver_penalty = static_cast<std::uint8_t>(rng.below(3) * rng.below(128)),
                    .restores_window = rng.chance(0.3),
                    .is_marked = rng.chance(0.3),
                    .delivery = {.delivered_bytes = wild(rng)},
                    .telemetry = {path.hops.data(), path.count}});
}

}  // namespace spindrift::test
