#pragma once
// One rank of a measurement, from meeting the others to the last line.
#include "tools/coll/options.h"

namespace spindrift::coll {

// As options.rank says, or else the launcher. Returns the exit code; what went wrong is on standard
// error by then.
int run_rank(Options options);

// "spindrift coll: <sentence>" on standard error.
int complain(std::string_view sentence, int exit_code);

}  // namespace spindrift::coll
