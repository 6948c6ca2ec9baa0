#pragma once
// The flight recorder's events: small, of fixed size, the last few thousand of an endpoint.
// docs/TRACE.md explains each one, and the JSON lines they are written as.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spindrift/export.h"
#include "spindrift/types.h"

namespace spindrift {

// In the order of the level that records them, EndpointConfig::trace_level.
enum class TraceKind : std::uint8_t {
  // Level 1: what changes rarely.
  kState,            // of a connection
  kTimeout,          // nothing was heard for an RTO
  kPath,             // a path went bad, was restored, denied or allowed
  kCompletionError,  // a completion with an error
  // Level 2: what goes wrong packet by packet.
  kRefused,     // a packet that was dropped: damaged, unknown, or not wanted
  kLoss,        // judged lost
  kSpurious,    // judged lost, and it had arrived
  kRetransmit,  // sent again
  kProbeSent,
  kProbeAnswered,
  kNackSent,
  kNackReceived,
  kLimits,  // of congestion control, at most once per millisecond and connection
  // Level 3: every packet.
  kPacketSent,      // data, for the first time
  kPacketReceived,  // data, accepted
  kAckReceived,
};
inline constexpr std::size_t kTraceKinds = 16;

inline constexpr std::uint8_t kMaxTraceLevel = 3;
constexpr std::uint8_t level_of(TraceKind kind) {
  if (kind < TraceKind::kRefused) return 1;
  return kind < TraceKind::kPacketSent ? 2 : 3;
}

// What kRefused has in `cause`.
enum class TraceRefusal : std::uint8_t {
  kMalformed,    // no packet of ours
  kCrc,          // damaged on the way
  kStranger,     // for no connection here
  kWrongSource,  // a known connection, another host's address
  kOutOfWindow,  // a PSN that nobody may have sent yet
};

struct TraceEvent {
  Time at{};                // the endpoint's clock, read once per turn of its loop
  std::uint64_t first = 0;  // meaning by kind: TraceKindInfo
  std::uint64_t second = 0;
  ConnId conn{};           // zero: the endpoint's own
  std::uint16_t path = 0;  // where the kind has one
  TraceKind kind = TraceKind::kState;
  std::uint8_t cause = 0;  // index into TraceKindInfo::causes
};
static_assert(sizeof(TraceEvent) == 32, "two per cache line");

// How events of one kind read. An empty name: the member is not used.
struct TraceKindInfo {
  std::string_view name{};
  bool has_path = false;
  std::string_view cause_name{};
  std::span<const std::string_view> causes{};
  std::string_view first_name{};
  std::string_view second_name{};
};
SPINDRIFT_EXPORT const TraceKindInfo& trace_kind_info(TraceKind kind);

struct Trace {
  std::vector<TraceEvent> events;  // oldest first
  std::uint64_t overwritten = 0;   // events that had to make room for these
};

// {"t_ns":1000,"event":"loss","conn":65536,"path":3,"cause":"reordered",...}
SPINDRIFT_EXPORT std::string to_json(const TraceEvent& event);

// Writes the traces of every endpoint of the process. Callable from a signal handler: it neither
// allocates nor locks, so events written at the same moment by another thread may come out torn.
// False when `path` cannot be written; errno says why.
[[nodiscard]] SPINDRIFT_EXPORT bool write_all_traces(const char* path) noexcept;

}  // namespace spindrift
