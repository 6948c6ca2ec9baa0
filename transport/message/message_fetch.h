#pragma once
// Where the bytes of the peer's records land, and what becomes of records that offer them or stand
// behind such: they begin in order, their bytes are fetched side by side, and they end in order.
#include "transport/message/message_context.h"

namespace spindrift {

// False: no offer.
bool read_offer(std::span<const std::byte> payload, Offer& out);

// Bytes [offset, offset + bytes) of a list; bit i of `ordered` says that its piece i is
// line-ordered.
void cut(std::span<const Sge> list, std::uint32_t ordered, std::uint64_t offset,
         std::uint64_t bytes, Landing& out);
// Where `bytes` bytes of a record land, from its byte `at` on: in a RECEIVE, in what a READ of ours
// names, or in a region, which is looked up each time.
OpStatus find_landing(MessageContext& ctx, MessageConnection& c, const Place& place,
                      std::uint64_t at, std::uint64_t bytes);

OpStatus status_of(wire::ReturnCode code);
// What it means, for people.
std::string_view reason_of(OpStatus status);
// The record whose turn it is asks for what is not allowed.
void refuse_at(MessageContext& ctx, MessageConnection& c, OpStatus status);

// The bytes of a record whose turn it is are in place.
void finish_record(MessageContext& ctx, MessageConnection& c, const Place& place,
                   std::uint32_t bytes);
// A READ or atomic has its answer.
void finish_read(MessageContext& ctx, MessageConnection& c, MessageRequest& request);

// What has arrived and is not done with is looked at before the turn is over.
void stir(MessageContext& ctx, MessageConnection& c);
// Forgets it, unless the connection is gone with its messages released: nothing of it may be
// delivered any more.
void drop_arrivals(MessageContext& ctx, MessageConnection& c);

}  // namespace spindrift
