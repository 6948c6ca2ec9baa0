#pragma once
// One datagram there and back, both sides polling: half of the round trip.
#include "bench/limit/options.h"
#include "bench/limit/wires.h"

namespace spindrift::limit {

Result<nlohmann::json> ping(Talk& talk, const TestPlan& plan);
// Answers until the client says that it is over.
[[nodiscard]] Status pong(Talk& talk, const TestPlan& plan, std::uint16_t reply_port);

}  // namespace spindrift::limit
