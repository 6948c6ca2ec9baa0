#pragma once
// What the two sides of a connection tell each other over TCP: how to reach their queue pairs, and
// later, when one failed, how to reach the new ones. Big-endian, and the same on every host. Pure:
// nothing here opens anything. Internal to providers/verbs.
//
//   caller --CALL--> called      queue pairs of the caller
//          <--ANSWER or REFUSE-- queue pairs of the called  (NO USE, here or before CONFIRM: a
//          sentence of the fabric's own)
//          --CONFIRM-->          the caller has moved a packet of the agreed size there and back
//   called --BROKEN--> caller    "my end of this lane failed"
//   caller --RENEW-->            a new queue pair of the caller, in place of the old one
//          <--RENEWED--          ... of the called
//          --READY-->            bytes have moved over it
//   either closes                whatever happened to the process, its kernel says so
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "spindrift/message_fabric.h"

#include "providers/verbs/gid_choice.h"

namespace spindrift {

inline constexpr std::uint16_t kVerbsVersion = 1;
inline constexpr std::size_t kMaxVerbsLanes = 64;
inline constexpr std::size_t kMaxVerbsPorts = 2;
inline constexpr std::size_t kMaxVerbsFrame = 4096;  // with its head
inline constexpr std::size_t kVerbsHeadBytes = 12;
inline constexpr std::uint16_t kVerbsMessageLane = 0xffff;  // in LaneCard

enum class VerbsFrameKind : std::uint16_t {
  kCall = 1,
  kAnswer,
  kRefuse,
  kNoUse,
  kConfirm,
  kBroken,
  kRenew,
  kRenewed,
  kReady,
};

// A queue pair, as the other side needs it.
struct QueuePairCard {
  std::uint32_t number = 0;  // 24 bits
  std::uint32_t first_packet = 0;
};

// A port that lanes use.
struct PortCard {
  GidBytes gid{};
  std::uint16_t lid = 0;
  std::uint8_t is_infiniband = 0;
  std::uint8_t mtu = 0;  // as the wire says it: 1: 256 ... 5: 4096 bytes
  std::uint32_t page_key = 0;
};

// CALL and ANSWER.
struct VerbsCard {
  std::uint64_t nonce = 0;
  std::uint64_t peer_nonce = 0;  // ANSWER: of the call
  std::uint8_t transport = 0;
  std::uint8_t reads_answered = 0;  // RDMA READs that it answers at a time, per queue pair
  std::uint16_t buffers = 0;        // messages that it takes unasked
  std::uint32_t buffer_bytes = 0;   // each
  std::uint64_t page = 0;           // where it may be written and read: VerbsPage
  std::vector<PortCard> ports{};    // lane k uses port k modulo their number
  QueuePairCard messages{};
  std::vector<QueuePairCard> lanes{};
  std::string device{};  // "mlx5_0 port 1", for errors
  std::vector<std::byte> hello{};
};

// BROKEN, RENEW, RENEWED, READY.
struct LaneCard {
  std::uint16_t lane = 0;        // or kVerbsMessageLane
  std::uint32_t generation = 0;  // how often it was made anew
  QueuePairCard queue_pair{};
  GidBytes gid{};
  std::uint32_t room = 0;  // of the message lane: buffers posted
};

struct VerbsFrame {
  VerbsFrameKind kind = VerbsFrameKind::kCall;
  std::vector<std::byte> body{};
};

// Takes a stream apart.
class VerbsFrameReader {
 public:
  enum class Got : std::uint8_t { kNothing, kFrame, kOtherVersion, kNonsense };
  void append(std::span<const std::byte> bytes);
  Got next(VerbsFrame& out);
  std::uint16_t other_version() const { return other_version_; }  // kOtherVersion

 private:
  std::vector<std::byte> bytes_;
  std::uint16_t other_version_ = 0;
};

std::vector<std::byte> encode(VerbsFrameKind kind, std::span<const std::byte> body);
std::vector<std::byte> encode(VerbsFrameKind kind, const VerbsCard& card);
std::vector<std::byte> encode(VerbsFrameKind kind, const LaneCard& card);
// Nothing: no version of this library says that.
std::optional<VerbsCard> parse_card(std::span<const std::byte> body);
std::optional<LaneCard> parse_lane_card(std::span<const std::byte> body);

// Bytes of payload for 1..5, and back (the largest that is not above `bytes`).
constexpr std::uint32_t mtu_bytes(std::uint8_t code) {
  return 128U << code;
}
constexpr std::uint8_t mtu_code(std::uint32_t bytes) {
  std::uint8_t code = 1;
  while (code < 5 && mtu_bytes(static_cast<std::uint8_t>(code + 1)) <= bytes)
    ++code;
  return code;
}

}  // namespace spindrift
