#pragma once
// What all connections of a MessageEngine share. Handed by reference to the engine's parts.
#include <memory>
#include <string>
#include <vector>

#include "transport/base/flight_recorder.h"
#include "transport/base/pages.h"
#include "transport/base/rng.h"
#include "transport/base/scratch.h"
#include "transport/engine_context.h"
#include "transport/message/message_connection.h"
#include "transport/work_check.h"

namespace spindrift {

struct MessageListener {
  ListenerId id{};
  ListenOptions options{};
  std::vector<std::uint16_t> addresses{};  // of the fabric
  std::uint32_t waiting = 0;               // requests not yet accepted or rejected
  bool is_open = false;
};

// Where bytes lie or land.
struct Landing {
  std::uint8_t count = 0;
  std::uint32_t line_ordered = 0;  // bit per piece
  bool is_device = false;          // the processor must not touch it
  std::array<Sge, kMaxSge> pieces{};
  std::span<const Sge> list() const { return {pieces.data(), count}; }
};

// One message to the fabric, with all that it names.
struct OutgoingRecord {
  Record record;
  Landing part;
  std::array<OfferedPiece, kMaxSge> offered;
  Sge only;  // payload that is in no list of the caller's
  std::uint64_t compare = 0;
  std::uint32_t bytes = 0;  // of the request that this covers
  std::uint32_t cost = 0;   // on its path
  bool begins = false;
  bool ends = false;
  std::span<const Sge> alone(void* data, std::size_t size) {
    only = {.data = static_cast<std::byte*>(data), .bytes = static_cast<std::uint32_t>(size)};
    return {&only, 1};
  }
};
// What is being sent; kept, because making it anew would cost more than sending.
inline constexpr std::size_t kSendBatch = 16;
struct SendScratch {
  std::array<FabricOp, kSendBatch> ops;
  std::array<OutgoingRecord, kSendBatch> out;
};

// Reads on their way to the fabric.
inline constexpr std::size_t kReadBatch = 16;
struct ReadScratch {
  Scratch<FabricOp, kReadBatch> ops;
  Scratch<Landing, kReadBatch> local;
  Scratch<std::array<RemoteSpan, kMaxSge>, kReadBatch> remote;
  Scratch<std::uint16_t, kReadBatch> chunks;
};

// What is read into line-ordered memory comes by memory of the engine's own, in pieces.
inline constexpr std::uint32_t kBounceBytes = 256U << 10U;
inline constexpr std::uint8_t kBounces = 8;
// The fabric knows it by this; no region of a user's has an epoch of zero.
inline constexpr LocalKey kBounceRegion{(1U << MemoryTable::kIndexBits) - 1};

struct MessageContext {
  MessageContext(const EndpointConfig& endpoint_config, const Registry& names,
                 MessageFabric& medium, const EngineIdentity& who)
      : config(endpoint_config),
        registry(names),
        fabric(medium),
        identity(who),
        rng(who.seed),
        memory(endpoint_config.max_regions),
        completions(endpoint_config.completion_queue),
        events(std::size_t{4} * endpoint_config.max_connections),
        timers(endpoint_config.max_connections),
        ready(endpoint_config.max_connections),
        stirred(endpoint_config.max_connections),
        connections(endpoint_config.max_connections),
        generations(endpoint_config.max_connections, 0),
        recorder(endpoint_config.trace_events, endpoint_config.trace_level),
        inline_bytes(
            Pages::map(std::size_t{endpoint_config.inline_buffers} * kMaxInlineBytes).value()) {
    for (std::uint32_t i = 0; i < endpoint_config.max_connections; ++i)
      free_slots.push_back(static_cast<std::uint16_t>(i));
    for (std::uint32_t i = endpoint_config.inline_buffers; i != 0; --i)
      free_inline.push_back(i - 1);
  }

