#pragma once
// Proves on paper that plans do what they are for: all ranks' plans are run with symbols instead of
// numbers.
#include <span>

#include "spindrift/plan.h"

namespace spindrift::collectives {

// `plans` are those of rank 0, 1, ... for `request` (its rank is ignored). Refused with the place
// and the reason unless
//  * every receive is met by a send of as many elements, and nothing waits forever;
//  * every rank's output is what the collective promises: each contribution exactly once, each
//    sum made final exactly once, and the same additions in the same order at every rank that gets
//    the result (so that the bits are the same);
//  * no two steps of a rank that may run at the same time touch the same chunk, one of them
//  writing;
//  * waits by slice join steps whose slices lie in the same places.
Status check_plans(std::span<const Plan> plans, const PlanRequest& request);
// Also: every sum is ((rank 0 + rank 1) + rank 2) + ...
Status check_rank_order(std::span<const Plan> plans, const PlanRequest& request);

// What is in place at `rank`: gather and scatter are at their root only.
PlanRequest request_of_rank(PlanRequest request, std::uint32_t rank);

}  // namespace spindrift::collectives
