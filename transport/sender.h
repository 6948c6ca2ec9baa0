#pragma once
// The data half of transmission: which packets a connection sends now (retransmissions, responses,
// requests, farewell), within window, credits, pacing and bursts.
#include <span>

#include "spindrift/provider.h"

#include "transport/engine_context.h"

namespace spindrift {

// Fills a prefix of `out` with at most one burst on one path and returns its length. `more` says
// whether another burst could follow at once.
[[nodiscard]] std::size_t send_burst(EngineContext& ctx, Connection& c, std::span<TxPacket> out,
                                     Time now, bool& more);

// An acknowledged unit's share in its message.
void on_unit_acked(EngineContext& ctx, Connection& c, const SentUnit& unit);
// A request whose last missing part has come finishes; the queue's front may then be delivered.
void finish_if_done(Request& request);

// True while anything waits to be sent, acknowledged or answered.
bool has_unfinished_work(const Connection& c);

std::uint64_t burst_bytes(const Connection& c);

}  // namespace spindrift
