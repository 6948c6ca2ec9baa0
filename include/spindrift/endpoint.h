#pragma once
// Endpoint: the user's view of the transport.
//
// The contract, for every provider and engine:
//  * Operations: SEND/RECEIVE, WRITE, WRITE_WITH_IMM, READ, FETCH_ADD and COMPARE_SWAP (64 bit), up
//    to 2^31 bytes per message, zero length allowed, scatter/gather lists of up to kMaxSge entries.
//  * Per connection, requester completions come in posting order. SENDs match posted RECEIVEs in
//    posting order. A receive or immediate completion is delivered only when all bytes of that
//    message, and all earlier messages of the connection, are in place. Bytes of one message may
//    land in any order before that.
//  * Exactly once, under any loss, duplication, reordering, corruption (CRC on) and delay that
//    leaves a path alive.
//  * Every operation ends: success, or an error status within its deadline. Closing and aborting
//    never need the peer's help.
//  * A peer can never write or read outside a region registered for it with the right access: key,
//    bounds, right and region epoch are checked; nothing from the peer is an address we trust, and
//    nothing from the peer can trip an assertion.
//  * Everything is negotiated at connect (version, payload MTU, congestion-control family,
//    integrity check, partition) and refused with a sentence if it does not fit.
//  * Errors say who, which path, what was last heard and the likely cause.
//  * NO AUTHENTICATION AND NO ENCRYPTION: for trusted networks only.
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spindrift/address.h"
#include "spindrift/config.h"
#include "spindrift/export.h"
#include "spindrift/memory.h"
#include "spindrift/provider.h"
#include "spindrift/registry.h"
#include "spindrift/result.h"
#include "spindrift/stats.h"
#include "spindrift/trace.h"
#include "spindrift/work.h"

namespace spindrift {

enum class ConnState : std::uint8_t { kConnecting, kRequested, kOpen, kDraining, kClosed, kFailed };
SPINDRIFT_EXPORT std::string_view to_string(ConnState state);

struct ConnEvent {
  enum class Kind : std::uint8_t {
    kRequest,      // a peer wants to connect: accept() or reject()
    kEstablished,  // work may be posted (both sides)
    kClosed,       // closed by either side; all work has completed
    kFailed,       // last_error() has the cause; all work has completed with an error
  };
  Kind kind = Kind::kRequest;
  ConnId conn{};
  ListenerId listener{};  // kRequest
};

struct ConnInfo {
  ConnState state = ConnState::kConnecting;
  std::string local_address;            // "udp://10.0.0.2:40001"
  std::string remote_address;           // "udp://10.0.0.1:4793"
  std::vector<std::byte> private_data;  // the peer's
  std::uint32_t payload_mtu = 0;
  std::uint32_t path_count = 0;
  bool has_crc = false;
  bool peer_progresses_alone = false;
  std::string congestion_control;
  std::string path_selector;
  std::string loss_rule;
};

// What one path of a connection has carried. Paths are numbered by PathId.
struct PathReport {
  std::string local_address;
  std::string remote_address;
  std::string_view state;  // "good", "skip", "bad", "denied"
  std::uint64_t packets_sent = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t packets_lost = 0;
  std::uint64_t packets_marked = 0;
  Duration rtt{};  // smoothed; zero: none yet
};

class MessageFabric;  // message_fabric.h

// One thread, one provider, many connections. Not thread-safe: give each thread its own. Only the
// guardian (EndpointConfig::has_guardian) may run beside the caller, and it is synchronised inside.
class Endpoint {
 public:
  // `registry` must outlive the endpoint; open.h has the usual one, and open_endpoint(),
  // which also opens the provider from an address.
  SPINDRIFT_EXPORT static Result<std::unique_ptr<Endpoint>> create(std::unique_ptr<PacketIo> io,
                                                                   const EndpointConfig& config,
                                                                   const Registry& registry);
  SPINDRIFT_EXPORT static Result<std::unique_ptr<Endpoint>> create(
      std::unique_ptr<MessageFabric> fabric, const EndpointConfig& config,
      const Registry& registry);
  // Aborts every connection.
  virtual ~Endpoint() = default;

  // Memory. Fails when max_regions is reached, naming the limit.
  [[nodiscard]] virtual Result<MemoryRegion> register_memory(
      std::span<std::byte> bytes, Access access, const RegisterOptions& options = {}) = 0;
  // The key is dead when this returns. Refused (kUnavailable) while local work that names the
  // region is outstanding (then the key lives on), or while a provider that sends in place still
  // reads from it, for a READ of a peer or a connection that was released: progress() and try
  // again.
  [[nodiscard]] virtual Status deregister_memory(const MemoryRegion& region) = 0;

