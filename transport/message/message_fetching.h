#pragma once
// Fetching what a peer offers: state. An offer is cut into chunks, and each is read by a lane of
// its own: the path policy chooses it, congestion control says how much may be under way. The
// functions are in message_lanes.h.
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "spindrift/message_fabric.h"

#include "transport/base/ring.h"
#include "transport/flow.h"
#include "transport/message/message_record.h"
#include "transport/rtt.h"

namespace spindrift {

// What a medium that cuts reads itself may have under way, however few lanes it has; 0: one that
// does not.
inline std::uint64_t own_window_bytes(const FabricCaps& caps) {
  return std::uint64_t{16} * caps.read_chunk_bytes;
}

// Bytes that a peer offered to be read from its memory.
struct Offer {
  std::array<RemoteSpan, kMaxSge> pieces{};
  std::uint8_t count = 0;
  std::uint64_t bytes = 0;
};

// Where the bytes of a record land.
struct Place {
  RecordKind kind = RecordKind::kSend;  // of its message; kReadOffer: in what our READ names
  bool ends = false;                    // the message is whole with it
  std::uint32_t length = 0;             // of the message
  std::uint32_t at = 0;                 // its first byte, in the message
  std::uint32_t receive = 0;            // kSend, kWriteImm: sequence number of the RECEIVE
  std::uint64_t key = 0;                // kWrite, kWriteImm
  std::uint64_t offset = 0;
  std::uint64_t request = 0;  // kReadOffer: serial of our READ
};

// A record that has come and is not done with: its bytes are being fetched, or something before it
// is not done with.
struct Arrival {
  FabricCompletion message;  // released when it is done with
  Record record;
  Place place;
  Offer offer;
  std::uint64_t asked_bytes = 0;  // of the offer, at least once
  std::uint64_t fetched_bytes = 0;
  OpStatus fault = OpStatus::kOk;  // where it should land is gone
  bool is_begun = false;           // its place is known
  bool is_whole() const {
    return is_begun && (fetched_bytes == offer.bytes || fault != OpStatus::kOk);
  }
};

// One read of the peer's memory.
struct Chunk {
  std::uint64_t arrival = 0;  // serial
  std::uint32_t at = 0;       // of the offer
  std::uint32_t bytes = 0;
  Time posted{};
  LocalKey region{};  // that it lands in, where nobody else holds it
  std::uint16_t lane = 0;
  std::uint8_t bounce = 0;  // 1 and more: through that part of the engine's own memory
  bool is_posted = false;
};

struct LaneLoad {
  std::uint64_t posted_bytes = 0;
  std::uint64_t lost_bytes = 0;  // since anything came by it
  std::uint64_t full_until = 0;  // nothing finds room before so many reads have ended, ever
  bool is_denied_by_peer = false;
};

// What an operator denies, and what of it the peer was told.
struct LaneDenial {
  bool is_denied = false;
  bool is_told = true;
};

struct Fetching {
  static constexpr std::size_t kChunks = 256;  // under way

  Fetching(Flow congestion_controlled, std::size_t lane_count)
      : flow(std::move(congestion_controlled)), lanes(lane_count), chunks(kChunks), again(kChunks) {
    for (std::size_t i = kChunks; i != 0; --i)
      free.push_back(static_cast<std::uint16_t>(i - 1));
  }

  Flow flow;
  RttEstimator rtt;
  Rate link_rate{};
  bool measures_base_rtt = true;  // and tells congestion control
  Duration told_rtt{};            // what it was told last
  std::vector<LaneLoad> lanes;
  std::vector<Chunk> chunks;  // by tag
  std::vector<std::uint16_t> free;
  Ring<std::uint16_t> again;    // chunks that were lost, or found no room
  std::uint64_t next = 0;       // serial of the first arrival of which not all was asked for
  std::uint64_t ended = 0;      // reads, ever
  std::uint32_t posted = 0;     // reads under way
  std::uint32_t next_lane = 0;  // where the search for room begins
  Time came{};                  // the last chunk, or what is awaited since nothing was
  Time timer = kNever;          // of pacing, probes and congestion control
};

}  // namespace spindrift
