#pragma once
// One peer of a libfabric fabric, and its reads. Internal to providers/libfabric.
#include <array>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "spindrift/message_fabric.h"

#include "providers/libfabric/ofi_arrivals.h"
#include "providers/libfabric/ofi_buffers.h"
#include "providers/libfabric/ofi_greeting.h"
#include "providers/libfabric/ofi_room.h"

namespace spindrift {

struct OfiReading : OfiOperation {
  OfiPeer* peer = nullptr;
  std::uint64_t serial = 0;  // of all that were begun; 0: not under way
  std::uint16_t lane = 0;
};

// A read of the peer's memory. Its bytes count once a read of the peer's gate, which began after
// them, has found it open: what was read from memory that the peer had given up is nobody's.
struct OfiRead : OfiReading {
  std::uint64_t tag = 0;
  std::uint32_t gate = 0;  // the read of the gate, by the same lane, that covers it; 0: none yet
  bool has_landed = false;
  std::uint8_t pieces = 0;  // of our memory
  std::array<LocalKey, kMaxSge> regions{};
};

inline constexpr std::size_t kGateReads = 4;  // under way at a time, per lane of a peer

// What a peer reads of us beside our memory, and where what we read of its lands.
struct OfiGateWords {
  std::uint64_t name = 0;     // of the connection as long as it lives
  std::uint64_t arrived = 0;  // messages of the reader's, without a gap, modulo 2^32
};

// Registered memory of one peer.
struct OfiGateCell {
  OfiGateWords own{};
  std::array<OfiGateWords, kMostOfiRails * kGateReads> landing{};
};

struct OfiGatePlace {
  std::uint32_t slab = 0;
  std::uint32_t cell = 0;
};

struct OfiGateRead : OfiReading {
  std::uint32_t number = 0;  // 0: not under way
  Time begun{};
};

// The way to a peer by one rail of ours and one of its.
//
//   kTrying --its gate was read--> kUp --silent, or an error--> kDown --a while--> kTrying
struct OfiLane {
  static constexpr Duration kFirstPause = std::chrono::milliseconds(10);
  static constexpr Duration kLongestPause = std::chrono::seconds(1);
  enum class State : std::uint8_t { kTrying, kUp, kDown };

  State state = State::kTrying;
  bool is_told_down = false;  // to the engine
  bool is_trouble = false;    // counted among the fabric's
  bool wants_gate = false;    // reads wait for one that could not be begun
  std::vector<std::byte> name{};
  fi_addr_t to = FI_ADDR_UNSPEC;
  std::uint64_t their_gate = 0;
  std::uint64_t their_gate_key = 0;
  std::array<OfiGateRead, kGateReads> gate_reads{};
  std::uint32_t gates_begun = 0;
  std::uint32_t gates_found_open = 0;
  std::uint32_t reads_under_way = 0;  // and reads of the gate
  std::uint32_t reads_ended = 0;
  std::uint32_t reads_ended_before = 0;  // when it was looked at last, while some were under way
  Time stuck_since = kNever;
  Time last_gate_begun{};  // of those that ended well
  Time last_gate_ended{};
  Time retry_at{};  // kDown; kTrying: when it began
  Duration pause = kFirstPause;
  std::string trouble{};  // kDown: why

  bool is_up() const { return state == State::kUp; }
};

// Memory of the peer's, as it told over several rails.
struct OfiTheirRegion {
  std::uint32_t generation = 0;
  std::array<OfiRegionCard::ByLane, kMostOfiRails> lanes{};
};

//  we call:    kDialing --TCP--> kCalling --ANSWER--> kTrying --tried, and a message--> kOpen
//  they call:  kCalled --CALL--> kAsking --accept()--> kAnswered --tried, a message, ours--> kOpen
//  drop():     kLeaving, until libfabric holds nothing of it any more
struct OfiPeer {
  enum class Phase : std::uint8_t {
    kDialing,
    kCalling,
    kTrying,
    kCalled,
    kAsking,
    kAnswered,
    kOpen,
    kLeaving
  };

  FabricPeer id{};
  Phase phase = Phase::kCalled;
  std::uint16_t address = 0;  // which one it called
  bool is_gone = false;       // `cause` says why; what it had sent is still to be polled
  bool is_gone_told = false;
  bool is_dropped = false;     // the engine hears nothing of it any more
  bool is_ready = false;       // in the fabric's list of those with something to poll
  bool is_owing = false;       // in the fabric's list of those that we have something to say to
  bool has_news = false;       // its status has changed
  bool has_tried = false;      // to read the gate, whatever came of it
  bool has_lane_news = false;  // the engine is to hear of lanes
  bool is_mute = false;        // its TCP connection was cut, and a lane lives
  bool is_heard = false;       // over libfabric
  bool has_farewell = false;
  bool has_grant = false;  // buffers were added for it
  bool is_gate_closed = false;
  std::uint64_t own_name = 0;    // in the messages that it sends us
  std::uint64_t their_name = 0;  // ... that we send it
  Time since{};                  // kCalled: it must say what it wants. is_gone: since then
  OfiTalk talk;
  NetAddress host{};
  std::uint32_t process = 0;
  OfiGreeting call{};          // kDialing: to be sent; kAsking: what it said; kTrying: the answer
  std::vector<OfiLane> lanes;  // from its greeting on

  OfiRoom room;
  std::optional<OfiArrivals<OfiBuffer*>> arrivals;
  std::uint32_t sends_under_way = 0;
  FabricStatus shows{};        // to it
  bool shows_anew = false;     // ... and it was not told yet
  FabricStatus shown{};        // by it
  FabricStatus to_be_shown{};  // ... when messages up to this number have arrived
  std::uint32_t shown_after = 0;
  std::uint16_t shown_serial = 0;
  bool is_to_be_shown = false;

  MessageFabric::Reach reach{};
  bool offers_memory = false;
  OfiGateCell* gate = nullptr;
  OfiGatePlace gate_place{};
  std::vector<OfiRead*> reads;

  // Several lanes: messages take one of them. They are kept until the peer is done with them, and
  // go again by another where theirs fails.
  std::uint16_t message_lane = 0;
  std::deque<OfiBuffer*> kept;
  std::size_t unsent = 0;           // the last so many of these are still to be handed over
  std::vector<std::uint32_t> told;  // by slot: the generation of our region that it knows
  std::unordered_map<std::uint32_t, OfiTheirRegion> regions;  // by slot

  std::string cause;
  std::string read_error;

  bool is_polled() const { return phase == Phase::kOpen; }
  bool has_several_lanes() const { return lanes.size() > 1; }
  std::uint32_t reads_under_way() const {
    std::uint32_t sum = 0;
    for (const OfiLane& lane : lanes)
      sum += lane.reads_under_way;
    return sum;
  }
  // Whether both sides are known to be able to what they will be asked for.
  bool may_show() const {
    if (phase == Phase::kTrying) return has_tried;
    if (phase == Phase::kAnswered) return has_tried && is_heard;
    return phase == Phase::kOpen;
  }
  bool has_met() const {
    return phase == Phase::kTrying || phase == Phase::kAnswered || phase == Phase::kOpen;
  }
};

}  // namespace spindrift
