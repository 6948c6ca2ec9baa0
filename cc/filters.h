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

// Bytes that fit the path at full rate.
inline double bdp_bytes(Rate link_rate, Duration rtt) {
  return static_cast<double>(link_rate.bits_per_second()) / 8.0 * 1e-6 * to_us(rtt);
}

// The largest window a flow may have; at least one packet.
inline double window_cap_bytes(const FlowInfo& flow) {
  return std::max(bytes_of(flow.max_window_bytes), static_cast<double>(flow.mtu_bytes));
}

}  // namespace spindrift
