#pragma once
// All state of one connection of the MessageEngine. Plain data: the parts of the engine (handshake,
// sender, receiver, completions, timers) are free functions over it, one file each.
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "spindrift/endpoint.h"

#include "transport/connection.h"
#include "transport/message/message_fetching.h"
#include "transport/message/message_record.h"
#include "transport/receive_queue.h"

namespace spindrift {

// A posted SEND, WRITE, READ or atomic. Assigned field by field: the list is long and mostly
// unused.
struct MessageRequest {  // NOLINT(cppcoreguidelines-pro-type-member-init)
  enum class State : std::uint8_t {
    kQueued,    // nothing of it was sent, or it was turned away whole
    kSending,   // some of it
    kSent,      // all of it
    kFinished,  // `status` is final; completes when its turn comes
  };
  std::uint64_t user_data;
  std::uint64_t remote_key;
  std::uint64_t remote_offset;
  std::uint64_t operand;
  std::uint64_t compare;
  Time deadline;
  std::uint32_t length;  // payload bytes; for READ: bytes to fetch
  std::uint32_t sent_bytes;
  std::uint32_t answered_bytes;  // READ
  std::uint32_t number;          // of its first record, once begun
  std::uint32_t last_number;     // of its last record so far
  std::uint32_t immediate;
  std::uint32_t inline_buffer;
  std::uint32_t line_ordered;  // bit per piece
  OpKind kind;
  OpStatus status;
  State state;
  std::uint8_t sge_count;
  bool is_unsignaled;
  bool has_fence;
  bool is_answered;       // READ, atomics
  bool is_being_fetched;  // READ: its bytes were offered
  bool is_offered;        // once begun: the peer fetches its bytes
  bool is_of_device;      // from or to a device's memory, where processors copy nothing
  std::array<Sge, kMaxSge> sge;

  std::span<const Sge> list() const { return {sge.data(), sge_count}; }
  bool wants_receive() const { return kind == OpKind::kSend || kind == OpKind::kWriteImm; }
  bool wants_response() const {
    return kind == OpKind::kRead || kind == OpKind::kFetchAdd || kind == OpKind::kCompareSwap;
  }
};

// A READ or atomic of the peer that was executed and whose answer is on its way.
struct MessageResponse {
  std::uint64_t key = 0;
  std::uint64_t offset = 0;
  std::uint64_t result = 0;  // atomics
  std::uint32_t number = 0;  // of the request
  std::uint32_t length = 0;
  std::uint32_t sent_bytes = 0;
  bool is_atomic = false;
  bool is_offered = false;  // the peer fetches it and says when it has
  bool wants_offer = false;
};

// What was sent on one path before the next was picked; it is over when `last_number` is done.
struct PathBurst {
  PathId path{};
  std::uint32_t packets = 0;
  std::uint64_t bytes = 0;
  std::uint32_t last_number = 0;
};

// The message of the peer whose records come at the moment.
struct IncomingMessage {
  RecordKind kind = RecordKind::kSend;
  bool is_open = false;  // more of it must come
  std::uint32_t length = 0;
  std::uint32_t begun = 0;    // bytes of it that have a place
  std::uint32_t receive = 0;  // sequence number of its RECEIVE, where it needs one
  std::uint64_t key = 0;
  std::uint64_t offset = 0;
};

struct MessageConnection {
  ConnId id{};
  std::uint16_t index = 0;
  Phase phase = Phase::kConnecting;
  bool is_initiator = false;
  bool has_peer = false;  // the fabric knows `peer`
  bool has_crc = false;
  bool is_ready = false;    // in the engine's ready list
  bool is_stirred = false;  // in the list of those whose arrivals are to be looked at
  bool is_blocked_on_queue = false;
  bool close_event_sent = false;
  bool owes_bulletin = false;  // something to show that no record has told
  bool settles = false;        // the peer shows an end: it comes when all it sent is taken in
  bool has_drained = false;    // ... since then nothing more came
  bool ignores_rest = false;   // bytes that it gave up were dropped: what follows builds on them
  bool peer_progresses_alone = false;
  bool sprays_messages = false;       // they take paths, as reads do
  bool has_flushed_messages = false;  // the peer closed; no later message may follow the gap
  bool is_turned_away = false;        // our message met no RECEIVE, and waits for the invitation
  FabricPeer peer{};
  std::uint64_t nonce = 0;
  std::uint64_t peer_nonce = 0;
  ListenerId listener{};
  ConnectOptions options;
  Registry::CcChoice cc;
  const PathSelectorInfo* selector = nullptr;
  std::vector<std::string> remotes;  // addresses without the scheme; [0] was called
  std::vector<std::string> locals;
  std::vector<std::byte> private_data;  // the peer's
  std::uint32_t payload_mtu = 0;
  bool may_offer = false;  // the peer can fetch messages
  std::uint32_t peer_mtu = 0;
  std::uint8_t peer_crc = 0;
  std::uint32_t peer_max_reads = 0;
  Time started{};
  Time gives_up = kNever;  // the handshake
  Time close_gives_up = kNever;
  Time next_silence_check = kNever;
  std::uint32_t heard = 0;  // anything from the peer
  std::uint32_t heard_before = 0;
  Time heard_since{};               // `heard` has not changed since then
  Time earliest_deadline = kNever;  // of posted work, never later than the true one
  std::string gone_cause;

