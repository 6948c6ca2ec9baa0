#include "transport/receiver_credit.h"

#include <algorithm>

#include "transport/ack_output.h"
#include "transport/loss_detector.h"
#include "transport/packet_builder.h"

namespace spindrift {
namespace {

constexpr std::uint64_t kQuantum = 256;
constexpr std::uint32_t kQuantaMask = 0xffffff;  // 24 bits on the wire
constexpr std::uint64_t kGrantPackets = 4;  // per turn (uet-htsim, "as per default in UEC spec")
constexpr std::uint64_t kUnknownLinkBps = 100'000'000'000;
// A sender with more to send than its window asks again when this share of it is used up.
constexpr std::uint64_t kAskShare = 4;

std::uint32_t packet_overhead(const Connection& c) {
  return kRequestHeaderBytes + (c.has_crc ? kCrcBytes : 0) + kNominalOverheadBytes;
}

// The cumulative count near `newest` whose low bits are `told`; `newest` if it is an older one.
std::uint64_t advance(std::uint64_t newest, std::uint32_t told) {
  const auto low = static_cast<std::uint32_t>(newest / kQuantum);
  const std::uint32_t fresh = (told - low) & kQuantaMask;
  return fresh < (kQuantaMask + 1) / 2 ? newest + fresh * kQuantum : newest;
}

std::uint64_t remaining(const Connection& c, std::uint32_t bytes) {
  const std::uint64_t packets = std::max(1U, (bytes + c.payload_mtu - 1) / c.payload_mtu);
  return bytes + packets * packet_overhead(c);
}

// What waits to be sent, up to `most` bytes: no more can be under way anyway.
std::uint64_t backlog_bytes(const Connection& c, std::uint64_t most) {
  const SendState& send = *c.send;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < send.lost.size() && bytes < most; ++i)
    bytes += c.payload_mtu + packet_overhead(c);
  const SendQueue& queue = send.queue;
  for (std::uint64_t i = queue.next_response; i != queue.responses.end_serial() && bytes < most;
       ++i) {
    const ResponseWork& work = queue.responses.at_serial(i);
    bytes += remaining(c, work.length - work.sent_bytes);
  }
  for (std::uint64_t i = queue.next_request; i != queue.requests.end_serial() && bytes < most;
       ++i) {
    const Request& request = queue.requests.at_serial(i);
    if (request.state == Request::State::kFinished) continue;
    bytes += remaining(c, request.request_payload_bytes() - request.sent_bytes);
  }
  return std::min(bytes, most);
}

Rate own_link_rate(const EngineContext& ctx, const Connection& c) {
  if (!ctx.rails.caps().link_rate.is_unlimited()) return ctx.rails.caps().link_rate;
  if (!c.options.link_rate.is_unlimited()) return c.options.link_rate;
  return Rate::bits_per_second(kUnknownLinkBps);
}

// The pacer counts nominal bytes; a full packet takes more or less than that on the link.
Rate nominal_rate(const EngineContext& ctx, const Connection& c) {
  const std::uint64_t nominal = c.payload_mtu + packet_overhead(c);
  const std::uint64_t framed =
      nominal - kNominalOverheadBytes + ctx.rails.caps().frame_overhead_bytes;
  const auto bps = static_cast<double>(own_link_rate(ctx, c).bits_per_second());
  return Rate::bits_per_second(
      static_cast<std::uint64_t>(bps * static_cast<double>(nominal) / static_cast<double>(framed)));
}

void arm_pacer(EngineContext& ctx) {
  ctx.timers.arm(ctx.pacer_actor(), ctx.credit_pacer->next());
}

void build(Connection& c, wire::ControlType type, std::uint64_t bytes, TxPacket& out) {
  wire::Control control;
  control.type = type;
  control.spdcid = c.pdcid;
  control.dpdcid = c.peer_pdcid;
  control.payload = static_cast<std::uint32_t>(bytes / kQuantum) & kQuantaMask;
  finish_control(c, wire::encode(control, out.header), next_ack_path(c), out);
}

}  // namespace

void open_credit(EngineContext& ctx, Connection& c) {
  if (!ctx.credit_pacer)
    ctx.credit_pacer = std::make_unique<CreditPacer>(ctx.config.max_connections);
  ctx.credit_pacer->set_link_rate(nominal_rate(ctx, c));
  const std::uint64_t packet = c.payload_mtu + packet_overhead(c);
  // The other direction has about the same path: what one flow may have under way there.
  // Rounded up: less than a packet more would leave the last one of each grant waiting for the
  // next.
  const std::uint64_t grant = (kGrantPackets * packet + kQuantum - 1) / kQuantum * kQuantum;
  ctx.credit_pacer->open(
      c.index, {.grant_bytes = grant, .spare_bytes = c.flow->window_bytes() / kQuantum * kQuantum});
  c.credit.emplace();
}

