#pragma once
// Measures the constants of the cost model on this machine and stores them.
#include "spindrift/collective.h"

#include "tools/coll/options.h"

namespace spindrift::coll {

// A call of all ranks. Rank 0 prints what it found, and writes the file of the cost model.
Status tune(const Options& options, Communicator& communicator);

}  // namespace spindrift::coll
