#pragma once
// A communicator made of what the ranks have agreed on.
#include <memory>

#include "spindrift/collective.h"

#include "collectives/rendezvous.h"

namespace spindrift::collectives {

struct Parts {
  Endpoint* endpoint = nullptr;  // outlives the communicator
  ListenerId listener{};         // the communicator's from now on
  Roster roster{};
};

// Without waiting, links to the neighbours are made when a call first needs them, like all others.
Result<std::unique_ptr<Communicator>> assemble(Parts parts, const CommunicatorOptions& options,
                                               bool waits_for_neighbours);

}  // namespace spindrift::collectives
