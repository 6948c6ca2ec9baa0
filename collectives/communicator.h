#pragma once
// A communicator made of what the ranks have agreed on.
#include <memory>
#include <vector>

#include "spindrift/collective.h"

#include "collectives/rendezvous.h"
#include "collectives/session.h"

namespace spindrift::collectives {

// ok, or which option is out of its bounds.
Status check_options(const CommunicatorOptions& options);

// What the ranks have agreed on, and the endpoints: the first reaches all ranks, the second, if
// there is one, those of this host.
struct Parts {
  std::vector<Listening> listening{};  // endpoints outlive the communicator
  Roster roster{};
  // Of the ranks of this host; null: this rank has none to show. Every rank must know whether the
  // others have: those without messages have agreed in advance.
  std::unique_ptr<HostSegments> segments{};
  std::vector<bool> has_segments{};  // by rank
};

// Without waiting, links to the neighbours are made when a call first needs them, like all others.
Result<std::unique_ptr<Communicator>> assemble(Parts parts, const CommunicatorOptions& options,
                                               bool waits_for_neighbours);

}  // namespace spindrift::collectives
