#pragma once
// Starts all ranks of a local run as processes of this program and looks after them.
#include <string>
#include <vector>

#include "tools/coll/options.h"

namespace spindrift::coll {

// Runs this program again, options.ranks times, with the arguments of this process and those that
// make it a rank. Returns when all have ended: 0, or 1 after having said which rank failed first
// and how. No child outlives this process, however it ends.
int start_ranks(const Options& options);

}  // namespace spindrift::coll
