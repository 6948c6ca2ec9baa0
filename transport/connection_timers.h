#pragma once
// Everything a connection does because time passed: retransmission timeout, tail and credit probes,
// operation deadlines, silence, keepalive, path probes, farewell.
#include "transport/engine_context.h"

namespace spindrift {

// Runs what is due; called when the connection's timer fires.
void run_timers(EngineContext& ctx, Connection& c, Time now);
// The true next deadline.
[[nodiscard]] Time next_timer(const Connection& c, Time now);

// Called when nothing more can be sent: if the next message waits for receive credits and nothing
// is in flight, nothing will ever be acknowledged, and only a probe finds out about credits whose
// update was lost.
void note_credit_wait(EngineContext& ctx, Connection& c, Time now);

// After work completed: goes on with closing when nothing is left to do.
void advance_close(EngineContext& ctx, Connection& c, Time now);

}  // namespace spindrift
