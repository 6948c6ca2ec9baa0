#pragma once
// What a connection takes in: requests of the peer, executed in order; answers to our own; what the
// peer shows. Nothing here trusts a field of a record.
#include "transport/message/message_context.h"

namespace spindrift {

// A message, the end of a read, or news of a lane or of a peer's words, as polled.
void on_completion(MessageContext& ctx, const FabricCompletion& done);
// A record whose turn it is: an answer, or a request that has no bytes to place.
void take_at_once(MessageContext& ctx, MessageConnection& c, const Record& record,
                  std::span<const std::byte> payload);
// The oldest READ or atomic of ours that waits for its answer; null: none.
MessageRequest* oldest_read(MessageConnection& c);
// Ends the connection with a peer that does what no version of this library does.
void fail_on_nonsense(MessageContext& ctx, MessageConnection& c, std::string_view what);
// The connection's peer shows an end, and all that it sent before has been taken in.
void settle(MessageContext& ctx, MessageConnection& c);
// The region is about to be deregistered, and a peer may be fetching from it, or bytes of a WRITE
// be on their way into it: such connections fail.
void stop_using(MessageContext& ctx, const MemoryRegion& region);
// A RECEIVE was posted while a message waits for one.
void invite(MessageContext& ctx, MessageConnection& c);

}  // namespace spindrift
