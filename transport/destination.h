#pragma once
// Where the bytes of a SEND or WRITE go: the region its key names, or the RECEIVE that it meets.
// Nothing here trusts a field of the packet.
#include <span>

#include "transport/engine_context.h"
#include "transport/placement.h"

namespace spindrift {

// False: lengths of a SEND or WRITE packet that contradict each other.
inline bool is_consistent(const wire::StandardRequest& ses, std::size_t payload) {
  const std::uint64_t offset = ses.is_som ? 0 : ses.message_offset;
  if (ses.request_length > kMaxMessageBytes) return false;
  if (!ses.is_som && ses.payload_length != payload) return false;
  if (offset + payload > ses.request_length) return false;
  return ses.is_eom == (offset + payload == ses.request_length);
}

struct Destination {
  wire::ReturnCode code = wire::ReturnCode::kOk;  // kNull: no RECEIVE yet; else only kOk is good
  bool is_line_ordered = false;
  std::byte* region = nullptr;  // WRITE: where the message begins
  ReceiveSlot* slot = nullptr;  // SEND, WRITE_WITH_IMM

  // Bytes of the message from `offset` on.
  void put(std::uint64_t offset, std::span<const std::byte> bytes) const {
    if (region != nullptr)
      place(region + offset, bytes, is_line_ordered);
    else if (slot != nullptr)
      scatter(slot->posted.list(), offset, bytes, slot->posted.line_ordered);
  }
};

// The slot of a SEND or WRITE_WITH_IMM packet, checked against what is known of its message. kNull:
// no RECEIVE yet.
inline wire::ReturnCode find_slot(Connection& c, const wire::StandardRequest& ses, bool is_write,
                                  ReceiveSlot*& slot) {
  using wire::ReturnCode;
  if (c.receives->is_past(ses.initiator)) return ReturnCode::kOperation;
  slot = c.receives->find(ses.initiator);
  if (slot == nullptr) return ReturnCode::kNull;
  if (slot->state == ReceiveSlot::State::kPosted) {
    slot->state = ReceiveSlot::State::kArriving;
    slot->message_bytes = ses.request_length;
    slot->is_write = is_write;
  }
  if (slot->message_bytes != ses.request_length || slot->is_write != is_write)
    return ReturnCode::kOperation;
  if (!is_write && ses.request_length > slot->posted.capacity_bytes) {
    slot->has_end = true;
    return ReturnCode::kTooLong;
  }
  return ReturnCode::kOk;
}

// Of the message of a SEND or WRITE packet.
inline Destination find_destination(EngineContext& ctx, Connection& c,
                                    const wire::StandardRequest& ses) {
  Destination to;
  const bool is_write = ses.opcode == wire::Opcode::kWrite;
  if (is_write) {
    const MemoryTable::Target target =
        ctx.memory.find(ses.key, ses.buffer_offset, ses.request_length, Access::kRemoteWrite);
    to.code = target.code;
    to.region = target.data;
    to.is_line_ordered = target.is_line_ordered;
  }
  if (to.code == wire::ReturnCode::kOk && (!is_write || ses.has_header_data))
    to.code = find_slot(c, ses, is_write, to.slot);
  return to;
}

// A packet's share in what its RECEIVE reports.
inline void note_arrival(ReceiveSlot& slot, const wire::StandardRequest& ses, std::size_t payload,
                         Psn psn) {
  slot.received_bytes += payload;
  if (ses.is_som) slot.immediate = static_cast<std::uint32_t>(ses.header_data);
  if (!ses.is_eom) return;
  slot.has_end = true;
  slot.last_psn = psn;
}

}  // namespace spindrift