  const EndpointConfig config;
  const Registry& registry;
  MessageFabric& fabric;
  EngineIdentity identity;
  Rng rng;
  MemoryTable memory;
  Ring<Completion> completions;
  Ring<ConnEvent> events;
  TimerHeap timers;             // by connection index
  Ring<std::uint16_t> ready;    // connections with something to send or show; each at most once
  Ring<std::uint16_t> stirred;  // ... with arrivals to be looked at before the turn is over
  std::vector<std::unique_ptr<MessageConnection>> connections;
  std::vector<std::uint16_t> generations;
  std::vector<std::uint16_t> free_slots;
  std::vector<std::uint16_t> by_peer;  // fabric's number -> our index
  FlightRecorder recorder;
  std::vector<MessageListener> listeners;
  std::vector<std::unique_ptr<SharedReceiveQueue>> shared_queues;
  Pages inline_bytes;
  std::vector<std::uint32_t> free_inline;
  SendScratch sending;
  ReadScratch reading;
  Landing landing;                         // of the bytes at hand
  std::vector<std::byte> bounce;           // made when the first line-ordered region is registered
  std::vector<std::uint8_t> free_bounces;  // 1..kBounces
  Time now{};                              // of this turn or call
  std::uint32_t half_open = 0;
  std::uint32_t settling = 0;  // connections whose peer shows an end
  std::uint32_t blocked_on_queue = 0;
  std::uint64_t turn_bytes = 0;  // taken in during this turn
  EndpointCounters counters;
  ConnectionCounters closed_totals;
  std::string last_error;

  std::byte* bounce_at(std::uint8_t number) {
    return bounce.data() + std::size_t{kBounceBytes} * (number - 1U);
  }
  MessageConnection* find(ConnId id) {
    const std::uint32_t index = id.value & 0xffff;
    if (id.value == 0 || index >= connections.size() || !connections[index]) return nullptr;
    return connections[index]->id == id ? connections[index].get() : nullptr;
  }
  const MessageConnection* find(ConnId id) const {
    return const_cast<MessageContext*>(this)->find(id);
  }
  MessageConnection* find(FabricPeer peer) {
    if (peer.value >= by_peer.size() || by_peer[peer.value] >= connections.size()) return nullptr;
    MessageConnection* c = connections[by_peer[peer.value]].get();
    return c != nullptr && c->has_peer && c->peer == peer ? c : nullptr;
  }
  void bind(MessageConnection& c, FabricPeer peer) {
    if (peer.value >= by_peer.size()) by_peer.resize(peer.value + std::size_t{1}, UINT16_MAX);
    by_peer[peer.value] = c.index;
    c.peer = peer;
    c.has_peer = true;
  }
  void make_ready(MessageConnection& c) {
    if (c.is_ready) return;
    c.is_ready = true;
    ready.push_back(c.index);
  }
  // The timer may only be moved earlier here; it re-reads the true deadline when it fires.
  void arm(MessageConnection& c, Time when) {
    if (when < timers.armed(c.index)) timers.arm(c.index, when);
  }
  void trace(TraceKind kind, ConnId conn, const TraceDetail& detail) {
    if (!recorder.wants(kind)) return;
    recorder.record({.first = detail.first,
                     .second = detail.second,
                     .conn = conn,
                     .path = detail.path.value,
                     .kind = kind,
                     .cause = detail.cause});
  }
  void set_phase(MessageConnection& c, Phase phase) {
    c.phase = phase;
    trace(TraceKind::kState, c.id, {.cause = static_cast<std::uint8_t>(phase)});
  }
  void push_event(ConnEvent::Kind kind, MessageConnection& c) {
    if (events.is_full()) return;  // sized for every event a connection can have
    events.push_back(ConnEvent{.kind = kind, .conn = c.id, .listener = c.listener});
  }
};

// "peer shm://name, process 4711"
std::string describe_peer(const MessageContext& ctx, const MessageConnection& c);

}  // namespace spindrift
