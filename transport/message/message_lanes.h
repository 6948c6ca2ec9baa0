#pragma once
// The lanes of a connection: up or down as the fabric says, denied or allowed as operators say.
#include "transport/message/message_context.h"

namespace spindrift {

// The fabric said so. (A lane that lost much is BAD as well, and is tried again now and then.)
bool is_down(const MessageConnection& c, PathId lane);
// A lane went down or is up again.
void on_lane(MessageContext& ctx, MessageConnection& c, const FabricCompletion& news);
// Its state has changed.
void trace_lane(MessageContext& ctx, MessageConnection& c, PathId lane);

// An operator's word on a lane, and telling the peer, which reads our memory by it.
void deny_lane(MessageContext& ctx, MessageConnection& c, PathId lane, bool is_denied);
void send_lane_notes(MessageContext& ctx, MessageConnection& c);
void take_lane_note(MessageContext& ctx, MessageConnection& c, const Record& note);

// "; 2 of 4 lanes are down: lane 1 (...), lane 3 (...)", for errors; empty: none is.
std::string describe_lanes(const MessageContext& ctx, const MessageConnection& c);

}  // namespace spindrift
