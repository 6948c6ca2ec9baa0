#pragma once
// Meeting in the store: every rank leaves its address and collects all others.
#include <cstdint>
#include <string>
#include <vector>

#include "spindrift/collective.h"

namespace spindrift::collectives {

struct Roster {
  std::uint64_t nonce = 0;             // of this run of the job, chosen by rank 0
  std::vector<std::string> addresses;  // by rank
};

// Returns when all ranks have appeared; the error names those that have not.
Result<Roster> meet(Store& store, const CommunicatorOptions& options,
                    const std::string& own_address);

}  // namespace spindrift::collectives
