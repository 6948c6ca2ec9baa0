#include "transport/hello_packet.h"

#include <algorithm>

#include "spindrift/version.h"

#include "transport/open_connection.h"
#include "transport/packet_builder.h"
#include "transport/wire/request_codec.h"

namespace spindrift {
namespace {

std::size_t encode_headers(const wire::RudRequest& pds, std::uint32_t payload,
                           std::span<std::byte> out) {
  wire::StandardRequest ses;
  ses.opcode = wire::Opcode::kSend;
  ses.is_som = true;
  ses.is_eom = true;
  ses.resource_index = wire::kHelloResourceIndex;
  ses.request_length = payload;
  std::size_t bytes = wire::encode(pds, out);
  bytes += wire::encode(ses, out.subspan(bytes));
  return bytes;
}

}  // namespace

wire::Hello hello_of(const EngineContext& ctx, const Connection& c, wire::HelloKind kind) {
  wire::Hello hello;
  hello.kind = kind;
  hello.version_min = kWireVersionMin;
  hello.version_max = kWireVersionMax;
  hello.nonce = c.nonce;
  hello.peer_nonce = kind == wire::HelloKind::kConnect ? 0 : c.peer_nonce;
  if (kind == wire::HelloKind::kAccept)
    hello.peer_start_psn = static_cast<std::uint32_t>(c.peer_first_psn.value);
  hello.partition_key = ctx.config.partition_key;
  hello.payload_mtu = kind == wire::HelloKind::kConnect ? c.handshake.proposed_mtu : c.payload_mtu;
  hello.path_count = static_cast<std::uint16_t>(c.routes.size());
  hello.cc_family = c.cc.info->traits.is_receiver_driven ? wire::CcFamily::kCredit
                                                         : wire::CcFamily::kSenderDriven;
  hello.crc = static_cast<std::uint8_t>(c.options.crc);
  if (kind == wire::HelloKind::kAccept)
    hello.crc = static_cast<std::uint8_t>(c.has_crc ? CrcChoice::kOn : CrcChoice::kOff);
  hello.host_id = ctx.identity.host_id;
  const PacketIoCaps& caps = ctx.rails.caps();
  // Connections share the buffer; the first few get a fair part, a crowd relies on loss recovery.
  const std::uint64_t sharers = std::min<std::uint64_t>(ctx.open_connections + 1, 8);
  hello.receive_buffer_bytes = caps.receive_buffer_bytes / sharers;
  hello.receive_credits = c.receives ? c.receives->credits() : 0;
  hello.window_packets = ctx.config.window_packets;
  hello.max_reads = static_cast<std::uint16_t>(ctx.config.max_reads);
  hello.link_rate_bps = caps.link_rate.bits_per_second();
  hello.progresses_alone = ctx.identity.progresses_alone;
  hello.rail_count =
      static_cast<std::uint8_t>(std::min<std::size_t>(c.rails.size(), wire::kMaxHelloRails));
  for (std::size_t i = 0; i < hello.rail_count; ++i)
    hello.rails[i] = ctx.rails.rails()[c.rails[i]];
  hello.private_bytes = static_cast<std::uint16_t>(c.options.private_data.size());
  std::copy(c.options.private_data.begin(), c.options.private_data.end(),
            hello.private_data.begin());
  return hello;
}

void build_hello(EngineContext& ctx, Connection& c, const wire::Hello& hello,
                 std::uint32_t payload_bytes, TxPacket& out) {
  // Refilled with the same kind of content at every attempt, so a provider that still holds the
  // last attempt sends nothing worse than a newer one.
  c.hello_bytes.resize(std::max<std::size_t>(wire::kMaxHelloBytes, kMaxPayloadMtu));
  std::fill(c.hello_bytes.begin(), c.hello_bytes.end(), std::byte{0});
  const std::size_t bytes = wire::encode(hello, c.hello_bytes);
  const auto payload = static_cast<std::uint32_t>(std::max<std::size_t>(bytes, payload_bytes));
  wire::RudRequest pds;
  pds.next = wire::NextHeader::kRequestStandard;
  pds.wants_ack = true;
  pds.is_syn = hello.kind == wire::HelloKind::kConnect;
  pds.is_retransmit = c.handshake.attempts > 1;
  pds.psn = static_cast<std::uint32_t>(c.first_psn.value);
  pds.spdcid = c.pdcid;
  pds.dpdcid = c.peer_pdcid;
  const std::size_t headers = encode_headers(pds, payload, out.header);
  out.header = out.header.first(headers);
  out.payload[0] = std::span<const std::byte>(c.hello_bytes).first(payload);
  out.payload_pieces = 1;
  const auto attempt = static_cast<std::uint16_t>(c.handshake.attempts % c.routes.size());
  route(c, PathId{attempt}, out);
  out.dscp = c.options.control_dscp;
  append_crc(kHelloCrcSeed, out);
  ++ctx.transmissions;
}

void refuse_stranger(EngineContext& ctx, const RxPacket& packet, const wire::RudRequest& pds,
                     const wire::Hello& theirs, const Refusal& refusal) {
  ++ctx.counters.hellos_refused;
  if (ctx.strangers.is_full()) return;
  wire::Hello hello;
  hello.kind = wire::HelloKind::kRefuse;
  hello.version_min = kWireVersionMin;
  hello.version_max = kWireVersionMax;
  hello.peer_nonce = theirs.nonce;
  hello.refuse_code = refusal.code;
  hello.set_reason(refusal.reason);
  StrangerReply& reply = ctx.strangers.push_back();
  // Strangers are told at the address they ask to be told at, on the host the packet came from.
  reply.to = packet.source;
  for (std::size_t i = 0; i < theirs.rail_count; ++i)
    if (theirs.rails[i].is_same_host(packet.source)) reply.to = theirs.rails[i];
  reply.rail = packet.rail;
  if (!reply.hello) reply.hello = std::make_unique<std::array<std::byte, wire::kMaxHelloBytes>>();
  reply.hello_bytes = static_cast<std::uint16_t>(wire::encode(hello, *reply.hello));
  wire::RudRequest answer;
  answer.next = wire::NextHeader::kRequestStandard;
  answer.psn = 0;
  answer.dpdcid = pds.spdcid;
  reply.bytes = static_cast<std::uint8_t>(encode_headers(answer, reply.hello_bytes, reply.packet));
}

void nack_stranger(EngineContext& ctx, const RxPacket& packet, wire::NackCode code,
                   const wire::RudRequest& about, std::uint32_t payload) {
  if (ctx.strangers.is_full()) return;
  StrangerReply& reply = ctx.strangers.push_back();
  reply.to = packet.source;
  reply.rail = packet.rail;
  reply.hello_bytes = 0;
  wire::Nack nack;
  nack.code = static_cast<std::uint8_t>(code);
  nack.psn = about.psn;
  nack.dpdcid = about.spdcid;
  nack.payload = payload;
  reply.bytes = static_cast<std::uint8_t>(wire::encode(nack, reply.packet));
}

std::size_t send_strangers(EngineContext& ctx, std::span<TxPacket> out) {
  std::size_t sent = 0;
  while (!ctx.strangers.is_empty() && sent < out.size()) {
    const StrangerReply& reply = ctx.strangers.front();
    TxPacket& packet = out[sent++];
    std::copy_n(reply.packet.begin(), reply.bytes, packet.header.begin());
    packet.header = packet.header.first(reply.bytes);
    packet.payload_pieces = 0;
    if (reply.hello_bytes != 0) {
      packet.payload[0] = std::span<const std::byte>(*reply.hello).first(reply.hello_bytes);
      packet.payload_pieces = 1;
    }
    packet.to = &reply.to;
    packet.rail = reply.rail;
    packet.entropy = 0;
    packet.ecn = Ecn::kEct0;
    packet.dscp = 0;
    append_crc(kHelloCrcSeed, packet);
    ++ctx.transmissions;
    // Popped slots stay untouched until the ring comes round, long after this batch has left.
    ctx.strangers.pop_front();
  }
  return sent;
}

}  // namespace spindrift
