#pragma once
// Connections of a ring: each rank calls the next one and is called by the one before.
#include <vector>

#include "spindrift/collective.h"

#include "collectives/executor.h"
#include "collectives/rendezvous.h"

namespace spindrift::collectives {

// Who calls, in the private data of the connection. Refused with a sentence if it does not fit.
struct Greeting {
  static constexpr std::size_t kWireBytes = 32;
  std::uint64_t nonce = 0;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t ranks = 0;
  std::uint32_t slice_bytes = 0;
  constexpr bool operator==(const Greeting&) const = default;
};
std::vector<std::byte> serialize(const Greeting& greeting);
// Why a caller with this private data is not the one expected; empty: it is.
std::string why_not(const Greeting& expected, std::span<const std::byte> private_data);

// Ready when both neighbours are connected; none for a group of one. The error names the neighbour
// and why.
Result<std::vector<Link>> connect_neighbours(Endpoint& endpoint, const Roster& roster,
                                             const CommunicatorOptions& options);

}  // namespace spindrift::collectives
