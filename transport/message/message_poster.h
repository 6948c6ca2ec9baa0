#pragma once
// Accepts work from the user: checks every field, then queues it and sends what may go at once.
#include <span>

#include "transport/message/message_context.h"

namespace spindrift {

PostResult post_work(MessageContext& ctx, std::span<const WorkRequest> work);
PostResult post_shared_receives(MessageContext& ctx, SharedReceiveQueue& queue,
                                std::span<const WorkRequest> receives);

}  // namespace spindrift
