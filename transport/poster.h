#pragma once
// Accepts work from the user: checks every field, then queues it. What is wrong is said in a
// sentence.
#include <span>

#include "transport/engine_context.h"

namespace spindrift {

PostResult post_work(EngineContext& ctx, std::span<const WorkRequest> work, Time now);
PostResult post_shared_receives(EngineContext& ctx, SharedReceiveQueue& queue,
                                std::span<const WorkRequest> receives);

}  // namespace spindrift
