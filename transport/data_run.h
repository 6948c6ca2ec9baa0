#pragma once
// Runs: packets that carry on the message of the packet before them, one PSN and one payload
// further. A long message is little else. What was checked for the first holds for all, so a run is
// taken in, logged and counted as one. Everything that is not exactly so goes the way of single
// packets.
#include <span>

#include "spindrift/provider.h"

#include "transport/engine_context.h"

namespace spindrift {

// `packets[0]` is a data packet that was just taken in. Takes in those after it that carry on its
// message; returns how many.
[[nodiscard]] std::size_t take_run(EngineContext& ctx, std::span<const RxPacket> packets);

}  // namespace spindrift
