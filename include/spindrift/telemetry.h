#pragma once
// What one link on a packet's way says of itself (in-band telemetry).
#include <cstdint>

#include "spindrift/types.h"

namespace spindrift {

// In the order of the path, the sender's first switch first.
struct HopTelemetry {
  std::uint64_t tx_bytes = 0;  // ever sent on the link, modulo 2^64
  std::uint64_t timestamp_ns = 0;
  std::uint32_t queue_bytes = 0;  // waiting for it as the packet left
  std::uint32_t link_id = 0;      // tells links apart: paths may change between packets
  Rate link_rate{};
};

}  // namespace spindrift
