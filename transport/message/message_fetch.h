#pragma once
// Where the bytes of an incoming message land, and fetching them from the peer's memory where they
// were offered: chunk by chunk, each checked like any other.
#include "transport/message/message_context.h"

namespace spindrift {

// False: no offer.
bool read_offer(std::span<const std::byte> payload, Offer& out);

// Bytes [offset, offset + bytes) of a list; bit i of `ordered` says that its piece i is
// line-ordered.
void cut(std::span<const Sge> list, std::uint32_t ordered, std::uint64_t offset,
         std::uint64_t bytes, Landing& out);
// Where bytes [offset, offset + bytes) of the message at hand land, in ctx.landing: a region that
// is checked for the whole message each time, or a RECEIVE.
OpStatus find_landing(MessageContext& ctx, MessageConnection& c, std::uint64_t offset,
                      std::uint64_t bytes);

OpStatus status_of(wire::ReturnCode code);
// What it means, for people.
std::string_view reason_of(OpStatus status);
// The record at hand asks for what is not allowed.
void refuse_at(MessageContext& ctx, MessageConnection& c, OpStatus status);

// Bytes of the message at hand are in place.
void finish_chunk(MessageContext& ctx, MessageConnection& c, std::uint32_t bytes);
// A READ or atomic has its answer.
void finish_read(MessageContext& ctx, MessageConnection& c, MessageRequest& request);

// Of the message at hand, or of our oldest READ. While it goes on it holds `message`, which made
// the offer.
void start_fetch(MessageContext& ctx, MessageConnection& c, const Offer& offer,
                 const FabricCompletion& message, bool is_for_read);
// What found no room in the fabric.
void fetch_on(MessageContext& ctx, MessageConnection& c);
void on_fetched(MessageContext& ctx, MessageConnection& c, bool is_ok);

}  // namespace spindrift
