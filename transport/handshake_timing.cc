// When and how the handshake's packets leave, and what happens when no answer comes.
#include <algorithm>

#include "spindrift/version.h"

#include "absl/strings/str_cat.h"
#include "transport/completions.h"
#include "transport/describe.h"
#include "transport/handshake.h"
#include "transport/hello_packet.h"
#include "transport/open_connection.h"
#include "transport/packet_builder.h"

namespace spindrift {
namespace {

constexpr Duration kFirstRetry = std::chrono::milliseconds(20);
constexpr Duration kSlowestRetry = std::chrono::milliseconds(200);
constexpr std::uint32_t kAttemptsPerMtu = 3;
constexpr std::uint32_t kMaxShift = 10;

// An answer is repeated ever more rarely: whoever asks again gets it again at once, and an address
// that was forged is not flooded.
Duration retry_interval(const Connection& c) {
  const Duration doubled = kFirstRetry * (1 << std::min(c.handshake.attempts - 1, kMaxShift));
  return c.is_initiator ? std::min(doubled, kSlowestRetry) : doubled;
}

}  // namespace

void lower_mtu_if_unanswered(Connection& c) {
  HandshakeState& h = c.handshake;
  if (h.is_pending_at_peer || h.attempts_at_mtu < kAttemptsPerMtu) return;
  std::uint32_t& mtu = c.phase == Phase::kConnecting ? h.proposed_mtu : c.payload_mtu;
  const std::uint32_t smaller = next_smaller_mtu(mtu);
  if (smaller != 0) mtu = smaller;
  h.attempts_at_mtu = 0;
}

void leave_waiting(EngineContext& ctx, const Connection& c) {
  for (Listener& listener : ctx.listeners)
    if (listener.id == c.listener && listener.waiting != 0) --listener.waiting;
}

void on_too_big(EngineContext& ctx, Connection& c, std::uint32_t max_packet_bytes) {
  if (carries_data(c.phase)) {
    // What has a PSN cannot be cut smaller, and small control packets would keep the peer alive for
    // ever.
    if (max_packet_bytes == 0 || max_packet_bytes >= c.payload_mtu + kMaxPacketOverhead) return;
    fail_connection(
        ctx, c, OpStatus::kPeerGone,
        absl::StrCat("the path to ", describe_peer(c), " carries packets of ", max_packet_bytes,
                     " bytes now, and this connection was opened for ",
                     c.payload_mtu + kMaxPacketOverhead,
                     ": the MTU of an interface or a route has shrunk. Connect again"));
    c.wants_abort_notice = true;
    ctx.make_ready(c);
    return;
  }
  if (c.phase != Phase::kConnecting && c.phase != Phase::kAccepting) return;
  std::uint32_t& mtu = c.phase == Phase::kConnecting ? c.handshake.proposed_mtu : c.payload_mtu;
  std::uint32_t smaller = next_smaller_mtu(mtu);
  if (max_packet_bytes > kMaxPacketOverhead + kMinPayloadMtu)
    smaller = std::max(smaller, (max_packet_bytes - kMaxPacketOverhead) / 128 * 128);
  if (smaller == 0 || smaller >= mtu) return;
  mtu = smaller;
  c.handshake.attempts_at_mtu = 0;
  c.handshake.send_now = true;
  ctx.make_ready(c);
}

std::size_t send_handshake(EngineContext& ctx, Connection& c, std::span<TxPacket> out, Time now) {
  if (out.empty()) return 0;
  HandshakeState& h = c.handshake;
  if (h.send_refusal) {
    h.send_refusal = false;
    wire::Hello hello;
    hello.kind = wire::HelloKind::kRefuse;
    hello.version_min = kWireVersionMin;
    hello.version_max = kWireVersionMax;
    hello.nonce = c.nonce;
    hello.peer_nonce = c.peer_nonce;
    hello.refuse_code = h.refuse_code;
    hello.set_reason(h.refuse_reason);
    build_hello(ctx, c, hello, 0, out[0]);
    return 1;
  }
  if (h.acknowledge_hello && c.phase == Phase::kRequested) {
    h.acknowledge_hello = false;
    wire::Ack ack;
    ack.cack_psn = static_cast<std::uint32_t>(c.peer_first_psn.value);
    ack.spdcid = c.pdcid;
    ack.dpdcid = c.peer_pdcid;
    out[0].header = out[0].header.first(wire::encode(ack, out[0].header));
    out[0].payload_pieces = 0;
    route(c, PathId{0}, out[0]);
    out[0].dscp = c.options.control_dscp;
    append_crc(kHelloCrcSeed, out[0]);
    ++ctx.transmissions;
    return 1;
  }
  if (!h.send_now || (c.phase != Phase::kConnecting && c.phase != Phase::kAccepting)) return 0;
  h.send_now = false;
  if (h.attempts == 0) h.first_sent = now;
  ++h.attempts;
  ++h.attempts_at_mtu;
  h.next_attempt = now + retry_interval(c);
  ctx.arm(c, h.next_attempt);
  const bool is_connect = c.phase == Phase::kConnecting;
  const wire::Hello hello =
      hello_of(ctx, c, is_connect ? wire::HelloKind::kConnect : wire::HelloKind::kAccept);
  build_hello(ctx, c, hello, hello.payload_mtu, out[0]);
  return 1;
}

void handshake_timer(EngineContext& ctx, Connection& c, Time now) {
  HandshakeState& h = c.handshake;
  if (c.phase == Phase::kRequested) {
    if (now - h.last_hello < kForgetRequest) return;
    leave_waiting(ctx, c);
    fail_connection(ctx, c, OpStatus::kPeerGone,
                    describe_peer(c) + " asked to connect and stopped asking before accept()");
    return;
  }
  if (now >= h.gives_up) {
    fail_connection(
        ctx, c, OpStatus::kPeerGone,
        absl::StrCat(h.is_pending_at_peer ? "the application at " : "no answer from ",
                     describe_peer(c), h.is_pending_at_peer ? " did not accept the connection" : "",
                     " within ", format_duration(c.options.connect_timeout), " (", h.attempts,
                     " attempts, payload MTU down to ", h.proposed_mtu,
                     " bytes). Is a process listening there, and does a firewall let UDP pass?"));
    return;
  }
  if (now < h.next_attempt) return;
  lower_mtu_if_unanswered(c);
  h.send_now = true;
  ctx.make_ready(c);
}

Time handshake_deadline(const Connection& c) {
  const HandshakeState& h = c.handshake;
  if (c.phase == Phase::kRequested) return h.last_hello + kForgetRequest;
  return std::min(h.next_attempt, h.gives_up);
}

}  // namespace spindrift
