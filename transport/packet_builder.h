#pragma once
// Turns units and acknowledgements into packets: headers, payload pieces, CRC. Decides nothing.
#include "spindrift/provider.h"

#include "transport/engine_context.h"

namespace spindrift {

// Size on the wire above IP, plus what lies below: what congestion control counts.
inline std::uint32_t nominal_bytes(const Connection& c, const Request& request,
                                   std::uint32_t payload) {
  constexpr std::uint32_t kFetchAddBytes = 4 + 8;
  constexpr std::uint32_t kCompareSwapBytes = 36;
  const std::uint32_t bytes =
      kRequestHeaderBytes + (c.has_crc ? kCrcBytes : 0) + kNominalOverheadBytes;
  if (request.kind == OpKind::kFetchAdd) return bytes + kFetchAddBytes;
  if (request.kind == OpKind::kCompareSwap) return bytes + kCompareSwapBytes;
  return bytes + payload;
}
// With less of the window left than this, the largest packet there is, an acknowledgement is asked
// for: else the sender may wait for one that is not due.
inline std::uint32_t ack_margin(const Connection& c) {
  return c.payload_mtu + kMaxPacketOverhead + kNominalOverheadBytes;
}
inline std::uint32_t nominal_bytes_response(const Connection& c, std::uint32_t payload) {
  constexpr std::uint32_t kHeaderBytes = 12 + 20;
  return kHeaderBytes + payload + (c.has_crc ? kCrcBytes : 0) + kNominalOverheadBytes;
}
inline std::uint32_t nominal_bytes_control(const Connection& c) {
  constexpr std::uint32_t kControlBytes = 16;
  return kControlBytes + (c.has_crc ? kCrcBytes : 0) + kNominalOverheadBytes;
}

// Builds the packet of `unit` on `path`. False when a response's region is gone (the connection
// must fail: the peer sees a key error).
[[nodiscard]] bool build_data(EngineContext& ctx, Connection& c, const SentUnit& unit, PathId path,
                              TxPacket& out);

// Packets from the middle of a request: `first` and those behind it in the log, routed as `model`.
// All are counted in ctx.transmissions already.
void build_run(EngineContext& ctx, Connection& c, const SentUnit& first, const TxPacket& model,
               std::span<TxPacket> out);

// A packet of headers only, already encoded in out.header's first `header_bytes`.
void finish_control(const Connection& c, std::size_t header_bytes, PathId path, TxPacket& out);

void route(const Connection& c, PathId path, TxPacket& out);
// CRC over header and payload pieces, seeded with both nonces, least significant byte first.
void append_crc(std::uint32_t seed, TxPacket& out);
// The packet without its CRC, or nothing when the CRC is wrong.
std::span<const std::byte> strip_crc(std::span<const std::byte> bytes, std::uint32_t seed);
std::uint32_t crc_seed(std::uint64_t initiator_nonce, std::uint64_t target_nonce);

}  // namespace spindrift
