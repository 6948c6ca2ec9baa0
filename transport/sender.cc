#include "transport/sender.h"

#include <algorithm>

#include "transport/base/check.h"
#include "transport/completions.h"
#include "transport/packet_builder.h"

namespace spindrift {
namespace {

using State = SentUnit::State;

bool fits_window(const Connection& c) {
  const SentLog& log = c.send->log;
  return !log.is_full() && log.next().value - log.oldest().value < c.send->peer_window;
}

SentUnit* next_lost(Connection& c) {
  Ring<Psn>& lost = c.send->lost;
  while (!lost.is_empty()) {
    SentUnit* unit = c.send->log.find(lost.front());
    if (unit != nullptr && unit->state == State::kLost) {
      if (!c.flow->has_room(unit->nominal_bytes)) return nullptr;
      lost.pop_front();
      return unit;
    }
    lost.pop_front();  // it arrived after all
  }
  return nullptr;
}

SentUnit* next_stalled(Connection& c, Time now) {
  SendState& send = *c.send;
  if (!send.stalled || send.stalled_retry > now) return nullptr;
  SentUnit* unit = send.log.find(*send.stalled);
  if (unit == nullptr || unit->state != State::kStalled) {
    send.stalled.reset();
    return nullptr;
  }
  send.stalled_retry = kNever;
  return unit;
}

SentUnit* next_response(Connection& c) {
  SendQueue& queue = c.send->queue;
  if (queue.next_response == queue.responses.end_serial() || !fits_window(c)) return nullptr;
  ResponseWork& work = queue.responses.at_serial(queue.next_response);
  const std::uint32_t payload = std::min(c.payload_mtu, work.length - work.sent_bytes);
  const std::uint32_t nominal = nominal_bytes_response(c, payload);
  if (!c.flow->has_room(nominal)) return nullptr;
  SentUnit& unit = c.send->log.append();
  unit.kind = SentUnit::Kind::kResponse;
  unit.owner = queue.next_response;
  unit.offset = work.sent_bytes;
  unit.nominal_bytes = nominal;
  work.sent_bytes += payload;
  ++work.unacked_packets;
  if (work.sent_bytes == work.length) {
    work.is_sent = true;
    ++queue.next_response;
  }
  return &unit;
}

// Whether the request's first packet may leave; sets what it is known by on the wire.
bool start(Connection& c, Request& request) {
  SendQueue& queue = c.send->queue;
  if (request.has_fence && !queue.reads.is_empty()) return false;
  if (request.wants_receive()) {
    if (static_cast<std::int32_t>(c.send->peer_credits - queue.next_receive_sequence) <= 0)
      return false;
    request.sequence = queue.next_receive_sequence++;
  } else if (request.wants_response()) {
    if (queue.reads.size() >= c.peer.max_reads) return false;
    request.sequence = queue.next_read_serial++;
    queue.reads.push_back(queue.next_request);
  } else {
    request.sequence = queue.next_write_serial++;
  }
  request.state = Request::State::kSending;
  c.send->credit_probe = kNever;
  return true;
}

// The receiver was not ready for this request's earlier packets.
bool is_stalled(Connection& c, std::uint64_t request) {
  if (!c.send->stalled) return false;
  const SentUnit* unit = c.send->log.find(*c.send->stalled);
  return unit != nullptr && unit->kind == SentUnit::Kind::kRequest && unit->owner == request;
}

SentUnit* next_request(Connection& c) {
  SendQueue& queue = c.send->queue;
  while (queue.next_request != queue.requests.end_serial()) {
    Request& request = queue.requests.at_serial(queue.next_request);
    if (request.state == Request::State::kFinished) {  // its deadline passed unsent
      ++queue.next_request;
      continue;
    }
    if (is_stalled(c, queue.next_request) || !fits_window(c)) return nullptr;
    const std::uint32_t total = request.request_payload_bytes();
    const std::uint32_t payload = std::min(c.payload_mtu, total - request.sent_bytes);
    const std::uint32_t nominal = nominal_bytes(c, request, payload);
    if (!c.flow->has_room(nominal)) return nullptr;
    if (request.state == Request::State::kQueued && !start(c, request)) return nullptr;
    SentUnit& unit = c.send->log.append();
    unit.kind = SentUnit::Kind::kRequest;
    unit.owner = queue.next_request;
    unit.offset = request.sent_bytes;
    unit.nominal_bytes = nominal;
    request.sent_bytes += payload;
    ++request.unacked_packets;
    if (request.sent_bytes == total) {
      request.state = Request::State::kSent;
      request.last_psn = unit.psn;
      ++queue.next_request;
    }
    return &unit;
  }
  return nullptr;
}

SentUnit* next_close(Connection& c) {
  SendState& send = *c.send;
  if (!send.wants_close || !send.queue.requests.is_empty() || !send.queue.responses.is_empty() ||
      !fits_window(c))
    return nullptr;
  send.wants_close = false;
  SentUnit& unit = send.log.append();
  unit.kind = SentUnit::Kind::kClose;
  unit.nominal_bytes = nominal_bytes_control(c);
  return &unit;
}

SentUnit* next_unit(Connection& c, Time now) {
  if (SentUnit* unit = next_lost(c)) return unit;
  if (SentUnit* unit = next_stalled(c, now)) return unit;
  // Lost packets that wait for the window go before anything new.
  if (!c.send->lost.is_empty()) return nullptr;
  if (SentUnit* unit = next_response(c)) return unit;
  if (SentUnit* unit = next_request(c)) return unit;
  return next_close(c);
}

// A unit that never left gives its PSN back only by being sent: here the connection is lost anyway.
void fail_on_dead_region(EngineContext& ctx, Connection& c) {
  fail_connection(ctx, c, OpStatus::kFlushed,
                  "a region was deregistered while the peer was reading it; the read cannot be "
                  "answered");
  c.wants_abort_notice = true;
  ctx.make_ready(c);
}

// How many packets of full length the request in hand can send in a run: from its middle, so that
// no header differs but in PSN and offset, and short of where an acknowledgement must be asked for.
std::uint32_t run_length(const Connection& c, const Request& request, std::uint32_t nominal,
                         std::uint64_t room) {
  const SendState& send = *c.send;
  if (request.state != Request::State::kSending || !send.lost.is_empty() || send.stalled ||
      send.queue.next_response != send.queue.responses.end_serial())
    return 0;
  const std::uint64_t behind = (request.length - request.sent_bytes - 1) / c.payload_mtu;
  const std::uint64_t sent = send.log.next().value - send.log.oldest().value;
  const std::uint64_t window = send.peer_window > sent ? send.peer_window - sent : 0;
  return static_cast<std::uint32_t>(std::min(
      {room, behind, window, send.log.room(), c.flow->packets_within(nominal, ack_margin(c))}));
}

// `unit` has just been built in `model`: more of the same. Returns how many packets.
std::uint32_t send_run(EngineContext& ctx, Connection& c, const SentUnit& unit,
                       const TxPacket& model, std::span<TxPacket> out, std::uint64_t budget,
                       Time now) {
  if (unit.kind != SentUnit::Kind::kRequest || unit.owner != c.send->queue.next_request) return 0;
  Request& request = c.send->queue.requests.at_serial(unit.owner);
  const std::uint32_t nominal = nominal_bytes(c, request, c.payload_mtu);
  const std::uint64_t room =
      std::min<std::uint64_t>(out.size(), budget / (nominal - kNominalOverheadBytes));
  const std::uint32_t count = run_length(c, request, nominal, room);
  if (count == 0) return 0;
  const SentUnit& first =
      c.send->log.append_run({.owner = unit.owner,
                              .offset = request.sent_bytes,
                              .step = c.payload_mtu,
                              .nominal_bytes = nominal,
                              .delivered_before = c.flow->delivered(),
                              .delivered_time_before = c.flow->delivered_time()},
                             count, unit.path, now);
  request.sent_bytes += count * c.payload_mtu;
  request.unacked_packets += count;
  c.flow->on_sent(std::uint64_t{count} * nominal, now);
  c.counters.packets_sent += count;
  ctx.transmissions += count;
  if (ctx.recorder.wants(TraceKind::kPacketSent))
    for (std::uint32_t i = 0; i < count; ++i)
      ctx.trace_sent(c, *c.send->log.find(Psn{first.psn.value + i}));
  build_run(ctx, c, first, model, out.first(count));
  return count;
}

void account(Connection& c, SentUnit& unit, PathId path, Time now) {
  SendState& send = *c.send;
  if (send.log.in_flight_packets() == 0) send.last_progress = now;
  // Alone in the log: the clock of delivery starts with it.
  if (send.log.oldest().value + 1 == send.log.next().value && unit.transmissions == 0)
    send.last_delivery = now;
  unit.delivered_before = c.flow->delivered();
  unit.delivered_time_before = c.flow->delivered_time();
  send.log.sent(unit, path, now);
  c.flow->on_sent(unit.nominal_bytes, now);
  ++c.counters.packets_sent;
}

}  // namespace

std::uint64_t burst_bytes(const Connection& c) {
  return std::min<std::uint64_t>(c.options.burst_bytes, c.flow->window_bytes() / 4);
}

std::size_t send_burst(EngineContext& ctx, Connection& c, std::span<TxPacket> out, Time now,
                       bool& more) {
  more = false;
  if (!carries_data(c.phase) || c.denied_paths == c.routes.size()) return 0;
  if (c.flow->is_paced_out(now)) {
    ctx.arm(c, c.flow->next_send_time());
    return 0;
  }
  const std::uint64_t budget = burst_bytes(c);
  std::uint64_t bytes = 0;
  std::size_t count = 0;
  std::optional<PathId> path;
  // One packet more than fits the budget would be a super-packet of its own.
  while (count < out.size() && (count == 0 || bytes + out[count - 1].total_bytes() <= budget)) {
    SentUnit* unit = next_unit(c, now);
    if (unit == nullptr) break;
    if (!path) path = c.paths->pick(now);
    SPINDRIFT_CHECK(path.has_value());  // some path is not denied
    account(c, *unit, *path, now);
    ctx.trace_sent(c, *unit);
    if (!build_data(ctx, c, *unit, *path, out[count])) {
      fail_on_dead_region(ctx, c);
      break;
    }
    ++ctx.transmissions;
    const std::size_t packet_bytes = out[count].total_bytes();
    bytes += packet_bytes;
    ++count;
    if (bytes >= budget) break;
    const std::uint32_t more_packets =
        send_run(ctx, c, *unit, out[count - 1], out.subspan(count), budget - bytes, now);
    bytes += more_packets * packet_bytes;
    count += more_packets;
  }
  if (count == 0) return 0;
  c.counters.bytes_sent += bytes;
  c.paths->on_sent(*path, static_cast<std::uint32_t>(count), bytes);
  c.send->tail_probe = now + 2 * std::max(c.rtt.smoothed(), c.options.rto_min / 2);
  ctx.arm(c, c.send->tail_probe);
  more = !is_over(c.phase);
  return count;
}

void on_other_units_acked(EngineContext& ctx, Connection& c, const SentUnit& unit,
                          std::uint32_t packets) {
  if (unit.kind == SentUnit::Kind::kClose) {
    if (c.phase == Phase::kClosing) end_connection(ctx, c, Phase::kClosed);
    return;
  }
  Ring<ResponseWork>& responses = c.send->queue.responses;
  responses.at_serial(unit.owner).unacked_packets -= packets;
  while (!responses.is_empty() && responses.front().is_sent &&
         responses.front().unacked_packets == 0)
    responses.pop_front();
}

bool has_unfinished_work(const Connection& c) {
  return c.send && (!c.send->queue.requests.is_empty() || !c.send->queue.responses.is_empty() ||
                    !c.send->log.is_empty());
}

}  // namespace spindrift
