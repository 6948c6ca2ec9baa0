#pragma once
// The target side of READ and atomics: they wait for all earlier PSNs, are executed once, and
// answer with packets of the reverse direction.
#include "transport/engine_context.h"

namespace spindrift {

// kOk: it waits or was executed; kNull: no room, the requester tries again; anything else is its
// fault.
wire::ReturnCode take_read(EngineContext& ctx, Connection& c, Psn psn,
                           const wire::StandardRequest& request, std::span<const std::byte> rest);
// Executes waiting requests up to the cumulative edge, in order. Returns kOk, or what was wrong
// with the first that failed, with its PSN.
wire::ReturnCode execute_reads(EngineContext& ctx, Connection& c, Psn& failed);

}  // namespace spindrift
