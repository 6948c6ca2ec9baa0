#pragma once
// What all connections of an engine share. Handed by reference to the engine's parts.
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "spindrift/endpoint.h"

#include "transport/base/flight_recorder.h"
#include "transport/base/pages.h"
#include "transport/base/ring.h"
#include "transport/base/rng.h"
#include "transport/connection.h"
#include "transport/credit_pacer.h"
#include "transport/memory_table.h"
#include "transport/timer_heap.h"

namespace spindrift {

// What the engine asks of the provider at set-up, answered by the endpoint: the engine itself never
// calls a provider.
class RailDirectory {
 public:
  virtual ~RailDirectory() = default;
  virtual std::span<const NetAddress> rails() const = 0;
  virtual const PacketIoCaps& caps() const = 0;
  virtual std::uint32_t max_packet_bytes(std::uint16_t rail, const NetAddress& remote) const = 0;
  virtual Status open_entropies(std::uint16_t rail, std::uint16_t count) = 0;
};

struct Listener {
  ListenerId id{};
  ListenOptions options{};
  std::vector<std::uint16_t> rails;
  std::uint32_t waiting = 0;  // requests not yet accepted or rejected
  bool is_open = false;
  bool is_wildcard = false;  // stands for every address of the host
};

// A packet for somebody we keep no connection with.
struct StrangerReply {
  NetAddress to{};
  std::uint16_t rail = 0;
  std::uint8_t bytes = 0;
  std::array<std::byte, 64> packet{};
  std::unique_ptr<std::array<std::byte, wire::kMaxHelloBytes>> hello;  // refusals
  std::uint16_t hello_bytes = 0;
};

inline constexpr Duration kLimitsTraceInterval = std::chrono::milliseconds(1);

struct EngineIdentity {
  std::uint64_t host_id = 0;
  std::uint64_t seed = 0;
  std::array<std::uint8_t, 16> cookie_key{};
  bool progresses_alone = false;
};

// What a trace event says beside its kind and connection; see trace_kind_info().
struct TraceDetail {
  std::uint8_t cause = 0;
  PathId path{};
  std::uint64_t first = 0;
  std::uint64_t second = 0;
};

// An inline buffer of a connection that was released while the provider still read from it.
struct OrphanedInline {
  std::uint64_t last_transmission = 0;
  std::uint32_t buffer = 0;
};
// The HELLO or refusal of a connection that was released, as long as the provider may read it.
struct OrphanedHello {
  std::vector<std::byte> bytes;
  std::uint64_t last_transmission = 0;
};

struct EngineContext {
  EngineContext(const EndpointConfig& endpoint_config, const Registry& names,
                RailDirectory& directory, const EngineIdentity& who)
      : config(endpoint_config),
        registry(names),
        rails(directory),
        identity(who),
        rng(who.seed),
        memory(endpoint_config.max_regions),
        completions(endpoint_config.completion_queue),
        events(std::size_t{4} * endpoint_config.max_connections),
        timers(endpoint_config.max_connections + 1),
        ready(endpoint_config.max_connections),
        strangers(64),
        connections(endpoint_config.max_connections),
        generations(endpoint_config.max_connections, 0),
        recorder(endpoint_config.trace_events, endpoint_config.trace_level),
        inline_bytes(
            Pages::map(std::size_t{endpoint_config.inline_buffers} * kMaxInlineBytes).value()) {}

