#pragma once
// Receiver-driven sending over one connection: what the sender asks for and the receiver grants, by
// CREDIT_REQUEST and CREDIT packets (docs/WIRE.md, "Credit"). The endpoint's CreditPacer decides
// who is granted what and when; the congestion control algorithm makes a limit of it. Connections
// whose algorithm is not receiver-driven have none of this.
#include <span>

#include "spindrift/provider.h"

#include "transport/engine_context.h"
#include "transport/wire/pds.h"

namespace spindrift {

// The connection opens and has its flow.
void open_credit(EngineContext& ctx, Connection& c);
void close_credit(EngineContext& ctx, Connection& c);

inline bool is_credit(const wire::Control& control) {
  return control.type == wire::ControlType::kCredit ||
         control.type == wire::ControlType::kCreditRequest;
}
void on_credit_packet(EngineContext& ctx, Connection& c, const wire::Control& control, Time now);
// After sending, and when ask_again is due: whether more must be asked for.
void note_demand(EngineContext& ctx, Connection& c, Time now);
// CREDIT and CREDIT_REQUEST packets owed; fills a prefix of `out`.
[[nodiscard]] std::size_t send_credit(Connection& c, std::span<TxPacket> out);

// The pacer's own timer: makes all grants that are due.
void grant_credit(EngineContext& ctx, Time now);

}  // namespace spindrift
