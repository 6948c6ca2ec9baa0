#include "transport/packet_engine.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "transport/ack_input.h"
#include "transport/ack_output.h"
#include "transport/base/bytes.h"
#include "transport/completions.h"
#include "transport/connection_timers.h"
#include "transport/data_run.h"
#include "transport/describe.h"
#include "transport/hello_packet.h"
#include "transport/loss_detector.h"
#include "transport/open_connection.h"
#include "transport/packet_builder.h"
#include "transport/receiver.h"
#include "transport/receiver_credit.h"
#include "transport/sender.h"
#include "transport/wire/request_codec.h"

namespace spindrift {
namespace {

struct Demux {
  std::uint16_t spdcid = 0;
  std::uint16_t dpdcid = 0;
  bool is_syn = false;
};

Demux demux_of(const wire::Pds& pds) {
  return std::visit(
      [](const auto& header) {
        Demux out{.spdcid = header.spdcid, .dpdcid = header.dpdcid};
        if constexpr (requires { header.is_syn; }) out.is_syn = header.is_syn;
        return out;
      },
      pds.header);
}

bool comes_from_peer(Connection& c, const NetAddress& source) {
  const auto found =
      std::find_if(c.remotes.begin(), c.remotes.end(),
                   [&source](const NetAddress& remote) { return remote.is_same_host(source); });
  if (found == c.remotes.end()) return false;
  c.last_remote = static_cast<std::uint16_t>(found - c.remotes.begin());
  return true;
}

void note_heard(Connection& c, Time now) {
  c.last_heard = now;
  c.awaits_keepalive = false;
  c.port_unreachable_since = kNever;
  c.unreachable_remotes = 0;
  c.unknown_since = kNever;
}

bool is_hello_reply(const wire::Pds& pds, std::span<const std::byte> rest) {
  const auto* request = std::get_if<wire::RudRequest>(&pds.header);
  return request != nullptr && request->next == wire::NextHeader::kRequestStandard &&
         wire::may_be_hello(rest);
}

// Bad news about a peer is believed when it comes twice, this far apart, with nothing good between.
constexpr Duration kConfirmAfter = std::chrono::milliseconds(1);

void ask_again(EngineContext& ctx, Connection& c, Time now) {
  const Time when = now + 2 * kConfirmAfter;
  if (c.phase == Phase::kConnecting || c.phase == Phase::kAccepting)
    c.handshake.next_attempt = std::min(c.handshake.next_attempt, when);
  else if (c.send)
    c.send->confirm_probe = when;
  ctx.arm(c, when);
}

// "Not known here". A damaged packet that reached no connection there is answered so too: believed
// only when a second one comes and nothing else was heard between.
void on_unknown_there(EngineContext& ctx, Connection& c, Time now) {
  if (c.unknown_since == kNever || now - c.unknown_since < kConfirmAfter) {
    if (c.unknown_since == kNever) c.unknown_since = now;
    ask_again(ctx, c, now);
    return;
  }
  if (c.phase == Phase::kClosing) {
    end_connection(ctx, c, Phase::kClosed);  // it has closed and forgotten already
    return;
  }
  fail_connection(ctx, c, OpStatus::kPeerGone,
                  describe_peer(c) +
                      " does not know this connection any more: the process there "
                      "was restarted, or has released it");
}

// A connection that is over answers what still comes, so that the peer learns of it.
void answer_afterwards(EngineContext& ctx, Connection& c, const wire::Pds& pds,
                       const RxPacket& packet) {
  if (!c.receive) return;
  if (const auto* control = std::get_if<wire::Control>(&pds.header)) {
    if (control->type == wire::ControlType::kCloseCommand && c.phase == Phase::kClosed) {
      on_control(ctx, c, *control, packet);
      return;
    }
  } else if (!std::holds_alternative<wire::RudRequest>(pds.header)) {
    return;
  }
  // The peer's farewell came behind everything else: what still comes are copies and questions.
  if (c.phase == Phase::kClosed && c.receive->has_close &&
      c.receive->log.cumulative() >= c.receive->close_psn) {
    c.receive->ack.owes_update = true;
    ctx.make_ready(c);
    return;
  }
  if (c.receive->has_fault && c.phase == Phase::kFailed) {
    if (c.receive->nack_count == 0)
      c.receive->nacks[c.receive->nack_count++] = {
          .psn = c.receive->fault_psn,
          .code = static_cast<std::uint8_t>(wire::NackCode::kOperationError),
          .payload = static_cast<std::uint32_t>(c.receive->fault_code)};
  } else {
    c.wants_abort_notice = true;
  }
  ctx.make_ready(c);
}

}  // namespace

PacketEngine::PacketEngine(const EndpointConfig& config, const Registry& registry,
                           RailDirectory& rails, const EngineIdentity& identity)
    : ctx_(config, registry, rails, identity) {
  ctx_.free_slots.reserve(config.max_connections);
  for (std::uint32_t i = 0; i < config.max_connections; ++i)
    ctx_.free_slots.push_back(static_cast<std::uint16_t>(i));
  ctx_.free_inline.reserve(config.inline_buffers);
  ctx_.orphaned_inline.reserve(config.inline_buffers);
  for (std::uint32_t i = config.inline_buffers; i != 0; --i)
    ctx_.free_inline.push_back(i - 1);
}

void PacketEngine::on_packets(std::span<const RxPacket> packets, Time now) {
  ctx_.recorder.set_time(now);
  for (std::size_t at = 0; at < packets.size();) {
    if (!packets[at].is_trimmed && take_data(packets[at], now))
      at += 1 + take_run(ctx_, packets.subspan(at));
    else
      on_packet(packets[at++], now);
    if (packets[at - 1].ends_burst && ctx_.bursting != ConnId{}) end_burst(ctx_);
  }
}

void PacketEngine::note_backlog(std::uint64_t bytes) {
  constexpr std::uint8_t kHalve = 64;  // of 128: over one RTT about half the window
  const std::uint64_t room = ctx_.rails.caps().receive_buffer_bytes;
  const bool is_over = room != 0 && bytes > room / 4 * 3;
  ctx_.receive_penalty = is_over ? kHalve : std::uint8_t{0};
  if (is_over) ++ctx_.counters.receive_pressure_turns;
}

// The way of nearly every packet: data for an open connection, from where the last one came. False:
// nothing was done, the packet goes the long way.
bool PacketEngine::take_data(const RxPacket& packet, Time now) {
  wire::RudRequest pds;
  if (!wire::is_plain_request(packet.bytes) ||
      wire::parse_request(packet.bytes, false, pds) != wire::ParseError::kOk || pds.is_syn)
    return false;
  Connection* c = ctx_.find_pdcid(pds.dpdcid);
  if (c == nullptr || c->phase != Phase::kOpen || pds.spdcid != c->peer_pdcid ||
      !c->remotes[c->last_remote].is_same_host(packet.source))
    return false;
  std::span<const std::byte> rest = packet.bytes.subspan(wire::kRudRequestBytes);
  if (wire::may_be_hello(rest)) return false;
  if (c->has_crc) {
    const std::span<const std::byte> body = strip_crc(packet.bytes, c->crc_seed);
    if (body.size() < wire::kRudRequestBytes) return false;
    rest = body.subspan(wire::kRudRequestBytes);
  }
  note_heard(*c, now);
  on_request(ctx_, *c, pds, rest, packet);
  return true;
}

// What is left of a data packet says only which one it was. Its CRC went with the payload: whoever
// forges or damages one causes a needless retransmission, no more.
void PacketEngine::on_trimmed_packet(const RxPacket& packet) {
  wire::RudRequest pds;
  if (!wire::is_plain_request(packet.bytes) ||
      wire::parse_request(packet.bytes, false, pds) != wire::ParseError::kOk || pds.is_syn)
    return;
  Connection* c = ctx_.find_pdcid(pds.dpdcid);
  if (c == nullptr || !carries_data(c->phase) || pds.spdcid != c->peer_pdcid ||
      !comes_from_peer(*c, packet.source))
    return;
  on_trimmed_request(ctx_, *c, pds, packet);
}

void PacketEngine::on_packet(const RxPacket& packet, Time now) {
  if (packet.is_trimmed) [[unlikely]] {
    on_trimmed_packet(packet);
    return;
  }
  wire::Pds pds;
  if (wire::parse_pds(packet.bytes, pds) != wire::ParseError::kOk) {
    ++ctx_.counters.malformed_strangers;
    ctx_.trace_refused({}, TraceRefusal::kMalformed, packet.bytes.size());
    return;
  }
  const Demux to = demux_of(pds);
  if (to.is_syn) {
    const auto* request = std::get_if<wire::RudRequest>(&pds.header);
    const auto body = strip_crc(packet.bytes, kHelloCrcSeed);
    if (request == nullptr || body.empty())
      ++ctx_.counters.malformed_strangers;
    else
      on_hello(ctx_, {*request, body.subspan(pds.bytes), packet}, now);
    return;
  }
  Connection* c = ctx_.find_pdcid(to.dpdcid);
  if (c == nullptr) {
    on_stranger(pds, packet);
    return;
  }
  if (!comes_from_peer(*c, packet.source)) {
    ++ctx_.counters.wrong_source_received;
    ctx_.trace_refused(c->id, TraceRefusal::kWrongSource, packet.bytes.size());
    return;
  }
  if (c->peer_pdcid != 0 && to.spdcid != 0 && to.spdcid != c->peer_pdcid) {
    on_stranger(pds, packet);  // a late packet of a connection that had this slot before
    return;
  }
  // It ended before it opened, while the peer may hold it for open: not known here any more.
  if (is_over(c->phase) && !c->receive) {
    RxPacket answered = packet;
    answered.source = c->remotes[c->last_remote];  // where it listens
    on_stranger(pds, answered);
    return;
  }
  on_connection_packet(*c, pds, packet, now);
}

void PacketEngine::on_connection_packet(Connection& c, const wire::Pds& pds, const RxPacket& packet,
                                        Time now) {
  std::span<const std::byte> body = packet.bytes;
  const auto* nack = std::get_if<wire::Nack>(&pds.header);
  const bool is_opening = c.phase == Phase::kConnecting;
  if (is_opening || (nack != nullptr && nack->spdcid == 0)) {
    body = strip_crc(packet.bytes, kHelloCrcSeed);
  } else if (is_hello_reply(pds, packet.bytes.subspan(pds.bytes))) {
    body = strip_crc(packet.bytes, kHelloCrcSeed);
    if (!body.empty()) {
      on_hello_reply(
          ctx_, c, {std::get<wire::RudRequest>(pds.header), body.subspan(pds.bytes), packet}, now);
      return;
    }
  } else if (c.has_crc) {
    body = strip_crc(packet.bytes, c.crc_seed);
  }
  if (body.size() < pds.bytes || body.empty()) {
    ++c.counters.crc_errors;
    ctx_.trace_refused(c.id, TraceRefusal::kCrc, packet.bytes.size());
    return;
  }
  const std::span<const std::byte> rest = body.subspan(pds.bytes);
  if (is_opening) {
    if (const auto* request = std::get_if<wire::RudRequest>(&pds.header))
      on_hello_reply(ctx_, c, {*request, rest, packet}, now);
    else if (const auto* ack = std::get_if<wire::Ack>(&pds.header))
      on_hello_ack(c, *ack, now);
    else if (nack != nullptr)
      on_hello_nack(ctx_, c, *nack, now);
    return;
  }
  if (c.phase == Phase::kRequested) return;
  if (nack != nullptr && nack->spdcid == 0) {
    // It names the id it did not know: one that was damaged on the way is not ours.
    if (static_cast<wire::NackCode>(nack->code) == wire::NackCode::kInvalidDpdcid &&
        nack->payload == c.peer_pdcid && !is_over(c.phase))
      on_unknown_there(ctx_, c, now);
    return;
  }
  note_heard(c, now);
  if (c.phase == Phase::kAccepting) on_first_packet(ctx_, c, now);
  if (is_over(c.phase)) {
    answer_afterwards(ctx_, c, pds, packet);
    return;
  }
  if (const auto* request = std::get_if<wire::RudRequest>(&pds.header))
    on_request(ctx_, c, *request, rest, packet);
  else if (const auto* ack = std::get_if<wire::Ack>(&pds.header))
    on_ack(ctx_, c, {*ack, rest, packet.telemetry}, now);
  else if (nack != nullptr)
    on_nack(ctx_, c, *nack, now);
  else if (const auto* control = std::get_if<wire::Control>(&pds.header)) {
    if (c.credit && is_credit(*control))
      on_credit_packet(ctx_, c, *control, now);
    else
      on_control(ctx_, c, *control, packet);
  }
  if (c.phase == Phase::kDraining) advance_close(ctx_, c, now);
}

void PacketEngine::on_stranger(const wire::Pds& pds, const RxPacket& packet) {
  ++ctx_.counters.strangers_received;
  ctx_.trace_refused({}, TraceRefusal::kStranger, packet.bytes.size());
  // Only what expects an answer gets one, and NACKs never: two strangers must not talk for ever.
  wire::RudRequest about;
  if (const auto* request = std::get_if<wire::RudRequest>(&pds.header)) {
    about = *request;
  } else if (const auto* control = std::get_if<wire::Control>(&pds.header)) {
    about.psn = control->psn;
    about.spdcid = control->spdcid;
    about.dpdcid = control->dpdcid;
  } else {
    return;
  }
  ++ctx_.counters.strangers_answered;
  nack_stranger(ctx_, packet, wire::NackCode::kInvalidDpdcid, about, about.dpdcid);
}

// Paths need not be found dark one by one, and are tried as soon as the link is back.
void PacketEngine::on_link(const IoError& event, Time now) {
  const bool is_down = event.kind == IoError::Kind::kLinkDown;
  for (auto& holder : ctx_.connections) {
    if (!holder || is_over(holder->phase) || !holder->paths) continue;
    Connection& c = *holder;
    for (std::uint32_t i = 0; i < c.paths->size(); ++i) {
      const PathId path{static_cast<std::uint16_t>(i)};
      if (c.routes[i].rail != event.rail) continue;
      if (!is_down) {
        c.paths->on_link_up(path, now);
      } else if (c.paths->on_link_down(path, now, current_rto(c))) {
        ++c.counters.paths_went_bad;
        ctx_.trace_path(c, path);
      }
    }
    ctx_.arm(c, next_timer(c, now));
  }
}

void PacketEngine::on_io_error(const IoError& error, Time now) {
  if (error.kind == IoError::Kind::kLinkDown || error.kind == IoError::Kind::kLinkUp) {
    on_link(error, now);
    return;
  }
  for (auto& holder : ctx_.connections) {
    if (!holder || is_over(holder->phase)) continue;
    Connection& c = *holder;
    const auto remote = std::find(c.remotes.begin(), c.remotes.end(), error.to);
    if (remote == c.remotes.end()) continue;
    if (error.kind == IoError::Kind::kTooBig) {
      on_too_big(ctx_, c, error.max_packet_bytes);
      continue;
    }
    if (error.kind != IoError::Kind::kPortUnreachable) continue;
    // One rail may lead to another host by mistake: the process is gone when all of them say so.
    c.unreachable_remotes |= 1U << (remote - c.remotes.begin());
    const bool is_everywhere = c.unreachable_remotes == (1U << c.remotes.size()) - 1;
    if (is_everywhere && c.port_unreachable_since != kNever &&
        now - c.port_unreachable_since >= kConfirmAfter) {
      if (c.phase == Phase::kClosing) {
        c.error = describe_peer(c) +
                  " ended before it answered the farewell (ICMP port unreachable, twice); closed "
                  "without it";
        end_connection(ctx_, c, Phase::kClosed);
        continue;
      }
      fail_connection(ctx_, c, OpStatus::kPeerGone,
                      absl::StrCat("no process has port ", error.to.port, " of ", describe_peer(c),
                                   " open (ICMP port unreachable, twice): it ended, or never "
                                   "listened there"));
      continue;
    }
    if (c.port_unreachable_since == kNever) c.port_unreachable_since = now;
    ask_again(ctx_, c, now);
  }
}

void PacketEngine::on_timers(Time now) {
  ctx_.recorder.set_time(now);
  std::uint32_t actor = 0;
  while (ctx_.timers.take_due(now, actor)) {
    if (actor == ctx_.pacer_actor()) {
      grant_credit(ctx_, now);
      continue;
    }
    Connection* c = ctx_.connections[actor].get();
    if (c != nullptr) run_timers(ctx_, *c, now);
    // A timer that is due again at once would never let this loop end.
    if (ctx_.timers.armed(actor) <= now) ctx_.timers.arm(actor, now + Duration(1));
  }
}

std::size_t PacketEngine::transmit(Connection& c, std::span<TxPacket> out, Time now, bool& more) {
  more = false;
  std::size_t count = send_handshake(ctx_, c, out, now);
  count += send_owed(ctx_, c, out.subspan(count), now);
  if (c.send && count < out.size()) count += send_burst(ctx_, c, out.subspan(count), now, more);
  if (c.credit) note_demand(ctx_, c, now);
  more = more || owes_anything(c) || (count == out.size() && !is_over(c.phase));
  if (is_over(c.phase)) return count;
  if (c.send) note_credit_wait(ctx_, c, now);
  if (is_over(c.phase)) return count;
  ctx_.arm(c, next_timer(c, now));
  return count;
}

// In one super-packet they cost nothing. As packets of their own they would keep the peer from its
// data.
bool PacketEngine::sends_acks_along() const {
  return ctx_.rails.caps().max_burst_packets > 1;
}

std::size_t PacketEngine::transmit_posted(Connection& c, std::span<TxPacket> out, Time now) {
  ctx_.recorder.set_time(now);
  bool more = false;
  std::size_t count = send_burst(ctx_, c, out, now, more);
  if (is_over(c.phase)) return count;
  if (count != 0 && sends_acks_along())
    count += send_acks_along(ctx_, c, out[count - 1], out.subspan(count), now);
  if (c.credit) ctx_.make_ready(c);  // it may have to ask for more
  ctx_.arm(c, next_timer(c, now));
  return count;
}

std::size_t PacketEngine::poll_transmit(std::span<TxPacket> out, Time now) {
  ctx_.recorder.set_time(now);
  std::size_t count = send_strangers(ctx_, out);
  while (!ctx_.ready.is_empty() && count < out.size()) {
    const std::uint16_t index = ctx_.ready.front();
    ctx_.ready.pop_front();
    Connection* c = ctx_.connections[index].get();
    if (c == nullptr) continue;
    c->is_ready = false;
    bool more = false;
    count += transmit(*c, out.subspan(count), now, more);
    if (more) ctx_.make_ready(*c);
  }
  return count;
}

void PacketEngine::close(Connection& c, Time now) {
  ctx_.recorder.set_time(now);
  if (is_over(c.phase) || c.phase == Phase::kDraining || c.phase == Phase::kClosing) return;
  if (c.phase != Phase::kOpen) {
    if (c.phase == Phase::kRequested) {
      const Status rejected = reject_request(ctx_, c, "closed before it was accepted");
      c.close_event_sent = !rejected.ok();
      deliver_requests(ctx_, c);
      return;
    }
    abort(c);
    return;
  }
  c.phase = Phase::kDraining;
  ctx_.trace_phase(c);
  advance_close(ctx_, c, now);
  if (c.phase != Phase::kDraining) return;
  c.receive->ack.owes_update = true;  // that no more RECEIVEs come
  ctx_.make_ready(c);
}

void PacketEngine::abort(Connection& c) {
  if (is_over(c.phase)) return;
  c.wants_abort_notice = c.receive.has_value();
  c.error = "aborted by the application";
  // The peer may have heard of our acceptance, or ask again.
  if (c.phase == Phase::kAccepting) take_acceptance_back(c, "closed before it was open");
  end_connection(ctx_, c, Phase::kClosed);
  ctx_.make_ready(c);
}

void PacketEngine::release(Connection& c) {
  if (!is_over(c.phase)) abort(c);
  // Work that waits for room in the completion queue ends with its connection.
  if (c.receives)
    while (!c.receives->is_empty()) {
      ReceiveSlot& slot = c.receives->front();
      if (slot.state != ReceiveSlot::State::kVacant)
        for (const Sge& piece : slot.posted.list())
          ctx_.memory.drop(piece.region);
      c.receives->pop();
    }
  if (c.send)
    while (!c.send->queue.requests.is_empty()) {
      orphan(ctx_, c.send->queue.requests.front());
      c.send->queue.requests.pop_front();
    }
  free_slot(ctx_, c);
}

}  // namespace spindrift
