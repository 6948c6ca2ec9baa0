#pragma once
// Vocabulary types: time, rate, identifiers. Header-only, no dependencies.
#include <chrono>
#include <compare>
#include <cstdint>
#include <limits>

namespace spindrift {

// A clock type without now(): protocol code receives time, it cannot read it.
struct TransportClock {
  using rep = std::int64_t;
  using period = std::nano;
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::time_point<TransportClock>;
  static constexpr bool is_steady = true;
};
using Duration = TransportClock::duration;
using Time = TransportClock::time_point;
inline constexpr Time kNever = Time::max();

// Bits per second. Zero means "not paced".
class Rate {
 public:
  constexpr Rate() = default;
  static constexpr Rate bits_per_second(std::uint64_t v) { return Rate(v); }
  static constexpr Rate gbps(double v) { return Rate(static_cast<std::uint64_t>(v * 1e9)); }
  constexpr std::uint64_t bits_per_second() const { return bps_; }
  constexpr bool is_unlimited() const { return bps_ == 0; }
  // Rounds up: pacing never sends early. Picoseconds, because 64 B at 800 Gb/s is 0.64 ns.
  // The rate must not be unlimited.
  constexpr std::uint64_t picoseconds_for(std::uint64_t bytes) const {
    const auto bit_ps = static_cast<unsigned __int128>(bytes) * 8'000'000'000'000ULL;
    return static_cast<std::uint64_t>((bit_ps + bps_ - 1) / bps_);
  }
  constexpr auto operator<=>(const Rate&) const = default;

 private:
  explicit constexpr Rate(std::uint64_t v) : bps_(v) {}
  std::uint64_t bps_ = 0;
};

template <class Tag, class Rep>
struct Id {
  Rep value{};
  constexpr auto operator<=>(const Id&) const = default;
};
// A connection of one endpoint: index and generation, so that an old id never names a new one.
// Zero is never a connection.
using ConnId = Id<struct ConnTag, std::uint32_t>;
using ListenerId = Id<struct ListenerTag, std::uint32_t>;
using SharedQueueId = Id<struct SharedQueueTag, std::uint32_t>;  // zero: none
using PathId = Id<struct PathTag, std::uint16_t>;                // 0..path count - 1
using Psn = Id<struct PsnTag, std::uint64_t>;                    // per direction, never reused
using PathSeq = Id<struct PathSeqTag, std::uint64_t>;            // send order on one path

inline constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();
inline constexpr std::size_t kMaxPaths = 256;  // entropy values per connection

}  // namespace spindrift