  // Our requests. Records are numbered as they are sent, modulo 2^32.
  std::optional<Ring<MessageRequest>> requests;
  std::uint64_t next_request = 0;     // serial of the first not sent whole
  std::uint64_t oldest_read = 0;      // no READ or atomic before this serial waits for its answer
  std::uint64_t next_offered = 0;     // ... or for the beginning of it
  std::uint32_t read_dones_owed = 0;  // READs of ours that were fetched, and the peer does not know
  std::uint32_t begun = 0;            // records sent
  std::uint32_t acked = 0;            // of these, taken in by the peer
  std::uint32_t reads_waiting = 0;
  std::uint32_t messages_begun = 0;  // that need a RECEIVE
  std::uint32_t peer_credits = 0;
  std::uint32_t told_credits = 0;  // what the peer knows of ours
  std::uint16_t refusals_heard = 0;
  std::uint16_t invitations_heard = 0;
  Bulletin peer_shows;

  // The peer's requests.
  std::optional<Ring<MessageResponse>> responses;
  std::uint64_t next_response = 0;  // serial of the first not sent whole
  std::optional<ReceiveQueue> receives;
  std::uint32_t executed = 0;      // records of its requests, taken in
  std::uint32_t next_message = 0;  // that needs a RECEIVE
  IncomingMessage incoming;
  std::optional<Ring<Arrival>> arrivals;  // what waits for its bytes, and all that came behind it
  std::uint64_t next_begin = 0;           // serial of the first that has not begun
  std::optional<Fetching> fetching;       // where the peer's memory can be read
  Bulletin shows;
  OpStatus pending_fault = OpStatus::kOk;  // told when what was asked before is answered
  std::string pending_reason;

  // Paths and congestion control.
  std::optional<PathTable> paths;
  std::optional<Flow> flow;
  RttEstimator rtt;
  PathBurst burst;
  std::uint64_t burst_left = 0;
  std::optional<Ring<PathBurst>> bursts;
  std::uint32_t denied_paths = 0;     // by this side's operator
  std::uint32_t lane_notes_owed = 0;  // of these, changes that the peer does not know
  std::vector<LaneDenial> denials{};  // by path; empty before the first

  ConnectionCounters counters;
  std::string error;

  std::uint32_t packets_of(std::uint64_t bytes) const {
    return bytes <= payload_mtu
               ? 1
               : static_cast<std::uint32_t>((bytes + payload_mtu - 1) / payload_mtu);
  }
};

}  // namespace spindrift
