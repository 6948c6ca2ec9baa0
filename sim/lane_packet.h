#pragma once
// What stands at the front of a lane's packet. The network counts what RoCEv2 would take instead.
#include <array>
#include <cstdint>

#include "spindrift/provider.h"

#include "sim/lane.h"

namespace spindrift::sim {

enum class LanePacketKind : std::uint8_t { kData, kAck, kNak };

// Where the connection's own messages travel.
inline constexpr std::uint16_t kControlLane = 0xffff;

// Of a host at once; numbers on the wire are modulo this.
inline constexpr std::uint32_t kMostConnections = 1U << 20U;

struct LaneHeader {
  LanePacketKind kind = LanePacketKind::kData;
  LaneMessageKind message_kind = LaneMessageKind::kMessage;
  std::uint8_t header_bytes = 0;
  bool is_last = false;
  bool wants_ack = false;
  bool is_carried = false;
  std::uint16_t lane = 0;
  std::uint16_t message_lane = 0;
  std::uint16_t era = 0;   // of the lane, in this direction; of acknowledgements: in the other
  std::uint32_t to = 0;    // the connection's number there, and one more; 0: not known yet
  std::uint32_t from = 0;  // ... here
  std::uint32_t payload_bytes = 0;
  std::uint32_t offset = 0;
  std::uint64_t psn = 0;  // kAck, kNak: the one that is expected
  std::uint64_t number = 0;
  std::uint64_t version = 0;
  std::uint64_t released = 0;  // messages of the other side's, ever
  std::array<std::byte, kFabricHeaderBytes> header{};
};
static_assert(sizeof(LaneHeader) <= kMaxHeaderBytes);

// Base transport header and its CRC; what an acknowledgement and a READ add.
inline constexpr std::uint32_t kLaneHeaderBytes = 12 + 4;
inline constexpr std::uint32_t kLaneAckBytes = 4;
inline constexpr std::uint32_t kLaneReadBytes = 16;

}  // namespace spindrift::sim
