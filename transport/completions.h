#pragma once
// From finished work to the completion queue, in posting order; failure and flushing of all of it.
#include "transport/engine_context.h"

namespace spindrift {

// Delivers what is finished and in turn. Called after every batch that may have finished something.
void deliver_requests(EngineContext& ctx, Connection& c);
void deliver_receives(EngineContext& ctx, Connection& c);

// A RECEIVE whose deadline passed before its message came: completes with kTimedOut, its place
// stays for the next one posted. False when the completion queue is full.
bool take_back(EngineContext& ctx, Connection& c, ReceiveSlot& slot);

// After poll() made room.
void resume_blocked(EngineContext& ctx);
// Work whose connection is released. What the provider may still read waits for it.
void orphan(EngineContext& ctx, const Request& request);
// After the provider released payload.
void on_released(EngineContext& ctx, std::uint64_t released);

// Ends the connection: the first unfinished request gets `status`, what follows kFlushed
// (kPeerGone: all of them); RECEIVEs are flushed. kFailed (or kClosed) is announced when all are
// delivered.
void fail_connection(EngineContext& ctx, Connection& c, OpStatus status, std::string sentence);
void end_connection(EngineContext& ctx, Connection& c, Phase phase);

}  // namespace spindrift
