#pragma once
// Work requests and completions: the data path as verbs users know it.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "spindrift/export.h"
#include "spindrift/memory.h"
#include "spindrift/types.h"

namespace spindrift {

enum class OpKind : std::uint8_t {
  kSend,
  kReceive,
  kWrite,
  kWriteImm,  // consumes a RECEIVE of the peer and delivers `immediate` there
  kRead,
  kFetchAdd,     // 64 bit: local 8 bytes <- old value; remote += operand
  kCompareSwap,  // 64 bit: local 8 bytes <- old value; if old == compare: remote = operand
};

enum class OpStatus : std::uint8_t {
  kOk,
  kTimedOut,   // the deadline passed: unsent, and the connection lives; partly sent, and it failed
  kPeerGone,   // silence, a dead port, or the peer aborted; last_error() has the cause
  kRemoteKey,  // no such key, or the region is gone
  kRemoteAccess,       // the region does not grant the right
  kRemoteBounds,       // offset + length leaves the region
  kRemoteAlignment,    // an atomic on an address that is not a multiple of 8
  kRemoteLength,       // a SEND longer than the RECEIVE it met
  kRemoteUnsupported,  // the peer cannot execute this operation
  kLocalLength,        // this RECEIVE was shorter than the message it met
  kFlushed,            // the connection closed or failed before this operation's turn
};
SPINDRIFT_EXPORT std::string_view to_string(OpKind kind);
SPINDRIFT_EXPORT std::string_view to_string(OpStatus status);

inline constexpr std::size_t kMaxSge = 8;
inline constexpr std::uint64_t kMaxMessageBytes = 1ULL << 31;
inline constexpr std::size_t kMaxInlineBytes = 256;

// Spans need to live only until post() returns; the memory that Sge name must live until the
// completion (inline data: until post() returns).
struct WorkRequest {
  std::uint64_t user_data = 0;  // returned in the completion
  ConnId conn{};
  OpKind kind = OpKind::kSend;
  bool is_unsignaled = false;  // no completion when it succeeds; errors always complete
  bool has_fence = false;      // starts after all earlier READs and atomics have completed
  bool is_inline = false;      // copy the bytes now (<= kMaxInlineBytes); no region needed
  std::uint32_t immediate = 0;
  std::span<const Sge> local{};  // up to kMaxSge pieces, kMaxMessageBytes in all; may be empty
  std::uint64_t remote_key = 0;
  std::uint64_t remote_offset = 0;  // bytes from the start of the region that remote_key names
  std::uint64_t operand = 0;        // atomics
  std::uint64_t compare = 0;        // kCompareSwap
  Duration timeout{};  // zero: the connection's default. A deadline that passes before anything
                       // was sent ends this operation; later, it fails the connection.
};

struct Completion {
  std::uint64_t user_data = 0;
  std::uint64_t bytes = 0;  // moved; for a RECEIVE: the length of the message
  ConnId conn{};
  std::uint32_t immediate = 0;
  OpKind kind = OpKind::kSend;
  OpStatus status = OpStatus::kOk;
  bool has_immediate = false;  // RECEIVE met by a WRITE_WITH_IMM
  bool is_shared = false;      // the RECEIVE came from a shared receive queue
};
static_assert(sizeof(Completion) == 32, "two per cache line");

enum class PostStatus : std::uint8_t {
  kOk,
  kQueueFull,     // the rest may be posted after completions were polled
  kNotConnected,  // no such connection, or it is closing, closed or failed
  kInvalid,       // the first request not accepted is wrong; last_error() says how
};
struct PostResult {
  std::size_t accepted = 0;
  PostStatus status = PostStatus::kOk;
};

}  // namespace spindrift
