#include "transport/receiver.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "transport/base/bytes.h"
#include "transport/completions.h"
#include "transport/describe.h"
#include "transport/destination.h"
#include "transport/placement.h"
#include "transport/responder.h"
#include "transport/sender.h"
#include "transport/wire/request_codec.h"

namespace spindrift {
namespace {

using wire::ReturnCode;

void owe_nack(EngineContext& ctx, Connection& c, const NackOwed& nack) {
  ReceiveState& receive = *c.receive;
  for (std::size_t i = 0; i < receive.nack_count; ++i)
    if (receive.nacks[i].psn == nack.psn) return;
  if (receive.nack_count == receive.nacks.size()) return;  // the peer will ask again
  receive.nacks[receive.nack_count++] = nack;
  ctx.trace(TraceKind::kNackSent, c.id, {.first = nack.psn.value, .second = nack.code});
  ctx.make_ready(c);
}

void owe_fault(EngineContext& ctx, Connection& c) {
  owe_nack(ctx, c,
           {.psn = c.receive->fault_psn,
            .code = static_cast<std::uint8_t>(wire::NackCode::kOperationError),
            .payload = static_cast<std::uint32_t>(c.receive->fault_code)});
}

ReturnCode accept_message(EngineContext& ctx, Connection& c, Psn psn,
                          const wire::StandardRequest& ses, std::span<const std::byte> payload) {
  if (!is_consistent(ses, payload.size())) return ReturnCode::kOperation;
  const Destination to = find_destination(ctx, c, ses);
  if (to.code != ReturnCode::kOk) return to.code;
  to.put(ses.is_som ? 0 : ses.message_offset, payload);
  if (to.slot != nullptr) note_arrival(*to.slot, ses, payload.size(), psn);
  return ReturnCode::kOk;
}

ReturnCode accept_response(Connection& c, std::span<const std::byte> rest) {
  wire::ResponseData ses;
  std::size_t header = 0;
  if (wire::parse(rest, ses, header) != wire::ParseError::kOk) return ReturnCode::kUnsupportedOp;
  const std::span<const std::byte> payload = rest.subspan(header);
  SendQueue& queue = c.send->queue;
  const auto at = static_cast<std::uint16_t>(ses.read_message_id -
                                             static_cast<std::uint16_t>(queue.read_serial_base));
  if (at >= queue.reads.size()) return ReturnCode::kOperation;
  Request& request = queue.requests.at_serial(queue.reads[at]);
  if (request.is_answered || ses.payload_length != payload.size() ||
      ses.modified_length != request.length ||
      std::uint64_t{ses.message_offset} + payload.size() > request.length)
    return ReturnCode::kOperation;
  if (request.kind == OpKind::kRead) {
    scatter(request.list(), ses.message_offset, payload, request.line_ordered);
  } else {
    if (payload.size() != sizeof(std::uint64_t)) return ReturnCode::kOperation;
    const auto value = load_be<std::uint64_t>(payload, 0);
    scatter(request.list(), 0, std::as_bytes(std::span(&value, 1)), request.line_ordered);
  }
  request.response_bytes += static_cast<std::uint32_t>(payload.size());
  request.is_answered = request.response_bytes == request.length;
  finish_if_done(request);
  return ReturnCode::kOk;
}

ReturnCode accept(EngineContext& ctx, Connection& c, Psn psn, wire::NextHeader next,
                  std::span<const std::byte> rest) {
  if (next == wire::NextHeader::kResponseData) return accept_response(c, rest);
  if (next != wire::NextHeader::kRequestStandard) return ReturnCode::kUnsupportedOp;
  wire::StandardRequest ses;
  std::size_t header = 0;
  if (wire::parse(rest, ses, header) != wire::ParseError::kOk) return ReturnCode::kUnsupportedOp;
  if (ses.resource_index != 0) return ReturnCode::kBadIndex;
  const std::span<const std::byte> payload = rest.subspan(header);
  switch (ses.opcode) {
    case wire::Opcode::kSend:
    case wire::Opcode::kWrite:
      return accept_message(ctx, c, psn, ses, payload);
    case wire::Opcode::kRead:
    case wire::Opcode::kFetchingAtomic:
      return take_read(ctx, c, psn, ses, payload);
    case wire::Opcode::kNoOp:
    case wire::Opcode::kAtomic:
      break;
  }
  return ReturnCode::kUnsupportedOp;
}

void open_trigger(Connection& c, const Arrived& arrived, const RxPacket& last) {
  AckState& ack = c.receive->ack;
  ack.open = {.psn = Psn{arrived.first.value + arrived.packets - 1},
              .arrival = last.arrival,
              .is_marked = last.ecn == Ecn::kCe || (ack.has_open && ack.open.is_marked),
              .is_retransmit = arrived.is_retransmit};
  ack.has_open = true;
  ack.lowest_untold = std::min(ack.lowest_untold, arrived.first);
  ack.open_bytes += arrived.packets * static_cast<std::uint32_t>(last.bytes.size());
}

// A packet whose PSN is not a new one of the window.
void on_old_packet(EngineContext& ctx, Connection& c, Psn psn, const wire::RudRequest& pds,
                   const RxPacket& packet) {
  ReceiveState& receive = *c.receive;
  if (receive.log.check(psn) == ReceiveLog::Arrival::kOutOfWindow) {
    ++c.counters.out_of_window_received;
    ctx.trace_refused(c.id, TraceRefusal::kOutOfWindow, packet.bytes.size());
    return;
  }
  ++c.counters.duplicates_received;
  ++receive.ack.duplicates;
  close_trigger(ctx, c);
  open_trigger(c, {.first = psn, .is_retransmit = pds.is_retransmit}, packet);
  close_trigger(ctx, c);
}

void set_fault(EngineContext& ctx, Connection& c, Psn psn, ReturnCode code) {
  ReceiveState& receive = *c.receive;
  if (receive.has_fault && receive.fault_psn <= psn) return;
  receive.has_fault = true;
  receive.fault_psn = psn;
  receive.fault_code = code;
  after_edge_moved(ctx, c);
}

void refuse_packet(EngineContext& ctx, Connection& c, Psn psn, ReturnCode code) {
  if (code != ReturnCode::kNull) {
    set_fault(ctx, c, psn, code);
    return;
  }
  ++c.counters.receiver_not_ready;
  owe_nack(ctx, c,
           {.psn = psn, .code = static_cast<std::uint8_t>(wire::NackCode::kNoMessageAvailable)});
}

void trace_arrived(EngineContext& ctx, const Connection& c, const Arrived& arrived,
                   const RxPacket& last) {
  if (!ctx.recorder.wants(TraceKind::kPacketReceived)) return;
  for (std::uint32_t i = 0; i < arrived.packets; ++i)
    ctx.trace(TraceKind::kPacketReceived, c.id,
              {.first = arrived.first.value + i, .second = last.bytes.size()});
}

// Whether something may have waited for the cumulative edge to move.
bool awaits_edge(const Connection& c) {
  const ReceiveState& receive = *c.receive;
  if (!receive.waiting.empty() || receive.has_fault || receive.has_close) return true;
  const Ring<Request>& requests = c.send->queue.requests;
  if (!requests.is_empty() && requests.front().state == Request::State::kFinished) return true;
  if (c.receives->is_empty()) return false;
  const ReceiveSlot& slot = c.receives->front();
  return slot.state == ReceiveSlot::State::kArriving && slot.has_end;
}

void report_fault(EngineContext& ctx, Connection& c) {
  ++c.counters.requests_refused;
  owe_fault(ctx, c);
  fail_connection(ctx, c, OpStatus::kFlushed,
                  absl::StrCat(describe_peer(c),
                               " sent work that this side must refuse (return "
                               "code ",
                               static_cast<int>(c.receive->fault_code),
                               ": bad key, right, bounds or length); it has been told and the "
                               "connection has failed"));
}

}  // namespace

void on_request(EngineContext& ctx, Connection& c, const wire::RudRequest& pds,
                std::span<const std::byte> rest, const RxPacket& packet) {
  ReceiveState& receive = *c.receive;
  const Psn psn = receive.log.extend(pds.psn);
  if (receive.log.check(psn) != ReceiveLog::Arrival::kNew) {
    on_old_packet(ctx, c, psn, pds, packet);
    return;
  }
  if (receive.has_fault && psn >= receive.fault_psn) return;
  const ReturnCode code = accept(ctx, c, psn, pds.next, rest);
  if (code != ReturnCode::kOk) {
    refuse_packet(ctx, c, psn, code);
    return;
  }
  on_arrived(ctx, c, {.first = psn, .wants_ack = pds.wants_ack, .is_retransmit = pds.is_retransmit},
             packet);
}

void on_arrived(EngineContext& ctx, Connection& c, const Arrived& arrived, const RxPacket& last) {
  ReceiveState& receive = *c.receive;
  const std::uint32_t holes_before = receive.log.out_of_order();
  const bool edge_moved = receive.log.mark(arrived.first, arrived.packets);
  const std::uint64_t bytes = arrived.packets * last.bytes.size();
  ctx.has_new_data = true;
  c.counters.packets_received += arrived.packets;
  c.counters.bytes_received += bytes;
  receive.ack.received_nominal_bytes +=
      bytes + std::uint64_t{arrived.packets} * kNominalOverheadBytes;
  trace_arrived(ctx, c, arrived, last);
  if (last.ecn == Ecn::kCe) ++c.counters.marked_received;
  open_trigger(c, arrived, last);
  const bool has_drained = holes_before != 0 && receive.log.out_of_order() == 0;
  if (last.ends_burst) {
    if (has_drained || last.ecn == Ecn::kCe || is_ack_due(receive.ack, arrived.wants_ack, 0))
      close_trigger(ctx, c);
  } else if (ctx.bursting != c.id) {
    end_burst(ctx);  // of another connection, in the same super-packet
    ctx.bursting = c.id;
  }
  if (edge_moved && awaits_edge(c)) after_edge_moved(ctx, c);
}

void on_trimmed_request(EngineContext& ctx, Connection& c, const wire::RudRequest& pds,
                        const RxPacket& packet) {
  const Psn psn = c.receive->log.extend(pds.psn);
  if (c.receive->log.check(psn) != ReceiveLog::Arrival::kNew) return;
  const wire::NackCode code =
      packet.is_trimmed_last_hop ? wire::NackCode::kTrimmedLastHop : wire::NackCode::kTrimmed;
  owe_nack(ctx, c, {.psn = psn, .code = static_cast<std::uint8_t>(code)});
}

void on_control(EngineContext& ctx, Connection& c, const wire::Control& control,
                const RxPacket& packet) {
  ReceiveState& receive = *c.receive;
  AckState& ack = receive.ack;
  switch (control.type) {
    case wire::ControlType::kProbe:
      if (ack.probe_count == ack.probes.size()) return;
      ack.probes[ack.probe_count++] = {.base = receive.log.extend(control.payload),
                                       .opaque = control.probe_opaque};
      ctx.make_ready(c);
      return;
    case wire::ControlType::kAckRequest:
      ack.owes_update = true;
      ctx.make_ready(c);
      return;
    case wire::ControlType::kCloseCommand: {
      const Psn psn = receive.log.extend(control.psn);
      const ReceiveLog::Arrival arrival = receive.log.check(psn);
      if (arrival == ReceiveLog::Arrival::kOutOfWindow) {
        ++c.counters.out_of_window_received;
        return;
      }
      close_trigger(ctx, c);
      open_trigger(c, {.first = psn, .is_retransmit = control.is_retransmit}, packet);
      close_trigger(ctx, c);
      if (arrival == ReceiveLog::Arrival::kDuplicate) return;
      receive.has_close = true;
      receive.close_psn = psn;
      if (receive.log.mark(psn)) after_edge_moved(ctx, c);
      return;
    }
    case wire::ControlType::kNoop:
    case wire::ControlType::kClearCommand:
    case wire::ControlType::kClearRequest:
    case wire::ControlType::kCloseRequest:
    case wire::ControlType::kCredit:
    case wire::ControlType::kCreditRequest:
    case wire::ControlType::kNegotiation:
      ++c.counters.malformed_received;
      return;
  }
}

void close_trigger(EngineContext& ctx, Connection& c) {
  AckState& ack = c.receive->ack;
  if (!ack.has_open) return;
  // Full: the newest replaces the last; a mark is never forgotten.
  if (ack.trigger_count == AckState::kMaxTriggers) {
    AckTrigger& last = ack.triggers[AckState::kMaxTriggers - 1];
    const bool was_marked = last.is_marked;
    last = ack.open;
    last.is_marked = last.is_marked || was_marked;
  } else {
    ack.triggers[ack.trigger_count++] = ack.open;
  }
  ack.has_open = false;
  ack.open_bytes = 0;
  ctx.make_ready(c);
}

void end_burst(EngineContext& ctx) {
  Connection* c = ctx.find(ctx.bursting);
  ctx.bursting = ConnId{};
  if (c != nullptr && c->receive) close_trigger(ctx, *c);
}

void after_edge_moved(EngineContext& ctx, Connection& c) {
  ReceiveState& receive = *c.receive;
  Psn failed{};
  const ReturnCode code = execute_reads(ctx, c, failed);
  if (code != ReturnCode::kOk) {
    receive.has_fault = true;
    receive.fault_psn = failed;
    receive.fault_code = code;
  }
  deliver_receives(ctx, c);
  deliver_requests(ctx, c);
  if (is_over(c.phase)) return;
  const Psn edge = receive.log.cumulative();
  if (receive.has_fault && edge.value + 1 >= receive.fault_psn.value) {
    report_fault(ctx, c);
    return;
  }
  if (!receive.has_close || edge < receive.close_psn) return;
  c.error = describe_peer(c) + " closed the connection";
  end_connection(ctx, c, Phase::kClosed);
}

}  // namespace spindrift
