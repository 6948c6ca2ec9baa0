#pragma once
// Network time: whole picoseconds, because 64 B at 800 Gb/s take 640 of them. Endpoints count
// nanoseconds and are told a time rounded up, so that nothing they do is early.
#include <cstdint>
#include <limits>

#include "spindrift/types.h"

namespace spindrift::sim {

// A time or an interval; 106 days fit.
using Picoseconds = std::int64_t;
inline constexpr Picoseconds kNanosecond = 1'000;
inline constexpr Picoseconds kMicrosecond = 1'000'000;
inline constexpr Picoseconds kMillisecond = 1'000'000'000;
inline constexpr Picoseconds kSecond = 1'000'000'000'000;
inline constexpr Picoseconds kEndOfTime = std::numeric_limits<Picoseconds>::max();

constexpr Time to_transport_time(Picoseconds at) {
  return Time(Duration((at + kNanosecond - 1) / kNanosecond));
}
// kEndOfTime for kNever and what lies beyond.
constexpr Picoseconds to_network_time(Time at) {
  const std::int64_t ns = at.time_since_epoch().count();
  return ns > kEndOfTime / kNanosecond ? kEndOfTime : ns * kNanosecond;
}

}  // namespace spindrift::sim
