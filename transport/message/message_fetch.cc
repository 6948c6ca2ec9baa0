#include "transport/message/message_fetch.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/message/message_completions.h"
#include "transport/message/message_sender.h"
#include "transport/placement.h"

namespace spindrift {
namespace {

// One read of the peer's memory: long enough that its fixed cost does not count, short enough that
// a turn stays bounded.
constexpr std::uint64_t kFetchBytes = 1U << 20U;

// Bytes [offset, offset + bytes) of what was offered; how many pieces.
std::uint8_t cut_offer(const Offer& offer, std::uint64_t offset, std::uint64_t bytes,
                       std::array<RemoteSpan, kMaxSge>& out) {
  std::uint8_t count = 0;
  for (std::uint8_t i = 0; i < offer.count && bytes != 0; ++i) {
    const RemoteSpan& piece = offer.pieces[i];
    if (offset >= piece.bytes) {
      offset -= piece.bytes;
      continue;
    }
    const std::uint64_t here = std::min<std::uint64_t>(bytes, piece.bytes - offset);
    out[count++] = {.address = piece.address + offset,
                    .key = piece.key,
                    .bytes = static_cast<std::uint32_t>(here)};
    bytes -= here;
    offset = 0;
  }
  return count;
}

MessageRequest& read_being_answered(MessageConnection& c) {
  return c.requests->at_serial(c.oldest_read);
}

OpStatus find_target(MessageContext& ctx, MessageConnection& c, std::uint64_t bytes) {
  if (!c.fetch.is_for_read) return find_landing(ctx, c, c.incoming.received + c.fetch.done, bytes);
  const MessageRequest& request = read_being_answered(c);
  cut(request.list(), request.line_ordered, c.fetch.done, bytes, ctx.landing);
  return OpStatus::kOk;
}

void end_fetch(MessageContext& ctx, MessageConnection& c) {
  c.fetch.is_active = false;
  if (std::exchange(c.fetch.holds_message, false) && c.has_peer)
    ctx.fabric.release(c.fetch.message);
}

void finish_fetch(MessageContext& ctx, MessageConnection& c) {
  const auto bytes = static_cast<std::uint32_t>(c.fetch.done);
  end_fetch(ctx, c);
  if (!c.fetch.is_for_read) {
    finish_chunk(ctx, c, bytes);
    return;
  }
  MessageRequest& request = read_being_answered(c);
  request.answered_bytes = bytes;
  c.owes_read_done = !send_read_done(ctx, c);
  if (c.owes_read_done) ctx.make_ready(c);
  finish_read(ctx, c, request);
}

}  // namespace

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

OpStatus find_landing(MessageContext& ctx, MessageConnection& c, std::uint64_t offset,
                      std::uint64_t bytes) {
  const IncomingMessage& in = c.incoming;
  Landing& out = ctx.landing;
  if (in.kind == RecordKind::kSend) {
    const PostedReceive& posted = c.receives->front().posted;
    cut(posted.list(), posted.line_ordered, offset, bytes, out);
    return OpStatus::kOk;
  }
  const MemoryTable::Target target =
      ctx.memory.find(in.key, in.offset, in.length, Access::kRemoteWrite);
  if (target.code != wire::ReturnCode::kOk) return status_of(target.code);
  out.count = 1;
  out.line_ordered = target.is_line_ordered ? 1 : 0;
  out.pieces[0] = {.data = target.data + offset,
                   .bytes = static_cast<std::uint32_t>(bytes),
                   .region = target.region};
  return OpStatus::kOk;
}

void finish_chunk(MessageContext& ctx, MessageConnection& c, std::uint32_t bytes) {
  IncomingMessage& in = c.incoming;
  in.received += bytes;
  ++c.executed;
  c.counters.bytes_received += bytes;
  c.owes_bulletin = true;
  ctx.make_ready(c);
  if (in.received != in.length) return;
  in.is_open = false;
  if (in.kind == RecordKind::kWrite) return;
  c.receives->front().has_end = true;
  ++c.next_message;
  deliver_receive(ctx, c);
}

void finish_read(MessageContext& ctx, MessageConnection& c, MessageRequest& request) {
  request.is_answered = true;
  --c.reads_waiting;
  deliver_requests(ctx, c);
  if (c.next_request < c.requests->end_serial()) ctx.make_ready(c);
}

void start_fetch(MessageContext& ctx, MessageConnection& c, const Offer& offer,
                 const FabricCompletion& message, bool is_for_read) {
  c.fetch.is_active = true;
  c.fetch.is_for_read = is_for_read;
  c.fetch.offer = offer;
  c.fetch.done = 0;
  c.fetch.message = message;
  fetch_on(ctx, c);
  c.fetch.holds_message = c.fetch.is_active;
}

void fetch_on(MessageContext& ctx, MessageConnection& c) {
  Fetch& fetch = c.fetch;
  const FabricCaps& caps = ctx.fabric.caps();
  const std::uint32_t chunk = caps.read_chunk_bytes != 0
                                  ? caps.read_chunk_bytes
                                  : std::min(c.options.chunk_bytes, c.options.lane_bytes);
  const std::uint64_t bytes = std::min({fetch.offer.bytes - fetch.done, kFetchBytes,
                                        std::uint64_t{chunk}, std::uint64_t{caps.max_read_bytes}});
  const OpStatus status = find_target(ctx, c, bytes);
  if (status != OpStatus::kOk) {
    end_fetch(ctx, c);
    refuse_at(ctx, c, status);
    return;
  }
  std::array<RemoteSpan, kMaxSge> remote;
  const std::uint8_t count = cut_offer(fetch.offer, fetch.done, bytes, remote);
  fetch.bytes = static_cast<std::uint32_t>(bytes);
  fetch.is_bounced = ctx.landing.line_ordered != 0;
  if (fetch.is_bounced && ctx.bounce.empty()) ctx.bounce.resize(kFetchBytes);
  const Sge bounce{.data = ctx.bounce.data(), .bytes = fetch.bytes};
  FabricOp op{.kind = FabricOp::Kind::kRead, .lane = fetch.message.lane, .peer = c.peer};
  op.remote = {remote.data(), count};
  op.local = fetch.is_bounced ? std::span(&bounce, 1) : ctx.landing.list();
  fetch.is_posted = ctx.fabric.post({&op, 1}) == 1;
  if (!fetch.is_posted) ctx.make_ready(c);
}

void on_fetched(MessageContext& ctx, MessageConnection& c, bool is_ok) {
  Fetch& fetch = c.fetch;
  if (!fetch.is_active || !fetch.is_posted) return;
  fetch.is_posted = false;
  // Bytes that were read from memory which its owner had given up by then are nobody's message. The
  // owner shows that it gives up before it does.
  if (Bulletin::unpack(ctx.fabric.status(c.peer)).is_over()) {
    c.ignores_rest = true;
    end_fetch(ctx, c);
    return;
  }
  if (!is_ok) {
    fail_connection(ctx, c, OpStatus::kPeerGone,
                    absl::StrCat("what ", describe_peer(ctx, c),
                                 " offered could not be fetched: ", ctx.fabric.last_error(c.peer)));
    return;
  }
  if (fetch.is_bounced) {
    const OpStatus status = find_target(ctx, c, fetch.bytes);
    if (status != OpStatus::kOk) {
      end_fetch(ctx, c);
      refuse_at(ctx, c, status);
      return;
    }
    scatter(ctx.landing.list(), 0, std::span(ctx.bounce).first(fetch.bytes),
            ctx.landing.line_ordered);
  }
  ctx.turn_bytes += fetch.bytes;
  fetch.done += fetch.bytes;
  if (fetch.is_for_read) c.counters.bytes_received += fetch.bytes;
  if (fetch.done == fetch.offer.bytes)
    finish_fetch(ctx, c);
  else
    fetch_on(ctx, c);
}

}  // namespace spindrift
