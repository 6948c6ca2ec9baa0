#include "transport/message/message_fetch.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "transport/message/message_completions.h"

namespace spindrift {

OpStatus status_of(wire::ReturnCode code) {
  switch (code) {
    case wire::ReturnCode::kOk:
      return OpStatus::kOk;
    case wire::ReturnCode::kPermission:
      return OpStatus::kRemoteAccess;
    case wire::ReturnCode::kOutOfRange:
      return OpStatus::kRemoteBounds;
    case wire::ReturnCode::kAtomicUnaligned:
      return OpStatus::kRemoteAlignment;
    default:
      return OpStatus::kRemoteKey;
  }
}

std::string_view reason_of(OpStatus status) {
  switch (status) {
    case OpStatus::kRemoteAccess:
      return "the region does not grant that right";
    case OpStatus::kRemoteBounds:
      return "it leaves the region";
    case OpStatus::kRemoteAlignment:
      return "the address is not a multiple of 8";
    case OpStatus::kRemoteLength:
      return "the message is longer than the RECEIVE it met";
    case OpStatus::kRemoteUnsupported:
      return "device memory is reached only where it can be read by the other side, without CRC";
    default:
      return "there is no region with that key, or it was deregistered";
  }
}

void refuse_at(MessageContext& ctx, MessageConnection& c, OpStatus status) {
  refuse_request(
      ctx, c, {.number = c.executed, .status = status, .reason = std::string(reason_of(status))});
}

bool read_offer(std::span<const std::byte> payload, Offer& out) {
  const std::size_t count = payload.size() / sizeof(OfferedPiece);
  if (count == 0 || count > kMaxSge || count * sizeof(OfferedPiece) != payload.size()) return false;
  out.count = static_cast<std::uint8_t>(count);
  out.bytes = 0;
  for (std::size_t i = 0; i < count; ++i) {
    OfferedPiece piece;
    std::memcpy(&piece, payload.data() + i * sizeof(piece), sizeof(piece));
    if (piece.bytes > kMaxMessageBytes) return false;
    out.pieces[i] = {.address = piece.address,
                     .key = piece.key,
                     .bytes = static_cast<std::uint32_t>(piece.bytes)};
    out.bytes += piece.bytes;
  }
  return out.bytes != 0;
}

void cut(std::span<const Sge> list, std::uint32_t ordered, std::uint64_t offset,
         std::uint64_t bytes, Landing& out) {
  out.count = 0;
  out.line_ordered = 0;
  out.is_device = false;
  for (std::size_t i = 0; i < list.size() && bytes != 0; ++i) {
    const Sge& piece = list[i];
    if (offset >= piece.bytes) {
      offset -= piece.bytes;
      continue;
    }
    const std::uint64_t here = std::min<std::uint64_t>(bytes, piece.bytes - offset);
    out.line_ordered |= ((ordered >> i) & 1U) << out.count;
    out.pieces[out.count++] = {.data = piece.data + offset,
                               .bytes = static_cast<std::uint32_t>(here),
                               .region = piece.region};
    bytes -= here;
    offset = 0;
  }
}

OpStatus find_landing(MessageContext& ctx, MessageConnection& c, const Place& place,
                      std::uint64_t at, std::uint64_t bytes) {
  Landing& out = ctx.landing;
  if (place.kind == RecordKind::kReadOffer) {
    const MessageRequest& request = c.requests->at_serial(place.request);
    cut(request.list(), request.line_ordered, at, bytes, out);
    return OpStatus::kOk;
  }
  if (place.kind == RecordKind::kSend) {
    const PostedReceive& posted = c.receives->find(place.receive)->posted;
    cut(posted.list(), posted.line_ordered, place.at + at, bytes, out);
    return OpStatus::kOk;
  }
  const MemoryTable::Target target =
      ctx.memory.find(place.key, place.offset, place.length, Access::kRemoteWrite);
  if (target.code != wire::ReturnCode::kOk) return status_of(target.code);
  out.count = 1;
  out.line_ordered = target.is_line_ordered ? 1 : 0;
  out.is_device = target.is_device;
  out.pieces[0] = {.data = target.data + place.at + at,
                   .bytes = static_cast<std::uint32_t>(bytes),
                   .region = target.region};
  return OpStatus::kOk;
}

void finish_record(MessageContext& ctx, MessageConnection& c, const Place& place,
                   std::uint32_t bytes) {
  ++c.executed;
  c.counters.bytes_received += bytes;
  c.owes_bulletin = true;
  ctx.make_ready(c);
  if (!place.ends || place.kind == RecordKind::kWrite) return;
  c.receives->front().has_end = true;
  deliver_receive(ctx, c);
}

void finish_read(MessageContext& ctx, MessageConnection& c, MessageRequest& request) {
  request.is_answered = true;
  --c.reads_waiting;
  deliver_requests(ctx, c);
  if (c.next_request < c.requests->end_serial()) ctx.make_ready(c);
}

void stir(MessageContext& ctx, MessageConnection& c) {
  if (c.is_stirred) return;
  c.is_stirred = true;
  ctx.stirred.push_back(c.index);
}

void drop_arrivals(MessageContext& ctx, MessageConnection& c) {
  for (; !c.arrivals->is_empty(); c.arrivals->pop_front())
    ctx.fabric.release(c.arrivals->front().message);
  c.next_begin = c.arrivals->end_serial();
}

}  // namespace spindrift