void close_credit(EngineContext& ctx, Connection& c) {
  ctx.credit_pacer->close(c.index);
  c.credit.reset();
}

void on_credit_packet(EngineContext& ctx, Connection& c, const wire::Control& control, Time now) {
  CreditState& credit = *c.credit;
  if (control.type == wire::ControlType::kCredit) {
    ++c.counters.credit_grants_received;
    const std::uint64_t granted = advance(credit.granted_bytes, control.payload & kQuantaMask);
    if (granted == credit.granted_bytes) return;
    credit.granted_bytes = granted;
    credit.ask_again = kNever;
    c.flow->on_signal(now, CreditGranted{granted});
    ctx.arm(c, c.flow->limits().timer);
    ctx.make_ready(c);
    return;
  }
  credit.wanted_bytes = advance(credit.wanted_bytes, control.payload & kQuantaMask);
  ctx.credit_pacer->want(c.index, credit.wanted_bytes);
  arm_pacer(ctx);
  // It asks for what it was granted: the grant was lost.
  const std::uint64_t granted = ctx.credit_pacer->granted_bytes(c.index);
  if (credit.wanted_bytes > granted) return;
  credit.to_grant_bytes = granted;
  credit.owes_grant = true;
  ctx.make_ready(c);
}

void note_demand(EngineContext& ctx, Connection& c, Time now) {
  if (!carries_data(c.phase)) return;
  CreditState& credit = *c.credit;
  const std::uint64_t window = c.flow->window_bytes();
  const std::uint64_t limit = c.flow->limits().credit_bytes;
  const std::uint64_t sent = c.flow->sent();
  // Somewhat more than can be under way, so that the first message asks when it begins.
  const std::uint64_t backlog = backlog_bytes(c, window + window / kAskShare);
  // All that must have been granted for the backlog to fit, given what the limit makes of the
  // grants.
  const std::uint64_t needed = sent + backlog + credit.granted_bytes;
  const std::uint64_t total =
      needed > limit ? (needed - limit + kQuantum - 1) / kQuantum * kQuantum : 0;
  const std::uint64_t full_packet = c.payload_mtu + packet_overhead(c);
  const std::uint64_t packet = std::min(backlog, full_packet);
  const bool is_blocked = backlog != 0 && sent + packet > limit;
  // The last of what waits is asked for at once: nothing follows that would ask for it.
  const bool is_last = backlog < window && total > credit.granted_bytes;
  const std::uint64_t worth_asking = is_last ? full_packet : window / kAskShare;
  const bool has_all_it_asked_for = credit.asked_bytes <= credit.granted_bytes;
  const bool is_more = total > credit.asked_bytes && ((is_blocked && has_all_it_asked_for) ||
                                                      total - credit.asked_bytes >= worth_asking);
  const bool is_overdue = is_blocked && credit.ask_again <= now;
  if (is_more || is_overdue) {
    credit.backoff = is_more ? current_rto(c) : std::min(2 * credit.backoff, c.options.rto_max);
    credit.asked_bytes = std::max(credit.asked_bytes, total);
    credit.owes_request = true;
    credit.ask_again = kNever;
    ctx.make_ready(c);
  }
  if (!is_blocked)
    credit.ask_again = kNever;
  else if (credit.ask_again == kNever)
    credit.ask_again = now + std::max(credit.backoff, current_rto(c));
  ctx.arm(c, credit.ask_again);
}

std::size_t send_credit(Connection& c, std::span<TxPacket> out) {
  CreditState& credit = *c.credit;
  std::size_t sent = 0;
  if (credit.owes_request && sent < out.size()) {
    credit.owes_request = false;
    build(c, wire::ControlType::kCreditRequest, credit.asked_bytes, out[sent++]);
    ++c.counters.credit_requests_sent;
  }
  if (credit.owes_grant && sent < out.size()) {
    credit.owes_grant = false;
    build(c, wire::ControlType::kCredit, credit.to_grant_bytes, out[sent++]);
    ++c.counters.credit_grants_sent;
  }
  return sent;
}

void grant_credit(EngineContext& ctx, Time now) {
  ctx.credit_pacer->run(now, [&ctx](std::uint32_t source) {
    Connection& c = *ctx.connections[source];
    if (is_over(c.phase)) {
      ctx.credit_pacer->close(source);
      return;
    }
    c.credit->to_grant_bytes = ctx.credit_pacer->granted_bytes(source);
    c.credit->owes_grant = true;
    ctx.make_ready(c);
  });
  arm_pacer(ctx);
}

}  // namespace spindrift
