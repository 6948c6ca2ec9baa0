#include "transport/packet_builder.h"

#include <algorithm>

#include "transport/base/bytes.h"
#include "transport/base/crc32c.h"
#include "transport/placement.h"
#include "transport/wire/request_codec.h"

namespace spindrift {
namespace {

wire::Opcode opcode_of(OpKind kind) {
  switch (kind) {
    case OpKind::kSend:
    case OpKind::kReceive:
      return wire::Opcode::kSend;
    case OpKind::kWrite:
    case OpKind::kWriteImm:
      return wire::Opcode::kWrite;
    case OpKind::kRead:
      return wire::Opcode::kRead;
    case OpKind::kFetchAdd:
    case OpKind::kCompareSwap:
      return wire::Opcode::kFetchingAtomic;
  }
  return wire::Opcode::kNoOp;
}

// Clear PSN = left edge of the send window - 1, as an offset from this PSN.
std::int16_t clear_offset(const SentLog& log, Psn psn) {
  const auto distance = static_cast<std::int64_t>(log.oldest().value - 1 - psn.value);
  return static_cast<std::int16_t>(std::max<std::int64_t>(distance, INT16_MIN));
}

wire::RudRequest pds_of(const Connection& c, const SentUnit& unit, wire::NextHeader next) {
  wire::RudRequest pds;
  pds.next = next;
  pds.is_retransmit = unit.transmissions > 1;
  pds.clear_psn_offset = clear_offset(c.send->log, unit.psn);
  pds.psn = static_cast<std::uint32_t>(unit.psn.value);
  pds.spdcid = c.pdcid;
  pds.dpdcid = c.peer_pdcid;
  // The window is about to close: ask, or the sender may wait for nothing.
  const std::uint64_t window = c.flow->window_bytes();
  pds.wants_ack =
      pds.is_retransmit || window - std::min(window, c.flow->in_flight()) < ack_margin(c);
  return pds;
}

std::size_t encode_request(const Connection& c, const Request& request, const SentUnit& unit,
                           std::uint32_t payload, std::span<std::byte> out) {
  wire::RudRequest pds = pds_of(c, unit, wire::NextHeader::kRequestStandard);
  const std::uint32_t total = request.request_payload_bytes();
  wire::StandardRequest ses;
  ses.opcode = opcode_of(request.kind);
  ses.is_som = unit.offset == 0;
  ses.is_eom = unit.offset + payload == total;
  pds.wants_ack = pds.wants_ack || ses.is_eom;
  ses.has_header_data = request.kind == OpKind::kWriteImm;
  ses.message_id = static_cast<std::uint16_t>(request.sequence);
  ses.initiator = request.sequence;
  ses.key = request.remote_key;
  ses.buffer_offset = request.remote_offset;
  ses.request_length = request.length;
  if (ses.is_som) {
    ses.header_data = request.immediate;
  } else {
    ses.payload_length = static_cast<std::uint16_t>(payload);
    ses.message_offset = unit.offset;
  }
  std::size_t bytes = wire::encode(pds, out);
  bytes += wire::encode(ses, out.subspan(bytes));
  if (ses.opcode == wire::Opcode::kFetchingAtomic) {
    wire::AtomicExtension atomic;
    atomic.opcode = request.kind == OpKind::kFetchAdd ? wire::AtomicOpcode::kSum
                                                      : wire::AtomicOpcode::kCompareSwap;
    atomic.compare = request.compare;
    atomic.swap = request.operand;
    bytes += wire::encode(atomic, out.subspan(bytes));
    if (request.kind == OpKind::kFetchAdd) {
      store_be<std::uint64_t>(out, bytes, request.operand);
      bytes += sizeof(request.operand);
    }
  }
  return bytes;
}

void build_request(EngineContext& ctx, Connection& c, const SentUnit& unit, TxPacket& out) {
  Request& request = c.send->queue.requests.at_serial(unit.owner);
  const bool has_payload = request.kind == OpKind::kSend || request.kind == OpKind::kWrite ||
                           request.kind == OpKind::kWriteImm;
  const std::uint32_t payload =
      has_payload ? std::min(c.payload_mtu, request.length - unit.offset) : 0;
  const std::uint32_t told = request.kind == OpKind::kFetchAdd ? 8 : payload;
  out.header = out.header.first(encode_request(c, request, unit, told, out.header));
  if (payload == 0) return;
  if (request.inline_buffer != kNoInlineBuffer) {
    const std::size_t at = request.inline_buffer * kMaxInlineBytes + unit.offset;
    out.payload[0] = ctx.inline_bytes.bytes().subspan(at, payload);
    out.payload_pieces = 1;
  } else {
    out.payload_pieces = gather(request.list(), unit.offset, payload, out.payload);
  }
  request.last_transmission = ctx.transmissions + 1;
}

bool build_response(EngineContext& ctx, Connection& c, const SentUnit& unit, TxPacket& out) {
  ResponseWork& work = c.send->queue.responses.at_serial(unit.owner);
  const std::uint32_t payload = std::min(c.payload_mtu, work.length - unit.offset);
  wire::RudRequest pds = pds_of(c, unit, wire::NextHeader::kResponseData);
  pds.wants_ack = pds.wants_ack || unit.offset + payload == work.length;
  wire::ResponseData ses;
  ses.read_message_id = work.message_id;
  ses.message_id = work.message_id;
  ses.payload_length = static_cast<std::uint16_t>(payload);
  ses.modified_length = work.length;
  ses.message_offset = unit.offset;
  std::size_t bytes = wire::encode(pds, out.header);
  bytes += wire::encode(ses, out.header.subspan(bytes));
  if (work.is_atomic) {
    store_be<std::uint64_t>(out.header, bytes, work.result);
    bytes += sizeof(work.result);
  } else if (payload != 0) {
    const MemoryTable::Target from =
        ctx.memory.find(work.key, work.offset + unit.offset, payload, Access::kRemoteRead);
    if (from.code != wire::ReturnCode::kOk) return false;
    out.payload[0] = {from.data, payload};
    out.payload_pieces = 1;
    ctx.memory.read_by_remote_key(work.key, ctx.transmissions + 1);
  }
  out.header = out.header.first(bytes);
  work.last_transmission = ctx.transmissions + 1;
  return true;
}

void build_close(const Connection& c, const SentUnit& unit, TxPacket& out) {
  wire::Control control;
  control.type = wire::ControlType::kCloseCommand;
  control.is_retransmit = unit.transmissions > 1;
  control.wants_ack = true;
  control.psn = static_cast<std::uint32_t>(unit.psn.value);
  control.spdcid = c.pdcid;
  control.dpdcid = c.peer_pdcid;
  out.header = out.header.first(wire::encode(control, out.header));
}

}  // namespace

bool build_data(EngineContext& ctx, Connection& c, const SentUnit& unit, PathId path,
                TxPacket& out) {
  out.payload_pieces = 0;
  switch (unit.kind) {
    case SentUnit::Kind::kRequest:
      build_request(ctx, c, unit, out);
      break;
    case SentUnit::Kind::kResponse:
      if (!build_response(ctx, c, unit, out)) return false;
      break;
    case SentUnit::Kind::kClose:
      build_close(c, unit, out);
      break;
  }
  route(c, path, out);
  out.dscp = c.options.dscp;
  if (c.has_crc) append_crc(c.crc_seed, out);
  return true;
}

void build_run(EngineContext& ctx, Connection& c, const SentUnit& first, const TxPacket& model,
               std::span<TxPacket> out) {
  Request& request = c.send->queue.requests.at_serial(first.owner);
  request.last_transmission = ctx.transmissions;
  std::array<std::byte, wire::kRudRequestBytes + wire::StandardRequest::kBytes> header{};
  SPINDRIFT_CHECK(encode_request(c, request, first, c.payload_mtu, header) == header.size());
  std::uint32_t offset = first.offset;
  Psn psn = first.psn;
  for (TxPacket& packet : out) {
    packet.header = packet.header.first(header.size());
    std::copy(header.begin(), header.end(), packet.header.begin());
    wire::place_in_run(packet.header, clear_offset(c.send->log, psn),
                       static_cast<std::uint32_t>(psn.value), offset);
    if (request.sge_count == 1) {
      packet.payload[0] = {request.sge[0].data + offset, c.payload_mtu};
      packet.payload_pieces = 1;
    } else {
      packet.payload_pieces = gather(request.list(), offset, c.payload_mtu, packet.payload);
    }
    packet.to = model.to;
    packet.rail = model.rail;
    packet.entropy = model.entropy;
    packet.ecn = model.ecn;
    packet.dscp = model.dscp;
    packet.trailer_bytes = 0;
    if (c.has_crc) append_crc(c.crc_seed, packet);
    offset += c.payload_mtu;
    ++psn.value;
  }
}

void finish_control(const Connection& c, std::size_t header_bytes, PathId path, TxPacket& out) {
  out.header = out.header.first(header_bytes);
  out.payload_pieces = 0;
  route(c, path, out);
  out.dscp = c.options.control_dscp;
  if (c.has_crc) append_crc(c.crc_seed, out);
}

void route(const Connection& c, PathId path, TxPacket& out) {
  const PathRoute& way = c.routes[path.value];
  out.to = &c.remotes[way.remote];
  out.rail = way.rail;
  out.entropy = way.entropy;
  out.ecn = Ecn::kEct0;
  out.trailer_bytes = 0;
}

void append_crc(std::uint32_t seed, TxPacket& out) {
  std::uint32_t crc = crc32c(out.header, seed);
  for (std::size_t i = 0; i < out.payload_pieces; ++i)
    crc = crc32c(out.payload[i], crc);
  for (std::size_t i = 0; i < kCrcBytes; ++i)
    out.trailer[i] = static_cast<std::byte>((crc >> (8 * i)) & 0xff);
  out.trailer_bytes = kCrcBytes;
}

std::span<const std::byte> strip_crc(std::span<const std::byte> bytes, std::uint32_t seed) {
  if (bytes.size() < kCrcBytes) return {};
  const std::span<const std::byte> body = bytes.first(bytes.size() - kCrcBytes);
  std::uint32_t told = 0;
  for (std::size_t i = 0; i < kCrcBytes; ++i)
    told |= std::to_integer<std::uint32_t>(bytes[body.size() + i]) << (8 * i);
  return crc32c(body, seed) == told ? body : std::span<const std::byte>{};
}

std::uint32_t crc_seed(std::uint64_t initiator_nonce, std::uint64_t target_nonce) {
  std::array<std::byte, 16> nonces{};
  store_be<std::uint64_t>(nonces, 0, initiator_nonce);
  store_be<std::uint64_t>(nonces, 8, target_nonce);
  return crc32c(nonces);
}

}  // namespace spindrift
