#pragma once
// Sleeping until one of several endpoints has something to do.
#include <vector>

#include "spindrift/endpoint.h"

namespace spindrift::collectives {

// At most `timeout`; at once where one of them has something to do already.
void wait_for_any(const std::vector<Endpoint*>& endpoints, Duration timeout);

}  // namespace spindrift::collectives
