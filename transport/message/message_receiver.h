#pragma once
// What a connection takes in: requests of the peer, executed in order; answers to our own; what the
// peer shows. Nothing here trusts a field of a record.
#include "transport/message/message_context.h"

namespace spindrift {

// A message, the end of a read, or news of a peer's words, as polled.
void on_completion(MessageContext& ctx, const FabricCompletion& done);
// The connection's peer shows an end, and all that it sent before has been taken in.
void settle(MessageContext& ctx, MessageConnection& c);
// The region is about to be deregistered: a peer may be fetching from it. Such connections fail.
void stop_fetches_from(MessageContext& ctx, std::uint64_t key);
// A RECEIVE was posted while a message waits for one.
void invite(MessageContext& ctx, MessageConnection& c);

}  // namespace spindrift