  // Connections. Addresses: "udp://10.0.0.1:4793" or a list of rails,
  // "udp://10.0.0.1:4793,10.1.0.1:4793"; "shm://name" and "shm:///run/app/socket" on one host.
  // Port 0 (no name) in listen() picks one; local_addresses() tells.
  [[nodiscard]] virtual Result<ListenerId> listen(std::string_view address,
                                                  const ListenOptions& options = {}) = 0;
  virtual void stop_listening(ListenerId listener) = 0;
  [[nodiscard]] virtual std::vector<std::string> local_addresses() const = 0;
  // Returns at once; kEstablished or kFailed follows within options.connect_timeout. RECEIVEs may
  // be posted at once; other work after kEstablished.
  [[nodiscard]] virtual Result<ConnId> connect(std::string_view address,
                                               const ConnectOptions& options = {}) = 0;
  // For a connection announced by kRequest. RECEIVEs may be posted before accept().
  [[nodiscard]] virtual Status accept(ConnId conn, const ConnectOptions& options = {}) = 0;
  // `reason` (up to 200 bytes) is what the peer's last_error() will say.
  [[nodiscard]] virtual Status reject(ConnId conn, std::string_view reason) = 0;
  // Lets posted work finish, then says farewell; kClosed follows, at the latest close_timeout after
  // the last operation ended. RECEIVEs still posted complete with kFlushed.
  virtual void close(ConnId conn) = 0;
  // Ends everything now: all work completes with kFlushed, kClosed follows; the peer is told once.
  virtual void abort(ConnId conn) = 0;
  // Forgets a closed or failed connection and its id. Done for all by the destructor.
  virtual void release(ConnId conn) = 0;
  [[nodiscard]] virtual std::size_t poll_events(std::span<ConnEvent> out) = 0;
  // Takes the oldest event of one kind and leaves the others; false: there is none.
  [[nodiscard]] virtual bool take_event(ConnEvent::Kind kind, ConnEvent& out) = 0;
  [[nodiscard]] virtual Result<ConnInfo> info(ConnId conn) const = 0;
  // Operator's choice: a denied path carries nothing until allowed again.
  [[nodiscard]] virtual Status deny_path(ConnId conn, PathId path, bool is_denied) = 0;

  // Shared receive queues: RECEIVEs for any connection that names one in its options. It can be
  // used by post_shared; the endpoint frees it at the end.
  [[nodiscard]] virtual Result<SharedQueueId> create_shared_receive_queue(
      std::uint32_t capacity) = 0;

  // Work. Accepts a prefix; the result says how long and why no more. A RECEIVE may be posted in
  // every state before draining.
  [[nodiscard]] virtual PostResult post(std::span<const WorkRequest> work) = 0;
  [[nodiscard]] virtual PostResult post_shared(SharedQueueId queue,
                                               std::span<const WorkRequest> receives) = 0;
  // One turn of the loop: receive, run timers, transmit. Never blocks, bounded work.
  virtual void progress() = 0;
  // Takes completions; runs one turn first when there are none waiting. When the queue
  // (EndpointConfig::completion_queue) would overflow, the connection at fault fails with that
  // cause and its completions wait inside until there is room: an error, and nothing is lost.
  [[nodiscard]] virtual std::size_t poll(std::span<Completion> out) = 0;

  // Blocking callers: arm(), then wait for wait_fd() to become readable (poll, epoll), then
  // progress(). arm() returns false when there is something to do already. wait_fd() is -1 for
  // providers without descriptors.
  [[nodiscard]] virtual int wait_fd() = 0;
  [[nodiscard]] virtual bool arm() = 0;
  // arm and poll(2) in one: returns when there may be something to do, or after `timeout`.
  virtual void wait(Duration timeout) = 0;
  // When progress() has something to do at the latest; kNever when only the peer can change that.
  [[nodiscard]] virtual Time next_deadline() const = 0;
  [[nodiscard]] virtual Time now() const = 0;

  // Why the connection failed, or why the last call on it was refused. The endpoint's own last
  // refusal for an id of zero.
  [[nodiscard]] virtual std::string last_error(ConnId conn) const = 0;
  // Counters of the endpoint (all connections and the provider), or of one connection.
  virtual void counters(CounterWriter& out) const = 0;
  virtual void counters(ConnId conn, CounterWriter& out) const = 0;
  // State of the connection's flow: window, rate, RTT, and the algorithm's own.
  virtual void describe(ConnId conn, StateWriter& out) const = 0;
  [[nodiscard]] virtual std::vector<PathReport> paths(ConnId conn) const = 0;
  // What the flight recorder holds (EndpointConfig::trace_events, trace_level).
  [[nodiscard]] virtual Trace trace() const { return {}; }
  // Appends what was recorded since the last time to the file EndpointConfig::trace. Done whenever
  // a connection has failed, and by the destructor; here the caller hears when it cannot be
  // written. Nothing happens when there is no such file.
  [[nodiscard]] virtual Status write_trace() { return ok_status(); }
};

// Waiting made short, for programs that have nothing else to do. All take the time they may need;
// errors name what did not come. connect_and_wait() and accept_one() leave the events of other
// connections where they are, and release what did not open.
[[nodiscard]] SPINDRIFT_EXPORT Result<ConnEvent> wait_event(Endpoint& endpoint, Duration timeout);
[[nodiscard]] SPINDRIFT_EXPORT Result<Completion> wait_completion(Endpoint& endpoint,
                                                                  Duration timeout);
[[nodiscard]] SPINDRIFT_EXPORT Result<ConnId> connect_and_wait(Endpoint& endpoint,
                                                               std::string_view address,
                                                               const ConnectOptions& options = {});
[[nodiscard]] SPINDRIFT_EXPORT Result<ConnId> accept_one(Endpoint& endpoint, Duration timeout,
                                                         const ConnectOptions& options = {});

}  // namespace spindrift
