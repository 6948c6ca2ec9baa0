#pragma once
// Reads of the peer's memory, chunk by chunk over the lanes: which chunk, which lane, how much at a
// time, and what becomes of chunks that are lost.
#include "transport/message/message_context.h"

namespace spindrift {

// Asks for what has been offered, as far as lanes and congestion control allow. False: the place of
// an offer is gone (Arrival::fault), and it may be its turn.
[[nodiscard]] bool post_reads(MessageContext& ctx, MessageConnection& c);
// A read is over.
void on_read(MessageContext& ctx, MessageConnection& c, const FabricCompletion& done);
// Bytes that were offered have not come yet.
bool is_fetching(const MessageConnection& c);
// What the timer of pacing, probes and congestion control was for.
void run_fetch_timer(MessageContext& ctx, MessageConnection& c);
// Nothing lands any more: the fabric has dropped the peer.
void forget_reads(MessageContext& ctx, MessageConnection& c);

}  // namespace spindrift
