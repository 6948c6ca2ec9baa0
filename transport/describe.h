#pragma once
// Words for people: peers, paths, what was last heard. Only for errors and reports.
#include <string>
#include <string_view>

#include "transport/engine_context.h"

namespace spindrift {

std::string format_duration(Duration duration);  // "1.5 ms"
ConnState state_of(Phase phase);
std::string_view name_of(PathState state);
std::string describe_peer(const Connection& c);  // "peer 10.0.0.1:4793"
// "last heard 5.0 s ago; 12 packets in flight, 9 timeouts; 2 of 16 paths dark for up to 4.9 s (ev
// 3,7), 8 idle"
std::string describe_silence(const Connection& c, Time now);
// What the algorithm and the path policy of this connection did that made no sense; empty: nothing.
std::string describe_misfits(const Connection& c);

}  // namespace spindrift
