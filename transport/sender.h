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

// A request whose last missing part has come finishes; the queue's front may then be delivered.
inline void finish_if_done(Request& request) {
  if (request.state != Request::State::kSent || request.unacked_packets != 0) return;
  if (request.wants_response() && !request.is_answered) return;
  request.state = Request::State::kFinished;
}
// The share of `packets` acknowledged units in the response or farewell that they belong to.
void on_other_units_acked(EngineContext& ctx, Connection& c, const SentUnit& unit,
                          std::uint32_t packets);
// ... and in their message, whatever it is.
inline void on_units_acked(EngineContext& ctx, Connection& c, const SentUnit& unit,
                           std::uint32_t packets) {
  if (unit.kind != SentUnit::Kind::kRequest) {
    on_other_units_acked(ctx, c, unit, packets);
    return;
  }
  Ring<Request>& requests = c.send->queue.requests;
  if (!requests.contains_serial(unit.owner)) return;
  Request& request = requests.at_serial(unit.owner);
  request.unacked_packets -= packets;
  finish_if_done(request);
}

// True while anything waits to be sent, acknowledged or answered.
bool has_unfinished_work(const Connection& c);

std::uint64_t burst_bytes(const Connection& c);

}  // namespace spindrift
