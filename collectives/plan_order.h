#pragma once
// What of one plan may run at the same time. Part of the plan check.
#include <vector>

#include "spindrift/plan.h"

namespace spindrift::collectives {

// The places a step reads or writes, first those it reads.
std::vector<ChunkRef> refs_of(const Step& step);

// Refused: two steps that may run at the same time touch one chunk, and one of them writes it.
Status check_races(const Plan& plan, const PlanRequest& request);

}  // namespace spindrift::collectives
