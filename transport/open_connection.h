#pragma once
// From what was negotiated to a connection that can carry data: slots, paths, flow, logs. All
// memory of a connection is taken here.
#include "transport/engine_context.h"
#include "transport/wire/hello.h"

namespace spindrift {

// Bounds of every option, with a sentence for the first that is broken.
Status check_connect_options(const ConnectOptions& options, std::size_t shared_queues);
// A fresh connection in a free slot, or null when max_connections is reached.
Connection* take_slot(EngineContext& ctx);
void free_slot(EngineContext& ctx, Connection& c);

Status set_options(EngineContext& ctx, Connection& c, const ConnectOptions& options);
// Pairs local rails with the peer's and opens their entropies.
Status make_routes(EngineContext& ctx, Connection& c);
// What the peer said about itself.
void take_peer_traits(Connection& c, const wire::Hello& hello, const NetAddress& source);
// Sequence numbers, window, congestion control: after this, data may flow.
[[nodiscard]] Status open_data(EngineContext& ctx, Connection& c, std::uint32_t peer_credits,
                               Time now);

// Largest payload MTU that every pair of rails carries, a multiple of 128; 0: not even the
// smallest.
std::uint32_t largest_payload_mtu(const EngineContext& ctx, const Connection& c);
// The next smaller size to try; 0: none.
std::uint32_t next_smaller_mtu(std::uint32_t payload_mtu);

inline constexpr std::uint32_t kMinPayloadMtu = 512;
inline constexpr std::uint32_t kMaxPayloadMtu = 16256;

}  // namespace spindrift
