#pragma once
// One connection of a LaneFabric: its lanes, what came and waits, what the sides show each other.
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "spindrift/message_fabric.h"

#include "sim/lane.h"

namespace spindrift::sim {

struct LaneEnd {
  LaneEnd(const LaneSender::Shape& shape, std::uint16_t index) : number(index), out(shape) {}
  std::uint16_t number;
  LaneSender out;
  LaneReceiver in;
  bool is_queued = false;  // in the NIC's list of those with data to send
  bool owes_ack = false;   // in the NIC's list of those with something to acknowledge
  bool owes_nak = false;
  bool has_failed = false;
  // After a failure: when it is tried again, and whether that is going on. Each try is an era of
  // its own, so that what is left over from before is told from what comes now.
  Picoseconds retry_at = kEndOfTime;
  bool is_on_trial = false;
  std::uint16_t out_era = 0;
  std::uint16_t in_era = 0;
};

struct LaneConnection {
  enum class Phase : std::uint8_t { kCalling, kAsked, kAnswered, kOpen };

  // A read that was asked for.
  struct Read {
    std::uint64_t tag = 0;
    std::uint16_t lane = 0;
    std::vector<Sge> local{};
  };

  std::uint32_t id = 0;      // its place here, used again later
  std::uint32_t number = 0;  // the id and how many were made before: late packets find no other
  FabricPeer peer{};
  Phase phase = Phase::kCalling;
  bool is_detached = false;  // dropped by its owner: it ends when the other side has heard of it
  bool is_gone = false;
  bool is_gone_told = false;
  std::string cause{};             // why it is gone
  std::uint32_t remote_id = 0;     // the other side's number, and one more; 0: not known yet
  std::uint32_t remote_host = 0;   // which host
  std::uint16_t called = 0;        // index of our address that was called
  std::uint16_t lanes_wanted = 1;  // by the engine here
  // Which NIC of each host the control lane uses: that of the call.
  std::uint32_t control_nic = 0;

  std::deque<LaneEnd> lanes{};  // the last one is the control lane; never moved
  // Messages of ours.
  std::uint64_t posted = 0;       // kMessage and kFarewell
  std::uint64_t sent = 0;         // kMessage alone
  std::uint64_t released_by = 0;  // of these, by the other side
  // Messages of the other side.
  std::uint64_t next_number = 0;  // of the one that comes next
  std::map<std::uint64_t, LaneMessage> early{};
  std::deque<LaneMessage> arrived{};  // in order; the first `held` are with the engine
  std::uint32_t held = 0;
  std::uint64_t released = 0;
  std::uint64_t released_told = 0;

  FabricStatus shown{};  // by this side
  std::uint64_t shown_version = 0;
  FabricStatus status{};       // of the other side
  FabricStatus status_seen{};  // by the engine
  LaneMessage coming_status{};
  std::uint64_t status_version = 0;

  std::map<std::uint64_t, Read> reads{};
  std::uint64_t next_read = 0;
  std::string read_error{};

  LaneEnd& control() { return lanes.back(); }
  bool can_poll() const { return phase == Phase::kOpen && !is_detached; }
};

}  // namespace spindrift::sim
