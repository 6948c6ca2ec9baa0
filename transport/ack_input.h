#pragma once
// What acknowledgements, NACKs and probe answers do to the sender: acknowledge, measure, judge
// losses, feed congestion control and paths. Everything here comes from the peer: absurd values are
// counted and dropped.
#include "transport/engine_context.h"
#include "transport/wire/pds.h"

namespace spindrift {

struct AckPacket {
  const wire::Ack& ack;
  std::span<const std::byte> rest;  // what follows its header
  std::span<const HopTelemetry> telemetry;
};
void on_ack(EngineContext& ctx, Connection& c, const AckPacket& packet, Time now);
void on_nack(EngineContext& ctx, Connection& c, const wire::Nack& nack, Time now);

}  // namespace spindrift
