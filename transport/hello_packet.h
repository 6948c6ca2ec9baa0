#pragma once
// HELLO packets: built from a connection, or for strangers.
#include <string>

#include "spindrift/provider.h"

#include "transport/engine_context.h"

namespace spindrift {

// HELLO and what answers it travel before both nonces are known: plain CRC.
inline constexpr std::uint32_t kHelloCrcSeed = 0;

// What this side says of itself; `kind` is kConnect or kAccept.
wire::Hello hello_of(const EngineContext& ctx, const Connection& c, wire::HelloKind kind);
// Padded to `payload_bytes` (0: as short as it is). The bytes live in the connection.
void build_hello(EngineContext& ctx, Connection& c, const wire::Hello& hello,
                 std::uint32_t payload_bytes, TxPacket& out);
// Why this side cannot talk to whoever sent a HELLO; an empty reason: it can.
struct Refusal {
  wire::RefuseCode code = wire::RefuseCode::kOther;
  std::string reason{};
};
// Queued for the next transmission; dropped when too many wait.
void refuse_stranger(EngineContext& ctx, const RxPacket& packet, const wire::RudRequest& pds,
                     const wire::Hello& theirs, const Refusal& refusal);
void nack_stranger(EngineContext& ctx, const RxPacket& packet, wire::NackCode code,
                   const wire::RudRequest& about, std::uint32_t payload);
[[nodiscard]] std::size_t send_strangers(EngineContext& ctx, std::span<TxPacket> out);

}  // namespace spindrift
