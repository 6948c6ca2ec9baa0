#pragma once
// Meeting in the store: every rank leaves its address and collects all others.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "spindrift/collective.h"

namespace spindrift::collectives {

// What a rank tells the others. No line breaks in any of it.
struct Seat {
  std::string address{};            // to be dialled at
  std::string same_host_address{};  // by ranks of its host; empty: as by all others
  std::uint64_t host = 0;           // equal at ranks of one host
  std::string costs{};              // its cost model; rank 0's counts for all
  std::string segments{};           // where it takes memory of others; empty: it shares none
};

// As others read it; and from what `rank` wrote.
std::string to_text(const Seat& seat);
Result<Seat> seat_from_text(const std::string& text, std::uint32_t rank);
// Whether an address is reached from its own host only.
bool is_of_one_host(std::string_view address);

struct Roster {
  std::uint64_t nonce = 0;  // of this run of the job, chosen by rank 0
  std::vector<Seat> seats;  // by rank

  // rank -> number of its host, in order of appearance.
  std::vector<std::uint32_t> hosts() const;
};

// Returns when all ranks have appeared; the error names those that have not.
Result<Roster> meet(Store& store, const CommunicatorOptions& options, const Seat& own);

}  // namespace spindrift::collectives
