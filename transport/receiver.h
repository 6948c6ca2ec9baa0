#pragma once
// What arriving data packets do: placement into user memory in any order, message order, READs and
// atomics in their turn, faults. Nothing here trusts a field of the packet.
#include "transport/engine_context.h"
#include "transport/wire/pds.h"

namespace spindrift {

// A packet of an open connection, CRC checked; `rest` is what follows the PDS header, without CRC.
void on_request(EngineContext& ctx, Connection& c, const wire::RudRequest& pds,
                std::span<const std::byte> rest, const RxPacket& packet);
// CP that consumes a PSN (CLOSE_COMMAND) or asks something (PROBE, ACK_REQUEST).
void on_control(EngineContext& ctx, Connection& c, const wire::Control& control,
                const RxPacket& packet);
// The burst or batch ends: time to acknowledge.
void close_trigger(EngineContext& ctx, Connection& c);

// Everything that waits for the cumulative edge: receive completions, READs, atomics, the fault,
// CLOSE.
void after_edge_moved(EngineContext& ctx, Connection& c);

// The super-packet that was being taken in has ended, whatever its last packet was: data of
// EngineContext::bursting is acknowledged.
void end_burst(EngineContext& ctx);

}  // namespace spindrift
