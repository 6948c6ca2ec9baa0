#pragma once
// Super-packets one way as fast as they go. The receiver says now and then how many bytes have
// come, so that no more than a window is under way and nothing needs to be dropped.
#include "bench/limit/options.h"
#include "bench/limit/wires.h"

namespace spindrift::limit {

// Sends until the receiver has its result; returns the result, completed by the sender's part.
Result<nlohmann::json> send_stream(Talk& talk, const TestPlan& plan);
// Receives, measures, and tells the sender the result.
[[nodiscard]] Status receive_stream(Talk& talk, const TestPlan& plan, std::uint16_t reply_port);

}  // namespace spindrift::limit
