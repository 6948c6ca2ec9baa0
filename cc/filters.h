#pragma once
// Arithmetic shared by the algorithms: conversions that survive absurd numbers.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "spindrift/congestion_control.h"

namespace spindrift {

// Far above any window or rate, far below where double or uint64_t lose their meaning.
inline constexpr double kHuge = 0x1p60;

inline double to_us(Duration duration) {
  return static_cast<double>(duration.count()) * 1e-3;
}

inline Duration from_us(double us) {
  return Duration(static_cast<std::int64_t>(std::clamp(us * 1e3, 0.0, kHuge)));
}

// Not NaN, not infinite, within 0..kHuge.
inline double bounded(double value) {
  return value > 0 ? std::min(value, kHuge) : 0.0;
}

inline double bytes_of(std::uint64_t bytes) {
  return bounded(static_cast<double>(bytes));
}

// Never into the past and never beyond kNever.
inline Time after(Time now, Duration delay) {
  delay = std::max(delay, Duration{1});
  return now.time_since_epoch() > Duration::max() - delay ? kNever : now + delay;
}

// Where the transport knows no link rate and no RTT.
inline constexpr std::uint64_t kUnknownLinkBps = 100'000'000'000;
inline constexpr Duration kUnknownRtt = std::chrono::microseconds(12);

inline double usable_bps(Rate rate) {
  return static_cast<double>(rate.is_unlimited() ? kUnknownLinkBps : rate.bits_per_second());
}

// Shorter RTTs than what the hosts themselves add are luck.
inline Duration usable_rtt(Duration base_rtt, Duration host_latency) {
  return std::max(base_rtt > Duration{} ? base_rtt : kUnknownRtt, host_latency);
}

// Slower, and one packet would take seconds.
inline constexpr double kSlowestBps = 1e6;

// For SendLimits: within kSlowestBps..link, or the link where that is slower still.
inline Rate pacing_rate(double bps, double link_bps) {
  const double bounded_bps = std::clamp(bps, std::min(kSlowestBps, link_bps), link_bps);
  return Rate::bits_per_second(std::max<std::uint64_t>(1, static_cast<std::uint64_t>(bounded_bps)));
}

// Bytes that fit the path at full rate.
inline double bdp_bytes(Rate link_rate, Duration rtt) {
  return static_cast<double>(link_rate.bits_per_second()) / 8.0 * 1e-6 * to_us(rtt);
}

// The largest window a flow may have; at least one packet.
inline double window_cap_bytes(const FlowInfo& flow) {
  return std::max(bytes_of(flow.max_window_bytes), static_cast<double>(flow.mtu_bytes));
}

}  // namespace spindrift
