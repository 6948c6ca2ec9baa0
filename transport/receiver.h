#pragma once
// What arriving data packets do: placement into user memory in any order, message order, READs and
// atomics in their turn, faults. Nothing here trusts a field of the packet.
#include "transport/engine_context.h"
#include "transport/wire/pds.h"

namespace spindrift {

// A packet of an open connection, CRC checked; `rest` is what follows the PDS header, without CRC.
void on_request(EngineContext& ctx, Connection& c, const wire::RudRequest& pds,
                std::span<const std::byte> rest, const RxPacket& packet);
// Data of these PSNs is in place. All packets are as long as the last one; none before it was
// marked, or ended a super-packet.
struct Arrived {
  Psn first{};
  std::uint32_t packets = 1;
  bool wants_ack = false;  // the last one
  bool is_retransmit = false;
};
void on_arrived(EngineContext& ctx, Connection& c, const Arrived& arrived, const RxPacket& last);
// Whether a packet that ends a burst, `more_bytes` behind what is logged, is to be acknowledged
// now.
inline bool is_ack_due(const AckState& ack, bool wants_ack, std::size_t more_bytes) {
  // Where packets do not come in super-packets, this much data shares an acknowledgement (UET's
  // ACK_Gen_Trigger).
  constexpr std::size_t kAckBytes = 16384;
  return ack.is_due_per_burst || wants_ack || ack.open_bytes + more_bytes >= kAckBytes;
}
// Its payload was cut off on the way: the sender is told which packet it was.
void on_trimmed_request(EngineContext& ctx, Connection& c, const wire::RudRequest& pds,
                        const RxPacket& packet);
// CP that consumes a PSN (CLOSE_COMMAND) or asks something (PROBE, ACK_REQUEST).
void on_control(EngineContext& ctx, Connection& c, const wire::Control& control,
                const RxPacket& packet);
// The burst or batch ends: time to acknowledge.
void close_trigger(EngineContext& ctx, Connection& c);

// Everything that waits for the cumulative edge: receive completions, READs, atomics, the fault,
// CLOSE.
void after_edge_moved(EngineContext& ctx, Connection& c);

// The super-packet that was being taken in has ended, whatever its last packet was: data of
// EngineContext::bursting is acknowledged.
void end_burst(EngineContext& ctx);

}  // namespace spindrift
