#pragma once
// What arithmetic says about an idle network.
#include <cstdint>
#include <span>

#include "sim/network.h"

namespace spindrift::sim {

// Sizes on the wire.
struct FlowFrames {
  std::uint64_t full = 0;   // a packet with a whole payload
  std::uint64_t count = 0;  // of them
  std::uint64_t last = 0;   // the last, shorter packet; 0: none
  std::uint64_t ack = 0;
};
FlowFrames frames_of(const TransportSpec& transport, std::uint64_t bytes);

// From the first bit at the sender to the last bit of the acknowledgement of all, when nothing else
// is on the way: packets follow each other at the pace of the slowest link.
Picoseconds ideal_time(const Network& network, std::span<const std::uint32_t> path,
                       const FlowFrames& frames);
// A full packet there, its acknowledgement back.
Picoseconds base_rtt(const Network& network, std::span<const std::uint32_t> path,
                     const FlowFrames& frames);

}  // namespace spindrift::sim
