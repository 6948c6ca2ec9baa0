#pragma once
// From finished work to the completion queue, in posting order; failure, flushing and the end of a
// connection.
#include "transport/message/message_context.h"

namespace spindrift {

// Delivers our requests that are finished and in turn.
void deliver_requests(MessageContext& ctx, MessageConnection& c);
// The RECEIVE at the front has its message: delivered, or the completion queue is full and the
// connection fails.
void deliver_receive(MessageContext& ctx, MessageConnection& c);
// A RECEIVE whose deadline passed before its message came: completes with kTimedOut, its place
// stays for the next one posted. False when the completion queue is full.
bool take_back(MessageContext& ctx, MessageConnection& c, ReceiveSlot& slot);
// After poll() made room.
void resume_blocked(MessageContext& ctx);
void let_go(MessageContext& ctx, const MessageRequest& request);

// A request of the peer that may not be executed. The connection fails on both sides: as soon as
// everything that was asked before it is answered.
struct RefusedRequest {
  std::uint32_t number = 0;
  OpStatus status = OpStatus::kRemoteKey;
  std::string reason{};
};
void refuse_request(MessageContext& ctx, MessageConnection& c, RefusedRequest refused);
// Answers are sent: the refusal may be told.
void tell_refusal(MessageContext& ctx, MessageConnection& c);

// Ends the connection: the first unfinished request gets `status`, what follows kFlushed
// (kPeerGone: all of them); RECEIVEs are flushed. kFailed (or kClosed) is announced when all are
// delivered. The peer is shown `flags` and let go of.
void fail_connection(MessageContext& ctx, MessageConnection& c, OpStatus status,
                     std::string sentence);
void end_connection(MessageContext& ctx, MessageConnection& c, Phase phase, std::uint32_t flags);

}  // namespace spindrift
