#pragma once
// What happens to a connection with time: deadlines, silence, attempts that are given up.
#include "transport/message/message_context.h"

namespace spindrift {

void run_timers(MessageContext& ctx);
// A deadline of posted work; never later than the true one.
void note_deadline(MessageContext& ctx, MessageConnection& c, Time deadline);
// Requests are under way: whether the peer still lives is looked at from now on.
void watch_silence(MessageContext& ctx, MessageConnection& c);
// The peer posts no more RECEIVEs: what needs one and has none will never have one.
void flush_hopeless(MessageContext& ctx, MessageConnection& c);

}  // namespace spindrift
