#pragma once
// All state of one connection. Plain data: the parts of the engine (handshake, sender, receiver,
// lifecycle, timers) are free functions over it, one file each.
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "spindrift/endpoint.h"
#include "spindrift/loss_rule.h"

#include "transport/counters.h"
#include "transport/flow.h"
#include "transport/paths/path_table.h"
#include "transport/receive_log.h"
#include "transport/receive_queue.h"
#include "transport/rtt.h"
#include "transport/send_queue.h"
#include "transport/sent_log.h"
#include "transport/wire/hello.h"
#include "transport/wire/ses.h"

namespace spindrift {

//  initiator:  kConnecting --ACCEPT--> kOpen          target: kRequested --accept()--> kAccepting
//                                                              --first packet--> kOpen
//  kOpen --close()--> kDraining --work done--> kClosing --acknowledged--> kClosed
//  kOpen, kDraining --peer's CLOSE--> kClosed         any --failure--> kFailed
enum class Phase : std::uint8_t {
  kConnecting,
  kRequested,
  kAccepting,
  kOpen,
  kDraining,
  kClosing,
  kClosed,
  kFailed,
};

// Where the packets of one path go.
struct PathRoute {
  std::uint16_t rail = 0;     // local
  std::uint16_t entropy = 0;  // of that rail
  std::uint16_t remote = 0;   // index into Connection::remotes
};

struct PeerTraits {
  std::uint64_t host_id = 0;
  std::uint64_t receive_buffer_bytes = 0;
  std::uint64_t link_rate_bps = 0;
  std::uint32_t window_packets = 0;
  std::uint32_t payload_mtu = 0;
  std::uint32_t max_reads = 0;
  bool progresses_alone = false;
  std::vector<std::byte> private_data;
};

struct HandshakeState {
  Time started{};
  Time next_attempt = kNever;
  Time gives_up = kNever;
  Time last_hello{};  // kRequested: the initiator still asks
  Time first_sent{};
  Psn own_start_psn{};  // of the first HELLO; later ones may carry a cookie instead
  std::uint32_t attempts = 0;
  std::uint32_t attempts_at_mtu = 0;
  std::uint32_t proposed_mtu = 0;
  bool is_pending_at_peer = false;  // our HELLO arrived; the application there decides
  bool send_now = false;
  bool acknowledge_hello = false;  // target: tell the initiator that its HELLO is here
  bool send_refusal = false;
  wire::RefuseCode refuse_code = wire::RefuseCode::kOther;
  std::string refuse_reason;
};

// One acknowledgement owed: what triggered it.
struct AckTrigger {
  Psn psn{};
  Time arrival{};
  bool is_marked = false;
  bool is_retransmit = false;
};

// A PROBE to answer.
struct ProbeQuestion {
  Psn base{};
  std::uint16_t opaque = 0;
};

struct AckState {
  static constexpr std::size_t kMaxTriggers = 8;
  std::array<AckTrigger, kMaxTriggers> triggers{};
  std::uint8_t trigger_count = 0;
  AckTrigger open{};  // newest data packet not covered by a trigger yet
  bool has_open = false;
  std::uint32_t open_bytes = 0;
  bool is_due_per_burst = false;  // every super-packet is acknowledged
  std::array<ProbeQuestion, kMaxTriggers> probes{};
  std::uint8_t probe_count = 0;
  Psn lowest_untold{UINT64_MAX};  // lowest PSN that arrived since the last acknowledgement
  bool owes_update = false;       // credits changed while the peer may be waiting for them
  std::uint32_t told_credits = 0;
  std::uint64_t received_nominal_bytes = 0;
  std::uint16_t duplicates = 0;  // data packets that came again, modulo 2^16
  std::uint8_t penalty = 0;      // rcv_cwnd_pend to send
  bool restores_window = false;
  std::uint16_t next_path = 0;  // acknowledgements rotate over the paths
};

// READ or atomic request that waits for earlier PSNs.
struct WaitingRead {
  Psn psn{};
  wire::StandardRequest request{};
  wire::AtomicExtension atomic{};
  std::uint64_t operand = 0;
};

struct NackOwed {
  Psn psn{};
  std::uint8_t code = 0;
  std::uint32_t payload = 0;
};

struct ReceiveState {
  ReceiveState(std::uint32_t window_packets, Psn first) : log(window_packets, first) {}
  ReceiveLog log;
  AckState ack;
  std::vector<WaitingRead> waiting;  // by PSN; capacity fixed at set-up
  std::array<NackOwed, 8> nacks{};
  std::uint8_t nack_count = 0;
  bool has_fault = false;  // an illegal packet arrived
  Psn fault_psn{};         // the first such
  wire::ReturnCode fault_code = wire::ReturnCode::kOk;
  bool has_close = false;
  Psn close_psn{};
};

struct ProbeRecord {
  Time sent{};
  PathId path{};
  std::uint16_t opaque = 0;
  bool is_outstanding = false;
};

struct PathLoss {
  std::uint64_t newest_acked_seq = 0;
  std::uint16_t reorder_threshold = 1;
};

struct LossState {
  explicit LossState(std::uint32_t path_count) : paths(path_count) {}
  std::vector<PathLoss> paths;
  Time newest_acked_sent{};        // latest send time among acknowledged packets (RACK)
  Time next_check = kNever;        // time-based judgement is due
  Time oldest_sent{};              // nothing in flight was sent before
  std::uint32_t window_shift = 0;  // the time window doubles when it proves too small
  Time last_spurious{};
};

struct SendState {
  SendState(const EndpointConfig& config, std::uint32_t window_packets, std::uint32_t path_count,
            Psn first)
      : queue(config.send_queue, 2 * config.max_reads),
        log(window_packets, path_count, first),
        lost(log_capacity(window_packets)),
        loss(path_count) {}
  static std::size_t log_capacity(std::uint32_t window_packets) {
    return std::bit_ceil(window_packets);
  }
  SendQueue queue;
  SentLog log;
  Ring<Psn> lost;              // to be sent again, oldest first; entries may have been acknowledged
  std::optional<Psn> stalled;  // receiver not ready for this one
  Time stalled_retry = kNever;
  Duration stalled_backoff{};
  LossState loss;
  std::uint32_t peer_credits = 0;  // RECEIVEs the peer ever posted
  bool peer_has_closed = false;    // ... and it posts no more
  std::uint32_t peer_received_quanta = 0;
  std::uint16_t peer_duplicates = 0;
  std::uint64_t peer_window = 0;  // PSNs above CACK the peer tracks
  Time last_progress{};           // last time something new was acknowledged, or sending began
  Time last_delivery{};           // the same, but a timeout does not move it
  Time tail_probe = kNever;
  Time confirm_probe = kNever;  // to confirm bad news about the peer
  std::uint32_t timeouts_in_row = 0;
  std::array<ProbeRecord, 8> probes{};
  std::uint16_t next_opaque = 1;
  std::optional<PathId> path_probe;  // BAD path to probe now
  std::uint8_t probes_wanted = 0;    // tail, timeout, credit, keepalive
  bool wants_close = false;
  Time last_cnp{};
  Time credit_probe = kNever;
  Duration credit_backoff{};
};

// Of a receiver-driven connection; both sides send. Bytes are cumulative.
struct CreditState {
  // As the sender.
  std::uint64_t granted_bytes = 0;  // by the peer
  std::uint64_t asked_bytes = 0;    // told the peer last
  Time ask_again = kNever;
  Duration backoff{};
  bool owes_request = false;
  // As the receiver.
  std::uint64_t wanted_bytes = 0;    // the peer told last
  std::uint64_t to_grant_bytes = 0;  // to tell the peer
  bool owes_grant = false;
};

struct Connection {
  ConnId id{};
  std::uint16_t index = 0;
  std::uint16_t pdcid = 0;
  std::uint16_t peer_pdcid = 0;
  Phase phase = Phase::kConnecting;
  bool is_initiator = false;
  bool has_crc = true;
  bool is_ready = false;             // in the engine's ready list
  bool is_blocked_on_queue = false;  // completions wait for room
  bool wants_abort_notice = false;
  bool close_event_sent = false;
  bool awaits_keepalive = false;
  std::uint32_t crc_seed = 0;  // CRC over both nonces
  std::uint64_t nonce = 0;     // ours
  std::uint64_t peer_nonce = 0;
  ListenerId listener{};
  ConnectOptions options;
  Registry::CcChoice cc;
  const PathSelectorInfo* selector = nullptr;
  const LossRule* loss_rule = nullptr;
  std::vector<NetAddress> remotes;   // the peer's rails; [0] is where it was first met
  std::uint16_t last_remote = 0;     // where the last packet came from
  std::vector<std::uint16_t> rails;  // ours
  std::vector<PathRoute> routes;     // by PathId
  PeerTraits peer;
  std::uint32_t denied_paths = 0;
  std::uint32_t payload_mtu = 0;
  HandshakeState handshake;
  std::vector<std::byte> hello_bytes;
  std::uint8_t peer_hello_crc = 0;  // CrcChoice proposed by the initiator
  bool peer_is_receiver_driven = false;
  std::uint32_t peer_credits = 0;  // from the HELLO
  Psn first_psn{};                 // our HELLO's; data begins one above
  Psn peer_first_psn{};
  std::optional<PathTable> paths;
  std::optional<Flow> flow;
  RttEstimator rtt;
  std::optional<SendState> send;
  std::optional<ReceiveState> receive;
  std::optional<CreditState> credit;
  std::optional<ReceiveQueue> receives;  // RECEIVEs may be posted before the connection is open
  Time last_heard{};
  Time waiting_since = kNever;  // operations await the peer since then
  Time next_keepalive = kNever;
  Time earliest_deadline = kNever;  // of posted work, never later than the true one
  Time close_gives_up = kNever;
  Time port_unreachable_since = kNever;
  std::uint32_t unreachable_remotes = 0;  // a bit per remote, since then
  Time unknown_since = kNever;            // the peer said it does not know this connection
  SendLimits limits_traced{};
  Time limits_traced_next{};
  ConnectionCounters counters;
  std::string error;
};

// Bytes a packet counts for in congestion control: its UDP payload plus what lies below, the same
// for both ends (UET 3.6.12, nominal packet size: transport size + 40).
inline constexpr std::uint32_t kNominalOverheadBytes = 8 + 40;
inline constexpr std::uint32_t kRequestHeaderBytes = 12 + 44;
inline constexpr std::uint32_t kCrcBytes = 4;
// Largest header + trailer around a payload of payload_mtu bytes.
inline constexpr std::uint32_t kMaxPacketOverhead = kRequestHeaderBytes + kCrcBytes;

inline bool is_over(Phase phase) {
  return phase == Phase::kClosed || phase == Phase::kFailed;
}
inline bool carries_data(Phase phase) {
  return phase == Phase::kOpen || phase == Phase::kDraining || phase == Phase::kClosing;
}

}  // namespace spindrift
