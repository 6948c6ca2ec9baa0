#pragma once
// Which faults to inject, and their spelling on a command line.
#include <cstdint>
#include <string_view>
#include <vector>

#include "spindrift/result.h"
#include "spindrift/types.h"

namespace spindrift {

// Inclusive.
struct FaultRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0xffff;
  bool contains(std::uint16_t value) const { return value >= first && value <= last; }
};

struct Blackhole {
  FaultRange entropies{};
  Duration start{};  // after the faults were set
  Duration length{};
};

// Probabilities 0..1 per packet. Default: nothing happens.
struct FaultConfig {
  double loss = 0;
  double duplicate = 0;  // sent twice
  double reorder = 0;    // held back until reorder_packets others have passed or reorder_time has
  double corrupt = 0;    // one to three bits flipped
  std::uint16_t reorder_packets = 3;                     // 1..1024
  Duration reorder_time = std::chrono::milliseconds(1);  // up to 10 s
  Duration delay{};                                      // of every packet, up to 10 s
  Duration jitter{};                                     // 0..jitter more, up to 10 s
  std::vector<Blackhole> blackholes{};
  // Only packets that leave these rails with these entropies are touched at all.
  FaultRange rails{};
  FaultRange entropies{};
  std::uint64_t seed = 1;
};

// "loss=1%,duplicate=0.5%,reorder=5%,corrupt=1%,delay=100us,jitter=50us,blackhole=ev3@100ms+2s,
// seed=7,paths=0-3,rails=0,reorder_packets=3,reorder_time=1ms". Probabilities are percentages or
// fractions, times have a unit (ns, us, ms, s), `blackhole` may be repeated and takes one entropy
// or a range (ev0-7@0s+1s).
Result<FaultConfig> parse_fault_spec(std::string_view spec);

}  // namespace spindrift
