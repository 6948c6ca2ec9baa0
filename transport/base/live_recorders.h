#pragma once
// The flight recorders of this process, so that what they hold can be written when a check of ours
// fails, or from a signal handler: where nobody can say which endpoints there are.
#include <cstdint>

namespace spindrift {

class FlightRecorder;

// Recorders beyond this many at a time are not found by write_all_traces().
inline constexpr std::size_t kMaxLiveRecorders = 256;

void enlist(const FlightRecorder& recorder);
void strike_off(const FlightRecorder& recorder);

}  // namespace spindrift