  const EndpointConfig config;
  const Registry& registry;
  RailDirectory& rails;
  EngineIdentity identity;
  Rng rng;
  MemoryTable memory;
  Ring<Completion> completions;
  Ring<ConnEvent> events;
  TimerHeap timers;                           // by connection index, then pacer_actor()
  std::unique_ptr<CreditPacer> credit_pacer;  // once a connection is receiver-driven
  Ring<std::uint16_t> ready;  // connections with something to send; each at most once
  Ring<StrangerReply> strangers;
  std::vector<std::unique_ptr<Connection>> connections;
  std::vector<std::uint16_t> generations;
  FlightRecorder recorder;
  std::unordered_map<std::uint64_t, std::uint16_t> by_nonce;  // targets' connections, by HELLO
  std::vector<std::uint16_t>
      free_slots;  // used in turn, so that a slot rests before it is used again
  std::vector<Listener> listeners;
  std::vector<std::unique_ptr<SharedReceiveQueue>> shared_queues;
  Pages inline_bytes;
  std::vector<std::uint32_t> free_inline;
  std::vector<OrphanedInline> orphaned_inline;
  std::vector<OrphanedHello> orphaned_hellos;
  std::uint64_t transmissions = 0;  // packets handed to the provider
  std::uint64_t released = 0;       // of these, payload no longer referenced
  bool is_release_awaited = false;  // by a finished request, to be delivered
  bool has_new_data = false;        // a data packet came in this turn
  ConnId bursting{};  // acknowledges its data when the super-packet being taken in ends
  std::uint8_t receive_penalty = 0;  // rcv_cwnd_pend of this turn's acknowledgements
  std::uint32_t half_open = 0;       // kRequested and kAccepting
  std::uint32_t open_connections = 0;
  std::uint32_t blocked_on_queue = 0;
  EndpointCounters counters;
  ConnectionCounters closed_totals;  // of connections already released
  std::string last_error;
  std::array<PathFeedback, 64> path_feedback{};  // of the acknowledgement at work

  std::uint32_t pacer_actor() const { return config.max_connections; }
  Connection* find(ConnId id) {
    const std::uint32_t index = id.value & 0xffff;
    if (id.value == 0 || index >= connections.size() || !connections[index]) return nullptr;
    return connections[index]->id == id ? connections[index].get() : nullptr;
  }
  Connection* find_pdcid(std::uint16_t pdcid) {
    if (pdcid == 0 || pdcid > connections.size()) return nullptr;
    return connections[pdcid - 1U].get();
  }
  void make_ready(Connection& c) {
    if (c.is_ready) return;
    c.is_ready = true;
    ready.push_back(c.index);
  }
  // The timer may only be moved earlier here; it re-reads the true deadline when it fires.
  void arm(Connection& c, Time when) {
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
  void trace_phase(const Connection& c) {
    trace(TraceKind::kState, c.id, {.cause = static_cast<std::uint8_t>(c.phase)});
  }
  void trace_path(const Connection& c, PathId path) {
    const auto state = static_cast<std::uint8_t>(c.paths->state(path));
    trace(TraceKind::kPath, c.id, {.cause = state, .path = path});
  }
  void trace_unit(TraceKind kind, const Connection& c, const SentUnit& unit,
                  std::uint8_t cause = 0) {
    trace(
        kind, c.id,
        {.cause = cause, .path = unit.path, .first = unit.psn.value, .second = unit.transmissions});
  }
  void trace_sent(const Connection& c, const SentUnit& unit) {
    if (unit.transmissions > 1) [[unlikely]]
      trace_unit(TraceKind::kRetransmit, c, unit);
    else
      trace(TraceKind::kPacketSent, c.id,
            {.path = unit.path, .first = unit.psn.value, .second = unit.nominal_bytes});
  }
  void trace_refused(ConnId conn, TraceRefusal cause, std::uint64_t bytes) {
    trace(TraceKind::kRefused, conn, {.cause = static_cast<std::uint8_t>(cause), .first = bytes});
  }
  // Where the limits move all the time, a sample of them.
  void trace_limits(Connection& c, Time now) {
    if (now < c.limits_traced_next) return;
    c.limits_traced_next = now + kLimitsTraceInterval;
    const SendLimits& limits = c.flow->limits();
    if (limits.window_bytes == c.limits_traced.window_bytes &&
        limits.pacing_rate == c.limits_traced.pacing_rate)
      return;
    c.limits_traced = limits;
    trace(TraceKind::kLimits, c.id,
          {.first = c.flow->window_bytes(), .second = limits.pacing_rate.bits_per_second()});
  }
  void push_event(ConnEvent::Kind kind, Connection& c) {
    if (events.is_full()) return;  // sized for every event a connection can have
    events.push_back(ConnEvent{.kind = kind, .conn = c.id, .listener = c.listener});
  }
};

}  // namespace spindrift
