#pragma once
// Work of one connection's requester side and the responses it owes its peer. Rings in posting
// order; which packet of which message comes next is decided here, what it looks like in
// packet_builder.
#include <array>
#include <cstdint>
#include <span>

#include "spindrift/work.h"

#include "transport/base/ring.h"

namespace spindrift {

inline constexpr std::uint32_t kNoInlineBuffer = 0xffffffff;

// A posted SEND, WRITE, READ or atomic.
struct Request {
  enum class State : std::uint8_t {
    kQueued,    // no packet sent
    kSending,   // some packets sent at least once
    kSent,      // all packets sent at least once
    kFinished,  // status is final; completes when its turn comes
  };
  std::uint64_t user_data = 0;
  std::uint64_t remote_key = 0;
  std::uint64_t remote_offset = 0;
  std::uint64_t operand = 0;
  std::uint64_t compare = 0;
  Time deadline = kNever;
  std::uint64_t last_transmission = 0;  // provider's count of the last packet naming its payload
  Psn last_psn{};                       // of its packets; once all were sent
  std::uint32_t length = 0;             // payload bytes; for READ: bytes to fetch
  std::uint32_t sent_bytes = 0;
  std::uint32_t unacked_packets = 0;
  std::uint32_t response_bytes = 0;  // READ, atomics: arrived so far
  std::uint32_t immediate = 0;
  std::uint32_t sequence = 0;  // receive sequence number, or read serial, or write serial
  std::uint32_t inline_buffer = kNoInlineBuffer;
  std::uint32_t line_ordered = 0;  // bit per piece
  OpKind kind = OpKind::kSend;
  OpStatus status = OpStatus::kOk;
  State state = State::kQueued;
  std::uint8_t sge_count = 0;
  bool is_unsignaled = false;
  bool has_fence = false;
  bool is_answered = false;  // READ, atomics: all response bytes are here
  std::array<Sge, kMaxSge> sge{};

  std::span<const Sge> list() const { return {sge.data(), sge_count}; }
  bool wants_receive() const { return kind == OpKind::kSend || kind == OpKind::kWriteImm; }
  bool wants_response() const {
    return kind == OpKind::kRead || kind == OpKind::kFetchAdd || kind == OpKind::kCompareSwap;
  }
  // A READ request is one packet without payload, whatever its length.
  std::uint32_t request_payload_bytes() const {
    if (kind == OpKind::kRead || kind == OpKind::kCompareSwap) return 0;
    return kind == OpKind::kFetchAdd ? 8 : length;
  }
};

// Read data or an atomic's result on its way back.
struct ResponseWork {
  std::uint64_t key = 0;  // READ: resolved again for every packet, so a dead region stays dead
  std::uint64_t offset = 0;
  std::uint64_t result = 0;  // atomics: the old value, big endian
  std::uint64_t last_transmission = 0;
  std::uint32_t length = 0;
  std::uint32_t sent_bytes = 0;
  std::uint32_t unacked_packets = 0;
  std::uint16_t message_id = 0;
  bool is_atomic = false;
  bool is_sent = false;  // all packets at least once
};

struct SendQueue {
  SendQueue(std::uint32_t requests_capacity, std::uint32_t responses_capacity)
      : requests(requests_capacity), responses(responses_capacity), reads(requests_capacity) {}

  Ring<Request> requests;
  Ring<ResponseWork> responses;
  Ring<std::uint64_t> reads;        // serials of started READs and atomics, oldest first
  std::uint64_t next_request = 0;   // serial of the first request not completely sent
  std::uint64_t next_response = 0;  // serial of the first response not completely sent
  std::uint32_t next_receive_sequence = 0;
  std::uint32_t next_read_serial = 0;
  std::uint32_t next_write_serial = 0;
  std::uint64_t read_serial_base = 0;  // read serial of reads.front()
};

}  // namespace spindrift
