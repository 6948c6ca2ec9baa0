#pragma once
// What a connection owes its peer besides data: acknowledgements, NACKs, answers to probes, probes.
#include <span>

#include "spindrift/provider.h"

#include "transport/engine_context.h"

namespace spindrift {

// Fills a prefix of `out`; what did not fit stays owed.
[[nodiscard]] std::size_t send_owed(EngineContext& ctx, Connection& c, std::span<TxPacket> out,
                                    Time now);
[[nodiscard]] bool owes_anything(const Connection& c);

// The path of the next packet that carries no data.
[[nodiscard]] PathId next_ack_path(Connection& c);

// Acknowledgements that leave behind a burst of data, in its super-packet if they can: on its path
// and in its class.
[[nodiscard]] std::size_t send_acks_along(EngineContext& ctx, Connection& c, const TxPacket& data,
                                          std::span<TxPacket> out, Time now);

}  // namespace spindrift
