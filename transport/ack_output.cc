#include "transport/ack_output.h"

#include <algorithm>

#include "transport/packet_builder.h"
#include "transport/receiver_credit.h"

namespace spindrift {
namespace {

constexpr std::uint64_t kServiceUnitNs = 128;

std::uint16_t service_time(Time arrival, Time now) {
  const auto waited =
      static_cast<std::uint64_t>(std::max<std::int64_t>((now - arrival).count(), 0));
  return static_cast<std::uint16_t>(std::clamp<std::uint64_t>(waited / kServiceUnitNs, 1, 0xffff));
}

struct AckShape {
  Psn ack_psn{};
  Psn sack_base{};
  std::uint16_t service_time = 0;  // 0: not the answer to a packet
  std::uint16_t probe_opaque = 0;
  bool is_marked = false;
  bool is_retransmit = false;
  bool is_probe = false;
};

void build_ack(Connection& c, const AckShape& shape, TxPacket& out) {
  ReceiveState& receive = *c.receive;
  const Psn edge = receive.log.cumulative();
  // Signed difference mod 2^16: a duplicate lies below the edge, at most a window away.
  const auto offset_to = [edge](Psn psn) {
    return static_cast<std::int16_t>(static_cast<std::int64_t>(psn.value - edge.value));
  };
  wire::Ack ack;
  ack.next = wire::NextHeader::kResponse;
  ack.has_cc = true;
  ack.is_marked = shape.is_marked;
  ack.is_retransmit = shape.is_retransmit;
  ack.is_probe = shape.is_probe;
  ack.probe_opaque = shape.probe_opaque;
  ack.ack_psn_offset = shape.is_probe ? std::int16_t{0} : offset_to(shape.ack_psn);
  ack.mpr = static_cast<std::uint8_t>(std::min<std::uint32_t>(receive.log.capacity() / 128, 255));
  ack.cack_psn = static_cast<std::uint32_t>(edge.value);
  ack.spdcid = c.pdcid;
  ack.dpdcid = c.peer_pdcid;
  const Psn lowest{edge.value + 1};
  Psn base = std::max(shape.sack_base, lowest);
  // A probe asks about its own PSN, also above everything that has arrived: nothing there is an
  // answer.
  if (base > receive.log.newest() && !shape.is_probe) base = lowest;
  ack.sack_psn_offset = offset_to(base);
  ack.sack_bitmap = base > receive.log.newest() ? 0 : receive.log.bitmap(base);
  wire::NsccState state;
  state.service_time = shape.service_time;
  state.window_penalty = receive.ack.penalty;
  state.restores_window = receive.ack.restores_window;
  state.received_quanta =
      static_cast<std::uint32_t>((receive.ack.received_nominal_bytes + 255) / 256) & 0xffffff;
  state.out_of_order =
      static_cast<std::uint16_t>(std::min<std::uint32_t>(receive.log.out_of_order(), 0xfffe));
  ack.ack_cc_state = wire::pack(state);
  wire::Response response;
  const bool has_closed = c.phase == Phase::kDraining || c.phase == Phase::kClosing;
  response.return_code = static_cast<std::uint8_t>(has_closed ? wire::ReturnCode::kNoMoreReceives
                                                              : wire::ReturnCode::kOk);
  response.message_id = receive.ack.duplicates;
  response.modified_length = c.receives->credits();
  receive.ack.told_credits = response.modified_length;
  receive.ack.owes_update = false;
  std::size_t bytes = wire::encode(ack, out.header);
  bytes += wire::encode(response, out.header.subspan(bytes));
  finish_control(c, bytes, next_ack_path(c), out);
  ++c.counters.acks_sent;
}

// The newest block when the newest packet asks, else the aligned block of the packet that asks.
Psn block_of(const ReceiveLog& log, Psn trigger) {
  if (trigger == log.newest()) return Psn{log.newest().value - 63};
  return Psn{trigger.value & ~std::uint64_t{63}};
}

// One bitmap shows 64 PSNs. While there are holes, what arrived since the last acknowledgement may
// span more: the oldest hole and every block up to the newest are told too, or the sender would
// take for lost what nobody told it of.
std::size_t send_blocks(Connection& c, std::span<TxPacket> out) {
  constexpr std::uint64_t kBlock = 64;
  AckState& ack = c.receive->ack;
  const ReceiveLog& log = c.receive->log;
  const std::uint64_t edge = log.cumulative().value;
  const std::uint64_t newest = log.newest().value;
  std::uint64_t from = std::max(edge + 1, std::min(ack.lowest_untold.value, newest + 1));
  ack.lowest_untold = Psn{UINT64_MAX};
  if (log.out_of_order() == 0 || newest <= edge + kBlock) return 0;
  std::size_t sent = 0;
  const auto tell = [&](std::uint64_t base) {
    if (sent == out.size()) {
      ack.lowest_untold = Psn{std::min(ack.lowest_untold.value, base)};
      ack.owes_update = true;
      return;
    }
    build_ack(c, {.ack_psn = Psn{edge}, .sack_base = Psn{base}}, out[sent++]);
  };
  tell(edge + 1);
  for (from = std::max(from, edge + 1 + kBlock); from + kBlock <= newest; from += kBlock)
    tell(from);
  return sent;
}

std::size_t send_triggered(Connection& c, std::span<TxPacket> out, Time now) {
  ReceiveState& receive = *c.receive;
  AckState& ack = receive.ack;
  std::size_t sent = 0;
  std::size_t taken = 0;
  for (; taken < ack.trigger_count && sent < out.size(); ++taken) {
    const AckTrigger& trigger = ack.triggers[taken];
    // Unmarked ones that a later one supersedes are merged: what arrived is told by the last.
    if (taken + 1U < ack.trigger_count && !trigger.is_marked && !trigger.is_retransmit) continue;
    build_ack(c,
              {.ack_psn = trigger.psn,
               .sack_base = block_of(receive.log, trigger.psn),
               .service_time = service_time(trigger.arrival, now),
               .is_marked = trigger.is_marked,
               .is_retransmit = trigger.is_retransmit},
              out[sent++]);
  }
  const bool all_taken = taken == ack.trigger_count;
  std::copy(ack.triggers.begin() + static_cast<std::ptrdiff_t>(taken),
            ack.triggers.begin() + ack.trigger_count, ack.triggers.begin());
  ack.trigger_count = static_cast<std::uint8_t>(ack.trigger_count - taken);
  if (sent != 0 && all_taken) sent += send_blocks(c, out.subspan(sent));
  return sent;
}

std::size_t send_probe_answers(Connection& c, std::span<TxPacket> out) {
  AckState& ack = c.receive->ack;
  std::size_t sent = 0;
  while (ack.probe_count != 0 && sent < out.size()) {
    const ProbeQuestion question = ack.probes[--ack.probe_count];
    build_ack(c, {.sack_base = question.base, .probe_opaque = question.opaque, .is_probe = true},
              out[sent++]);
  }
  return sent;
}

std::size_t send_nacks(Connection& c, std::span<TxPacket> out) {
  ReceiveState& receive = *c.receive;
  std::size_t sent = 0;
  while (receive.nack_count != 0 && sent < out.size()) {
    const NackOwed& owed = receive.nacks[--receive.nack_count];
    wire::Nack nack;
    nack.code = owed.code;
    nack.psn = static_cast<std::uint32_t>(owed.psn.value);
    nack.spdcid = c.pdcid;
    nack.dpdcid = c.peer_pdcid;
    nack.payload = owed.payload;
    TxPacket& packet = out[sent++];
    finish_control(c, wire::encode(nack, packet.header), next_ack_path(c), packet);
    ++c.counters.nacks_sent;
  }
  return sent;
}

void build_probe(EngineContext& ctx, Connection& c, PathId path, Time now, TxPacket& out) {
  SendState& send = *c.send;
  ProbeRecord& record = send.probes[send.next_opaque % send.probes.size()];
  record = {.sent = now, .path = path, .opaque = send.next_opaque, .is_outstanding = true};
  wire::Control probe;
  probe.type = wire::ControlType::kProbe;
  probe.wants_ack = true;
  probe.probe_opaque = send.next_opaque++;
  probe.spdcid = c.pdcid;
  probe.dpdcid = c.peer_pdcid;
  probe.payload = static_cast<std::uint32_t>(send.log.longest_in_flight().value);
  finish_control(c, wire::encode(probe, out.header), path, out);
  ++c.counters.probes_sent;
  ctx.trace(TraceKind::kProbeSent, c.id, {.path = path, .first = record.opaque});
}

void build_abort_notice(Connection& c, TxPacket& out) {
  wire::Nack nack;
  nack.code = static_cast<std::uint8_t>(wire::NackCode::kClosingInError);
  nack.spdcid = c.pdcid;
  nack.dpdcid = c.peer_pdcid;
  finish_control(c, wire::encode(nack, out.header), next_ack_path(c), out);
  ++c.counters.nacks_sent;
}

}  // namespace

// Acknowledgements rotate over the usable paths, so that one dark path takes few of them.
PathId next_ack_path(Connection& c) {
  const auto count = static_cast<std::uint16_t>(c.routes.size());
  for (std::uint16_t i = 0; i < count; ++i) {
    std::uint16_t& at = c.receive->ack.next_path;
    at = static_cast<std::uint16_t>((at + 1) % count);
    const PathState state = c.paths->state(PathId{at});
    if (state == PathState::kGood || state == PathState::kSkip) return PathId{at};
  }
  for (std::uint16_t i = 0; i < count; ++i)  // all dark: try those that are not denied in turn
    if (c.paths->state(PathId{i}) != PathState::kDenied) return PathId{i};
  return PathId{0};
}

bool owes_anything(const Connection& c) {
  if (!c.receive || !c.send || !c.paths) return false;
  const AckState& ack = c.receive->ack;
  return ack.trigger_count != 0 || ack.probe_count != 0 || ack.owes_update ||
         c.receive->nack_count != 0 || c.send->probes_wanted != 0 || c.send->path_probe ||
         c.wants_abort_notice || (c.credit && (c.credit->owes_request || c.credit->owes_grant));
}

std::size_t send_owed(EngineContext& ctx, Connection& c, std::span<TxPacket> out, Time now) {
  if (!c.receive || !c.send || !c.paths) return 0;
  AckState& ack = c.receive->ack;
  ack.restores_window = ack.penalty != 0 && ctx.receive_penalty == 0;
  ack.penalty = ctx.receive_penalty;
  std::size_t sent = send_triggered(c, out, now);
  sent += send_probe_answers(c, out.subspan(sent));
  if (c.receive->ack.owes_update && sent < out.size())
    build_ack(c, {.ack_psn = c.receive->log.cumulative(), .sack_base = c.receive->log.cumulative()},
              out[sent++]);
  sent += send_nacks(c, out.subspan(sent));
  if (c.credit) sent += send_credit(c, out.subspan(sent));
  if (c.wants_abort_notice && sent < out.size()) {
    c.wants_abort_notice = false;
    build_abort_notice(c, out[sent++]);
  }
  if (c.send->path_probe && sent < out.size()) {
    build_probe(ctx, c, *c.send->path_probe, now, out[sent++]);
    c.send->path_probe.reset();
  }
  while (c.send->probes_wanted != 0 && sent < out.size()) {
    --c.send->probes_wanted;
    build_probe(ctx, c, next_ack_path(c), now, out[sent++]);
  }
  ctx.transmissions += sent;
  return sent;
}

std::size_t send_acks_along(EngineContext& ctx, Connection& c, const TxPacket& data,
                            std::span<TxPacket> out, Time now) {
  const std::size_t sent = send_triggered(c, out, now);
  for (TxPacket& packet : out.first(sent)) {
    packet.to = data.to;
    packet.rail = data.rail;
    packet.entropy = data.entropy;
    packet.dscp = data.dscp;
  }
  ctx.transmissions += sent;
  return sent;
}

}  // namespace spindrift
