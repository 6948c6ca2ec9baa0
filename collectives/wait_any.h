#pragma once
// Waiting in the kernel: for one of several endpoints, or for other processes to have their turn.
#include <vector>

#include "spindrift/endpoint.h"

namespace spindrift::collectives {

// At most `timeout`; at once where an endpoint has something to do already or `wake_fd`, unless it
// is negative, is readable.
void wait_for_any(const std::vector<Endpoint*>& endpoints, Duration timeout, int wake_fd = -1);
// To whoever waits for this core; back at once where nobody does.
void give_way();
// A moment for the other thread of this core, while polling.
void relax();
// That this process may use, counted once at its start.
unsigned usable_cores();

}  // namespace spindrift::collectives
