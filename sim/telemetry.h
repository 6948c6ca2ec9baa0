#pragma once
// In-band telemetry: what switches write into data packets, and how it comes back. The receiving
// NIC copies what a packet met into the acknowledgement that names this packet; it travels with it,
// and is lost with it.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "spindrift/telemetry.h"

namespace spindrift::sim {

// Every frame is longer by this much where telemetry is on: 2 bytes and 8 for each of five links
// (Li et al., "HPCC", SIGCOMM 2019, section 4.1), in data packets to be written, in
// acknowledgements to be brought back.
inline constexpr std::uint32_t kTelemetryBytes = 42;

struct TelemetryStack {
  static constexpr std::size_t kMaxHops = 5;  // later ones find no room
  std::array<HopTelemetry, kMaxHops> hops{};
  std::uint32_t count = 0;

  void push(const HopTelemetry& hop) {
    if (count < kMaxHops) hops[count++] = hop;
  }
  std::span<const HopTelemetry> view() const { return {hops.data(), count}; }
};

// Names a data packet among those that reach one host.
struct TelemetryKey {
  std::uint16_t sender_host = 0;
  std::uint16_t sender_pdcid = 0;
  std::uint32_t psn = 0;
};

// What the packets met that reached one host last, by key. Bounded: where two share a place the
// older one is forgotten, and its acknowledgement carries nothing.
class TelemetryMemory {
 public:
  // May be 0: nothing is ever kept.
  explicit TelemetryMemory(std::size_t places) : places_(places) {}

  void keep(const TelemetryKey& key, const TelemetryStack& met);
  // Null: it is not known (any more).
  const TelemetryStack* find(const TelemetryKey& key) const;

 private:
  struct Place {
    std::uint64_t key = 0;
    TelemetryStack met{};
  };
  static std::uint64_t packed(const TelemetryKey& key) {
    return std::uint64_t{key.sender_host} << 48 | std::uint64_t{key.sender_pdcid} << 32 | key.psn;
  }
  std::size_t place_of(std::uint64_t key) const {
    return static_cast<std::size_t>(((key ^ (key >> 29)) * 0xBF58476D1CE4E5B9ULL) >> 33) %
           places_.size();
  }

  std::vector<Place> places_;
};

}  // namespace spindrift::sim
