#include "sim/path_time.h"

#include <algorithm>

#include "sim/lane_packet.h"

namespace spindrift::sim {
namespace {

// An acknowledgement: PDS with congestion state, and the SES response.
constexpr std::uint64_t kAckBytes = 32 + 12;
// PDS and SES header of a data packet, and its CRC.
constexpr std::uint64_t kDataHeaderBytes = 12 + 44;
constexpr std::uint64_t kCrcBytes = 4;
// An acknowledgement of a lane.
constexpr std::uint64_t kLaneAck = kLaneHeaderBytes + kLaneAckBytes;

Picoseconds way_back(const Network& network, std::span<const std::uint32_t> path,
                     std::uint64_t bytes) {
  Picoseconds sum = 0;
  for (const std::uint32_t port : path)
    sum += network.transmission(port ^ 1U, bytes) + network.delay_of(port ^ 1U);
  return sum;
}

}  // namespace

FlowFrames frames_of(const TransportSpec& transport, std::uint64_t bytes) {
  const bool is_lane = transport.engine == Engine::kLanes;
  const std::uint64_t headers = is_lane ? kLaneHeaderBytes : kDataHeaderBytes;
  const std::uint64_t crc = transport.has_crc ? kCrcBytes : 0;
  const auto frame = [&](std::uint64_t udp_payload) {
    return std::max<std::uint64_t>(udp_payload + crc + transport.frame_overhead_bytes,
                                   transport.min_frame_bytes);
  };
  FlowFrames out;
  out.full = frame(headers + transport.payload_mtu);
  out.count = bytes / transport.payload_mtu;
  const std::uint64_t rest = bytes % transport.payload_mtu;
  out.last = rest == 0 ? 0 : frame(headers + rest);
  out.ack = frame(is_lane ? kLaneAck : kAckBytes);
  return out;
}

Picoseconds ideal_time(const Network& network, std::span<const std::uint32_t> path,
                       const FlowFrames& frames) {
  Picoseconds full_arrives = 0;  // last bit of the last full packet
  Picoseconds last_arrives = 0;
  Picoseconds slowest = 0;
  Picoseconds first = 0;  // last bit of the first full packet
  for (const std::uint32_t port : path) {
    const Picoseconds full = network.transmission(port, frames.full);
    const Picoseconds delay = network.delay_of(port);
    slowest = std::max(slowest, full);
    first += full;
    const Picoseconds full_leaves =
        frames.count == 0 ? 0 : first + static_cast<Picoseconds>(frames.count - 1) * slowest;
    if (frames.last != 0)
      last_arrives =
          std::max(last_arrives, full_leaves) + network.transmission(port, frames.last) + delay;
    first += delay;
    full_arrives = full_leaves + delay;
  }
  return (frames.last != 0 ? last_arrives : full_arrives) + way_back(network, path, frames.ack);
}

Picoseconds base_rtt(const Network& network, std::span<const std::uint32_t> path,
                     const FlowFrames& frames) {
  return ideal_time(network, path, {.full = frames.full, .count = 1, .ack = frames.ack});
}

}  // namespace spindrift::sim
