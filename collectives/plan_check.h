#pragma once
// Symbolic execution of all ranks' plans: finds wrong schedules without a network.
#include <span>

#include "spindrift/plan.h"

namespace spindrift::collectives {

// Ok when, with only one step under way per lane, the plans run to their end, every chunk of every
// output holds each rank's contribution exactly once, and no step can touch a chunk while another
// one that reads or writes it may be under way, even when input and output are the same memory.
// The error names rank, lane, step and chunk.
Status check_all_reduce(std::span<const Plan> plans);

}  // namespace spindrift::collectives
