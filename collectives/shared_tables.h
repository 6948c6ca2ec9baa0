#pragma once
// What ranks of one host show one another in memory (shared_area.h), and who takes what of it: the
// messages of a plan that are not sent. Data, no behaviour; plans say the same in messages, and
// tests hold the two against each other.
#include <cstdint>
#include <optional>
#include <vector>

#include "spindrift/plan.h"

namespace spindrift::collectives {

// A piece is a run of chunks of the plan; all of a phase have equally many.
struct SharedPiece {
  std::uint32_t chunk = 0;  // the first, in the phase's source
  // Others take it; where not, it need not be shown while it stays what it is.
  bool is_for_others = true;
};

struct SharedTake {
  std::uint32_t place = 0;  // who shows it: its number among the ranks of the host
  std::uint32_t piece = 0;  // the how manieth of what that rank shows
  std::uint32_t chunk = 0;  // the first, in the phase's target
};

struct SharedPhase {
  BufferKind source = BufferKind::kInput;
  BufferKind target = BufferKind::kOutput;
  // What all show as the same piece is added, in the order of their places; else it is copied.
  bool adds = false;
  bool is_final = false;             // the sums are those of all ranks
  std::uint32_t chunks = 1;          // of a piece; 0: nothing is shown but that a rank is there
  std::uint32_t pieces = 0;          // of the rank that shows the most; 0: no phase on this host
  std::vector<SharedPiece> shown{};  // by this rank
  std::vector<SharedTake> takes{};   // by this rank, in the order of the places; own pieces too
};

// A call's phases in memory: before what it has to send to other hosts, and behind it.
struct SharedTables {
  std::uint32_t chunks_per_block = 1;
  std::uint32_t place = 0;               // of this rank
  std::vector<std::uint32_t> members{};  // place -> rank
  SharedPhase before{};
  SharedPhase behind{};
};

// For the rank of the request, whose plan it is. None: the algorithm has messages only, or the rank
// is alone on its host.
std::optional<SharedTables> shared_tables(const CollectiveAlgorithm& algorithm,
                                          const PlanRequest& request, const Plan& plan);

// The plan without what goes through memory instead.
Plan without_shared(const CollectiveAlgorithm& algorithm, const Plan& plan,
                    const PlanTopology& topology);

}  // namespace spindrift::collectives
