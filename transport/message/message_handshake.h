#pragma once
// How connections of the MessageEngine come about and end in peace. The fabric carries one HELLO
// each way; what stands in it is that of the packet engine.
#include "transport/message/message_context.h"

namespace spindrift {

struct MessageTarget {
  std::vector<std::string> remotes;  // without the scheme
  std::vector<std::string> locals;
};
Result<ConnId> start_connect(MessageContext& ctx, const MessageTarget& target,
                             const ConnectOptions& options);
Status accept_request(MessageContext& ctx, MessageConnection& c, const ConnectOptions& options,
                      std::vector<std::string> locals);
Status reject_request(MessageContext& ctx, MessageConnection& c, std::string_view reason);
// A peer that calls, answers, opens, refuses, or is gone.
void on_fabric_event(MessageContext& ctx, const FabricEvent& event);

void close_connection(MessageContext& ctx, MessageConnection& c);
void abort_connection(MessageContext& ctx, MessageConnection& c);
// Draining: goes on to say farewell when all work is done.
void advance_close(MessageContext& ctx, MessageConnection& c);
// Its id and memory are free again.
void free_connection(MessageContext& ctx, MessageConnection& c);

}  // namespace spindrift
