#pragma once
// Records of the peer in their order: they begin one after the other, the bytes of those that only
// offer them are fetched side by side, and they end one after the other.
#include "transport/message/message_context.h"

namespace spindrift {

// Whether its bytes are to be fetched.
bool is_offer(const Record& record);
// A record that neither waits nor makes others wait: nothing stands before it, and it is no offer.
void take_record(MessageContext& ctx, MessageConnection& c, const Record& record,
                 std::span<const std::byte> payload);
// Any other: it holds `message` until it is done with.
void wait_for_turn(MessageContext& ctx, MessageConnection& c, const Record& record,
                   const FabricCompletion& message);
// What waits: begins what may begin, asks for bytes that were offered, and ends, in order, what is
// whole.
void look_at_arrivals(MessageContext& ctx, MessageConnection& c);

}  // namespace spindrift
