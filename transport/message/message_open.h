#pragma once
// From options to a connection that can carry data: slots, paths, flow, queues. All memory of a
// connection is taken here.
#include "transport/message/message_context.h"

namespace spindrift {

// A fresh connection in a free slot, or null when max_connections is reached.
MessageConnection* take_slot(MessageContext& ctx);
// Bounds of every option, and the names in it; nothing is kept when one is refused.
Status set_options(MessageContext& ctx, MessageConnection& c, const ConnectOptions& options);
// Memory for reads into line-ordered regions, once.
[[nodiscard]] Status make_bounces(MessageContext& ctx);
// After this, data may flow.
[[nodiscard]] Status open_data(MessageContext& ctx, MessageConnection& c);

}  // namespace spindrift
