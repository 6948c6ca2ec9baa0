#pragma once
// The header of every message of the MessageEngine, as it lies on the fabric, and the words that
// each side shows the other. Little-endian; both ends say so below. Nothing in a received record is
// trusted: fields are judged where they are used.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "spindrift/message_fabric.h"

namespace spindrift {

enum class RecordKind : std::uint8_t {
  // Requests, executed by the receiver in order. The first record of a message names it whole.
  kSend = 1,
  kWrite,
  kWriteImm,
  kRead,
  kFetchAdd,
  kCompareSwap,  // the value to compare with is the payload
  kMore,         // of the message before
  // Responses.
  kReadData,      // some bytes of the oldest READ
  kReadOffer,     // where the oldest READ's bytes lie: fetch them and say kReadDone
  kAtomicResult,  // in `operand`
  kReadDone,
  // About the connection: `immediate` is a lane that the sender's operator denies or allows again.
  kLaneNote,
};

inline constexpr std::uint8_t kRecordIsOffered = 1;  // the payload says where the bytes lie
inline constexpr std::uint8_t kLaneIsDenied = 2;     // kLaneNote
inline constexpr std::uint8_t kReadWantsOffer = 4;   // kRead: into a device's memory

struct Record {
  RecordKind kind = RecordKind::kSend;
  std::uint8_t flags = 0;
  std::uint16_t epoch = 0;    // requests: how often the sender was told "not ready"
  std::uint32_t done = 0;     // records of the receiver's requests that were taken in, ever
  std::uint32_t credits = 0;  // RECEIVEs the sender of this ever posted
  std::uint32_t length = 0;   // of the message, the READ, or what is offered here
  std::uint32_t immediate = 0;
  std::uint32_t crc = 0;  // over this header with zero here, and the payload; where negotiated
  std::uint64_t key = 0;
  std::uint64_t offset = 0;
  std::uint64_t operand = 0;
};
static_assert(sizeof(Record) == kFabricHeaderBytes && std::endian::native == std::endian::little);

// How much of it travels.
inline std::size_t record_bytes(RecordKind kind) {
  switch (kind) {
    case RecordKind::kWrite:
    case RecordKind::kWriteImm:
    case RecordKind::kRead:
      return 40;
    case RecordKind::kFetchAdd:
    case RecordKind::kCompareSwap:
    case RecordKind::kAtomicResult:
      return 48;
    case RecordKind::kSend:
    case RecordKind::kMore:
    case RecordKind::kReadData:
    case RecordKind::kReadOffer:
    case RecordKind::kReadDone:
    case RecordKind::kLaneNote:
      break;
  }
  return 24;
}

inline bool is_request(RecordKind kind) {
  return kind <= RecordKind::kMore;
}

// An offered piece, as payload.
struct OfferedPiece {
  std::uint64_t address = 0;
  std::uint64_t key = 0;
  std::uint64_t bytes = 0;
};
static_assert(sizeof(OfferedPiece) == 24);

// What each side shows the other (FabricStatus). It is never in the way of data and always finds
// room, so whatever ends a connection travels here.
struct Bulletin {
  static constexpr std::uint32_t kClosing = 1;    // posts no more RECEIVEs
  static constexpr std::uint32_t kClosed = 2;     // its work is done, and it has said so in order
  static constexpr std::uint32_t kAborted = 4;    // over: nothing of its memory is valid any more
  static constexpr std::uint32_t kFailed = 8;     // the same, by an error
  static constexpr std::uint32_t kUnopened = 16;  // with kAborted: it was accepted, and never used

  std::uint32_t done = 0;
  std::uint32_t credits = 0;
  std::uint32_t flags = 0;
  std::uint32_t fault_number = 0;    // a record of the request that was refused; with fault_code
  std::uint32_t fault_code = 0;      // an OpStatus, 0: none
  std::uint16_t refusals = 0;        // how often a message met no RECEIVE
  std::uint16_t invitations = 0;     // how many of these may be sent again
  std::uint32_t refused_number = 0;  // the record that met none last

  FabricStatus pack() const {
    return {{done | std::uint64_t{credits} << 32, flags,
             fault_number | std::uint64_t{fault_code} << 32,
             refusals | std::uint64_t{invitations} << 16 | std::uint64_t{refused_number} << 32}};
  }
  static Bulletin unpack(const FabricStatus& status) {
    const auto& w = status.words;
    return {.done = static_cast<std::uint32_t>(w[0]),
            .credits = static_cast<std::uint32_t>(w[0] >> 32),
            .flags = static_cast<std::uint32_t>(w[1]),
            .fault_number = static_cast<std::uint32_t>(w[2]),
            .fault_code = static_cast<std::uint32_t>(w[2] >> 32),
            .refusals = static_cast<std::uint16_t>(w[3]),
            .invitations = static_cast<std::uint16_t>(w[3] >> 16),
            .refused_number = static_cast<std::uint32_t>(w[3] >> 32)};
  }
  bool is_over() const { return (flags & (kAborted | kFailed | kClosed)) != 0 || fault_code != 0; }
};

}  // namespace spindrift
