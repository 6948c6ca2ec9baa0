#pragma once
// One peer of a verbs fabric. Internal to providers/verbs.
#include <memory>
#include <string>
#include <vector>

#include "spindrift/message_fabric.h"

#include "providers/verbs/message_lane.h"
#include "providers/verbs/verbs_greeting.h"
#include "providers/verbs/verbs_lane.h"
#include "providers/verbs/verbs_talk.h"

namespace spindrift {

//  we call:   kDialing --connected, CALL--> kCalling --ANSWER--> kProbing --CONFIRM--> kOpen
//  they call: kCalled --CALL--> kAsking --accept(), ANSWER--> kAnswered --CONFIRM--> kOpen
struct VerbsPeer {
  enum class Phase : std::uint8_t {
    kDialing,
    kCalling,
    kProbing,
    kCalled,
    kAsking,
    kAnswered,
    kOpen
  };

  FabricPeer id{};
  Phase phase = Phase::kCalled;
  bool has_called = false;    // we did
  std::uint16_t address = 0;  // which one of ours it called
  bool is_dropped = false;    // by the engine; what was sent before is still on its way
  bool is_gone = false;       // `cause` says why; what it sent before is still to be read
  bool is_gone_told = false;
  Time since{};      // kCalled, kProbing, is_dropped: limits begin
  Time next_look{};  // is_dropped: whether the other side is gone
  std::unique_ptr<VerbsTalk> talk{};
  VerbsFrameReader frames{};
  std::string who{};  // "10.0.0.2:4793 (mlx5_0 port 1)"
  std::uint64_t nonce = 0;
  std::vector<std::byte> hello{};  // ours, until the socket is connected
  std::uint16_t wished_lanes = 1;
  GidBytes own_gid{};  // that it reaches us by
  VerbsCard theirs{};
  MessageLane messages{};
  std::vector<VerbsLane> lanes{};
  FabricStatus told{};  // of its words, to the engine
  std::string cause{};
  std::string read_error{};

  bool is_open() const { return phase == Phase::kOpen; }
  VerbsLane& lane(std::uint16_t number) {
    return number == kVerbsMessageLane ? messages.lane : lanes[number];
  }
  // The peer's end of a lane of ours.
  const PortCard& port_of(std::uint16_t number) const {
    const std::size_t index = number == kVerbsMessageLane ? 0 : number;
    return theirs.ports[index % theirs.ports.size()];
  }
};

}  // namespace spindrift
