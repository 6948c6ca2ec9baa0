#include "transport/handshake.h"

#include <algorithm>

#include "spindrift/version.h"

#include "absl/strings/str_cat.h"
#include "transport/base/bytes.h"
#include "transport/base/printable.h"
#include "transport/base/siphash.h"
#include "transport/completions.h"
#include "transport/describe.h"
#include "transport/hello_packet.h"
#include "transport/open_connection.h"
#include "transport/packet_builder.h"
#include "transport/wire/request_codec.h"

namespace spindrift {
namespace {

constexpr Duration kCookieSlot = std::chrono::seconds(4);

// A start PSN that only who receives at this address can know.
std::uint32_t cookie(const EngineContext& ctx, const NetAddress& source, std::uint64_t nonce,
                     std::uint64_t slot) {
  std::array<std::byte, 40> bytes{};
  std::copy_n(reinterpret_cast<const std::byte*>(source.ip.data()), 16, bytes.begin());
  store_be<std::uint64_t>(bytes, 16, nonce);
  store_be<std::uint64_t>(bytes, 24, slot);
  const auto words = std::bit_cast<std::array<std::uint64_t, 2>>(ctx.identity.cookie_key);
  const std::uint64_t hash = siphash24(bytes, SipKey{.k0 = words[0], .k1 = words[1]});
  return static_cast<std::uint32_t>(hash & 0x7fffffff) | 0x10000;
}

bool has_good_cookie(const EngineContext& ctx, const RxPacket& packet, const wire::Hello& hello,
                     std::uint32_t psn, Time now) {
  const auto slot = static_cast<std::uint64_t>(now.time_since_epoch() / kCookieSlot);
  return psn == cookie(ctx, packet.source, hello.nonce, slot) ||
         psn == cookie(ctx, packet.source, hello.nonce, slot - 1);
}

Listener* listener_for(EngineContext& ctx, std::uint16_t rail) {
  for (Listener& listener : ctx.listeners)
    if (listener.is_open &&
        std::find(listener.rails.begin(), listener.rails.end(), rail) != listener.rails.end())
      return &listener;
  return nullptr;
}

// Rails of both sides are joined in order, so both lists begin with the pair that is known to work.
void put_first(std::vector<std::uint16_t>& rails, std::uint16_t met) {
  const auto found = std::find(rails.begin(), rails.end(), met);
  if (found != rails.end()) std::rotate(rails.begin(), found, rails.end());
}

Connection* find_by_nonce(EngineContext& ctx, const RxPacket& packet, std::uint64_t nonce) {
  const auto found = ctx.by_nonce.find(nonce);
  if (found == ctx.by_nonce.end()) return nullptr;
  Connection* c = ctx.connections[found->second].get();
  if (c == nullptr || c->peer_nonce != nonce) return nullptr;
  const bool is_same_peer = std::any_of(
      c->remotes.begin(), c->remotes.end(),
      [&packet](const NetAddress& remote) { return remote.is_same_host(packet.source); });
  return is_same_peer ? c : nullptr;
}

// Known initiator, HELLO again: the answer was lost, or was too large for the way back.
void repeat_answer(EngineContext& ctx, Connection& c, const wire::Hello& hello, Time now) {
  c.handshake.last_hello = now;
  if (c.phase == Phase::kRequested) {
    c.handshake.acknowledge_hello = true;
  } else if (c.phase == Phase::kAccepting) {
    c.payload_mtu = std::min(c.payload_mtu, hello.payload_mtu);
    lower_mtu_if_unanswered(c);
    c.handshake.send_now = true;
  } else if (is_over(c.phase) && !c.handshake.refuse_reason.empty()) {
    c.handshake.send_refusal = true;
  } else {
    return;
  }
  ctx.make_ready(c);
}

Refusal judge(const EngineContext& ctx, const wire::Hello& hello) {
  if (hello.version_min > kWireVersionMax || hello.version_max < kWireVersionMin)
    return {wire::RefuseCode::kVersion,
            absl::StrCat("it speaks wire versions ", hello.version_min, "..", hello.version_max,
                         ", this side ", kWireVersionMin, "..", kWireVersionMax,
                         "; update the older one")};
  if (hello.partition_key != ctx.config.partition_key)
    return {wire::RefuseCode::kPartition,
            "its partition key differs from this side's; both need the same "
            "EndpointConfig::partition_key"};
  if (hello.payload_mtu < kMinPayloadMtu)
    return {wire::RefuseCode::kPayloadMtu,
            absl::StrCat("it proposes a payload MTU of ", hello.payload_mtu, " bytes; at least ",
                         kMinPayloadMtu)};
  return {};
}

void new_request(EngineContext& ctx, Listener& listener, const OpeningRequest& request,
                 const wire::Hello& hello, Time now) {
  const auto& [pds, rest, packet] = request;
  Connection* c = take_slot(ctx);
  if (c == nullptr) {
    refuse_stranger(
        ctx, packet, pds, hello,
        {wire::RefuseCode::kNoRoom, absl::StrCat("all ", ctx.config.max_connections,
                                                 " connections of this endpoint are in use "
                                                 "(EndpointConfig::max_connections)")});
    return;
  }
  c->phase = Phase::kRequested;
  ctx.trace_phase(*c);
  c->listener = listener.id;
  c->peer_pdcid = pds.spdcid;
  c->peer_first_psn = Psn{(1ULL << 32) + pds.psn};
  c->remotes = {packet.source};
  take_peer_traits(*c, hello, packet.source);
  c->peer_hello_crc = hello.crc;
  c->peer_is_receiver_driven = hello.cc_family == wire::CcFamily::kCredit;
  c->peer_credits = hello.receive_credits;
  const bool wants_all_rails = hello.rail_count > 1 && !listener.is_wildcard;
  c->rails = wants_all_rails ? listener.rails : std::vector<std::uint16_t>{packet.rail};
  put_first(c->rails, packet.rail);
  c->receives.emplace(ctx.config.receive_queue, nullptr);
  c->routes = {{.rail = packet.rail, .entropy = 0, .remote = 0}};
  c->handshake.started = now;
  c->handshake.last_hello = now;
  c->handshake.acknowledge_hello = true;
  ctx.by_nonce[c->peer_nonce] = c->index;
  ++ctx.half_open;
  ++listener.waiting;
  ctx.push_event(ConnEvent::Kind::kRequest, *c);
  ctx.arm(*c, now + kForgetRequest);
  ctx.make_ready(*c);
}

void propose(Connection& c, std::uint32_t payload_mtu) {
  c.handshake.proposed_mtu = payload_mtu;
  c.handshake.attempts_at_mtu = 0;
}

// On, unless one side said off (and the other did not insist) or both are on one host.
bool decide_crc(const Connection& c, std::uint64_t own_host) {
  const auto theirs = static_cast<CrcChoice>(c.peer_hello_crc);
  if (c.options.crc == CrcChoice::kOn || theirs == CrcChoice::kOn) return true;
  if (c.options.crc == CrcChoice::kOff || theirs == CrcChoice::kOff) return false;
  return c.peer.host_id != own_host;
}

Error refuse_at_accept(EngineContext& ctx, Connection& c, wire::RefuseCode code,
                       std::string reason) {
  c.handshake.refuse_code = code;
  c.handshake.refuse_reason = reason;
  c.handshake.send_refusal = true;
  fail_connection(ctx, c, OpStatus::kFlushed,
                  absl::StrCat("refused ", describe_peer(c), ": ", reason));
  ctx.make_ready(c);
  return Error(ErrorCode::kUnavailable, std::move(reason));
}

}  // namespace

Result<ConnId> start_connect(EngineContext& ctx, const ConnectTarget& target,
                             const ConnectOptions& options, Time now) {
  ctx.recorder.set_time(now);
  Connection* c = take_slot(ctx);
  if (c == nullptr)
    return Error(ErrorCode::kNoMemory,
                 absl::StrCat("all ", ctx.config.max_connections,
                              " connections of this endpoint are in use; release closed ones or "
                              "raise EndpointConfig::max_connections"));
  c->is_initiator = true;
  c->phase = Phase::kConnecting;
  ctx.trace_phase(*c);
  c->remotes = target.remotes;
  c->rails = target.rails;
  Status status = set_options(ctx, *c, options);
  if (status.ok()) status = make_routes(ctx, *c);
  const std::uint32_t mtu = status.ok() ? largest_payload_mtu(ctx, *c) : 0;
  if (status.ok() && mtu == 0)
    status = Error(ErrorCode::kUnsupported, absl::StrCat("the path to ", describe_peer(*c),
                                                         " carries packets too small for "
                                                         "the smallest payload MTU, ",
                                                         kMinPayloadMtu, " bytes"));
  if (!status.ok()) {
    free_slot(ctx, *c);
    return status.error();
  }
  propose(*c, mtu);
  c->handshake.own_start_psn = c->first_psn;
  c->handshake.started = now;
  c->handshake.gives_up = now + options.connect_timeout;
  c->handshake.send_now = true;
  ctx.make_ready(*c);
  ctx.arm(*c, c->handshake.gives_up);
  return c->id;
}

Status accept_request(EngineContext& ctx, Connection& c, const ConnectOptions& options,
                      std::vector<std::uint16_t> rails, Time now) {
  ctx.recorder.set_time(now);
  if (c.phase != Phase::kRequested)
    return Error(ErrorCode::kInvalidArgument,
                 c.phase == Phase::kFailed ? c.error : "accept: the connection is not a request");
  const std::vector<std::uint16_t> rails_before = c.rails;
  if (!rails.empty()) c.rails = std::move(rails);
  put_first(c.rails, c.routes[0].rail);
  Status status = set_options(ctx, c, options);
  if (status.ok()) status = make_routes(ctx, c);
  if (!status.ok()) {
    c.rails = rails_before;
    return status;
  }
  leave_waiting(ctx, c);
  if (c.peer_is_receiver_driven != c.cc.info->traits.is_receiver_driven)
    return refuse_at_accept(
        ctx, c, wire::RefuseCode::kCcFamily,
        absl::StrCat("congestion control ", options.congestion_control, " here and a ",
                     c.peer_is_receiver_driven ? "receiver" : "sender",
                     "-driven one there do not fit; choose the same family"));
  const auto theirs = static_cast<CrcChoice>(c.peer_hello_crc);
  if ((options.crc == CrcChoice::kOn && theirs == CrcChoice::kOff) ||
      (options.crc == CrcChoice::kOff && theirs == CrcChoice::kOn))
    return refuse_at_accept(ctx, c, wire::RefuseCode::kCrc,
                            "one side insists on CRC, the other on none; set one to auto");
  const std::uint32_t mtu = std::min(largest_payload_mtu(ctx, c), c.peer.payload_mtu);
  if (mtu < kMinPayloadMtu)
    return refuse_at_accept(ctx, c, wire::RefuseCode::kPayloadMtu,
                            "the path back carries packets too small for any payload MTU");
  c.payload_mtu = mtu / 128 * 128;
  c.has_crc = decide_crc(c, ctx.identity.host_id);
  c.crc_seed = crc_seed(c.peer_nonce, c.nonce);
  c.phase = Phase::kAccepting;
  ctx.trace_phase(c);
  c.handshake.gives_up = now + options.connect_timeout;
  c.handshake.acknowledge_hello = false;
  c.handshake.send_now = true;
  ctx.make_ready(c);
  ctx.arm(c, now);
  return ok_status();
}

Status reject_request(EngineContext& ctx, Connection& c, std::string_view reason) {
  if (c.phase != Phase::kRequested)
    return Error(ErrorCode::kInvalidArgument, "reject: the connection is not a request");
  leave_waiting(ctx, c);
  c.handshake.refuse_code = wire::RefuseCode::kRejected;
  c.handshake.refuse_reason =
      reason.empty() ? std::string("the application gave no reason") : std::string(reason);
  c.handshake.send_refusal = true;
  c.close_event_sent = true;  // the caller knows
  fail_connection(ctx, c, OpStatus::kFlushed, absl::StrCat("rejected: ", std::string(reason)));
  ctx.make_ready(c);
  return ok_status();
}

void on_hello(EngineContext& ctx, const OpeningRequest& request, Time now) {
  const auto& [pds, rest, packet] = request;
  ++ctx.counters.hellos_received;
  wire::StandardRequest ses;
  wire::Hello hello;
  std::size_t header = 0;
  if (wire::parse(rest, ses, header) != wire::ParseError::kOk ||
      ses.resource_index != wire::kHelloResourceIndex || pds.spdcid == 0 || pds.psn_offset != 0 ||
      wire::parse(rest.subspan(header), hello) != wire::ParseError::kOk ||
      hello.kind != wire::HelloKind::kConnect || hello.nonce == 0 || hello.crc > 2 ||
      rest.size() - header < hello.payload_mtu) {  // else a small HELLO would draw large answers
    ++ctx.counters.malformed_strangers;
    return;
  }
  if (Connection* known = find_by_nonce(ctx, packet, hello.nonce)) {
    repeat_answer(ctx, *known, hello, now);
    return;
  }
  Listener* listener = listener_for(ctx, packet.rail);
  if (listener == nullptr) {
    refuse_stranger(ctx, packet, pds, hello,
                    {wire::RefuseCode::kNobodyListens,
                     "the process at this port does not listen for connections"});
    return;
  }
  const Refusal refusal = judge(ctx, hello);
  if (!refusal.reason.empty()) {
    refuse_stranger(ctx, packet, pds, hello, refusal);
    return;
  }
  if (ctx.half_open >= ctx.config.half_open_before_cookie &&
      !has_good_cookie(ctx, packet, hello, pds.psn, now)) {
    ++ctx.counters.cookies_sent;
    const auto slot = static_cast<std::uint64_t>(now.time_since_epoch() / kCookieSlot);
    RxPacket answer = packet;
    for (std::size_t i = 0; i < hello.rail_count; ++i)
      if (hello.rails[i].is_same_host(packet.source)) answer.source = hello.rails[i];
    nack_stranger(ctx, answer, wire::NackCode::kNewStartPsn, pds,
                  cookie(ctx, packet.source, hello.nonce, slot));
    return;
  }
  if (listener->waiting >= listener->options.backlog) {
    refuse_stranger(ctx, packet, pds, hello,
                    {wire::RefuseCode::kNoRoom, absl::StrCat(listener->waiting,
                                                             " requests already wait for accept() "
                                                             "(ListenOptions::backlog)")});
    return;
  }
  new_request(ctx, *listener, request, hello, now);
}

void on_hello_reply(EngineContext& ctx, Connection& c, const OpeningRequest& reply, Time now) {
  const auto& [pds, rest, packet] = reply;
  wire::StandardRequest ses;
  wire::Hello hello;
  std::size_t header = 0;
  if (wire::parse(rest, ses, header) != wire::ParseError::kOk ||
      ses.resource_index != wire::kHelloResourceIndex ||
      wire::parse(rest.subspan(header), hello) != wire::ParseError::kOk ||
      hello.peer_nonce != c.nonce || hello.kind == wire::HelloKind::kConnect) {
    ++c.counters.malformed_received;
    return;
  }
  if (c.phase != Phase::kConnecting) {
    if (hello.kind == wire::HelloKind::kRefuse)
      fail_connection(ctx, c, OpStatus::kPeerGone,
                      absl::StrCat(describe_peer(c),
                                   " took its acceptance back: ", printable(hello.reason_text())));
    // Our ACK of the ACCEPT was lost.
    if (hello.kind == wire::HelloKind::kAccept && c.receive) {
      c.receive->ack.owes_update = true;
      ctx.make_ready(c);
    }
    return;
  }
  if (hello.kind == wire::HelloKind::kRefuse) {
    fail_connection(ctx, c, OpStatus::kPeerGone,
                    absl::StrCat(describe_peer(c),
                                 " refused the connection: ", printable(hello.reason_text())));
    return;
  }
  if (pds.spdcid == 0 || hello.payload_mtu < kMinPayloadMtu ||
      hello.payload_mtu > c.options.max_payload_mtu || hello.payload_mtu % 128 != 0) {
    ++c.counters.malformed_received;
    return;
  }
  const NetAddress met = c.remotes[0];
  take_peer_traits(c, hello, packet.source);
  put_first(c.rails, packet.rail);
  const Status routed = make_routes(ctx, c);
  if (!routed.ok()) {
    c.remotes = {met};
    fail_connection(ctx, c, OpStatus::kPeerGone, routed.error().message());
    return;
  }
  c.peer_pdcid = pds.spdcid;
  c.peer_first_psn = Psn{(1ULL << 32) + pds.psn};
  // HELLOs with another Start_PSN may have left meanwhile; what counts is which one was taken.
  c.first_psn = Psn{(1ULL << 32) + hello.peer_start_psn};
  c.payload_mtu = hello.payload_mtu;
  c.has_crc = hello.crc == static_cast<std::uint8_t>(CrcChoice::kOn);
  c.crc_seed = crc_seed(c.nonce, c.peer_nonce);
  const Status opened = open_data(ctx, c, hello.receive_credits, now);
  if (!opened.ok()) {
    fail_connection(ctx, c, OpStatus::kFlushed, opened.error().message());
    return;
  }
  c.phase = Phase::kOpen;
  ctx.trace_phase(c);
  ++ctx.counters.connections_opened;
  ++ctx.open_connections;
  c.receive->ack.owes_update = true;  // tells the target that its ACCEPT is here
  c.send->probes_wanted = 1;          // first RTT
  ctx.push_event(ConnEvent::Kind::kEstablished, c);
  ctx.make_ready(c);
  ctx.arm(c, now);
}

void on_hello_ack(Connection& c, const wire::Ack& ack, Time now) {
  if (ack.cack_psn != static_cast<std::uint32_t>(c.first_psn.value) &&
      ack.cack_psn != static_cast<std::uint32_t>(c.handshake.own_start_psn.value))
    return;
  c.handshake.is_pending_at_peer = true;
  c.last_heard = now;
  // Only the first attempt's answer is a clean sample.
  if (c.handshake.attempts == 1 && now > c.handshake.first_sent)
    c.rtt.add(now - c.handshake.first_sent);
}

void on_hello_nack(EngineContext& ctx, Connection& c, const wire::Nack& nack, Time now) {
  if (nack.psn != static_cast<std::uint32_t>(c.first_psn.value)) return;
  c.last_heard = now;
  if (static_cast<wire::NackCode>(nack.code) != wire::NackCode::kNewStartPsn) return;
  c.first_psn = Psn{(1ULL << 32) + nack.payload};
  c.handshake.send_now = true;
  ctx.make_ready(c);
}

void take_acceptance_back(Connection& c, std::string reason) {
  c.handshake.refuse_reason = std::move(reason);
  c.handshake.send_refusal = true;
}

void on_first_packet(EngineContext& ctx, Connection& c, Time now) {
  if (c.handshake.attempts == 1 && now > c.handshake.first_sent)
    c.rtt.add(now - c.handshake.first_sent);
  const Status opened = open_data(ctx, c, c.peer_credits, now);
  if (!opened.ok()) {
    take_acceptance_back(c, "it could not make its congestion control or path selector");
    fail_connection(ctx, c, OpStatus::kFlushed, opened.error().message());
    ctx.make_ready(c);
    return;
  }
  c.phase = Phase::kOpen;
  ctx.trace_phase(c);
  --ctx.half_open;
  ++ctx.open_connections;
  ++ctx.counters.connections_opened;
  ctx.push_event(ConnEvent::Kind::kEstablished, c);
  c.receive->ack.owes_update = true;
  ctx.make_ready(c);
  ctx.arm(c, now);
}

}  // namespace spindrift
