#pragma once
// Plans: who moves which chunk when. What collective algorithms return; data, no behaviour.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spindrift/collective.h"
#include "spindrift/export.h"
#include "spindrift/result.h"

namespace spindrift {

// A plan is one rank's part of a collective: lanes that run side by side, each an ordered list of
// steps. Places are counted in chunks, never in bytes, so that one plan serves every count and
// type: `count` elements make a block, and a block is cut into chunks_per_block chunks (the last
// ones may be short or empty). Chunk c of a buffer lies in its block c / chunks_per_block.
enum class BufferKind : std::uint8_t { kInput, kOutput, kScratch };

struct ChunkRef {
  BufferKind buffer = BufferKind::kOutput;
  std::uint32_t chunk = 0;
  constexpr auto operator<=>(const ChunkRef&) const = default;
};

enum class StepKind : std::uint8_t {
  kSend,           // source goes to the lane's peer
  kReceive,        // target comes from the lane's peer
  kReceiveReduce,  // target = source (+) what comes from the lane's peer
  kCopy,           // target = source
  kReduce,         // target = source (+) operand
};

struct StepRef {
  std::uint32_t lane = 0;
  std::uint32_t step = 0;
  constexpr auto operator<=>(const StepRef&) const = default;
};

// A step of this rank that must have completed before another starts to read or write its places.
struct StepWait {
  StepRef on{};
  // Slice k of the one waits for slice k of the other only: both have the same number of chunks,
  // and where their places overlap they start at the same chunk.
  bool is_by_slice = false;
};

struct Step {
  StepKind kind = StepKind::kSend;
  ChunkRef source{};
  ChunkRef operand{};  // kReduce
  ChunkRef target{};
  std::uint32_t chunks = 1;  // consecutive chunks from source, operand and target on
  // kReceiveReduce: target = what comes (+) source. Ranks that add the same two partial results
  // name the same one first, so that they get the same bits.
  bool is_incoming_first = false;
  // The target holds the result of all ranks after this step (averages are divided here).
  bool is_final = false;
  std::vector<StepWait> waits{};
};

// Steps start in order and complete in order; several may be under way at once. All of a lane are
// sends to its peer, or receives from it, or (without a peer) local.
struct Lane {
  std::optional<std::uint32_t> peer{};
  std::uint32_t channel = 0;  // tells lanes between the same two ranks apart, 0..4095
  std::vector<Step> steps{};
};

struct Plan {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::uint32_t chunks_per_block = 1;
  std::uint32_t scratch_blocks = 0;
  std::vector<Lane> lanes{};
};

// Which ranks share a host: rank -> number of its host, counted from 0 in order of appearance.
// Empty: every rank has a host of its own.
struct PlanTopology {
  std::vector<std::uint32_t> hosts{};
};

struct PlanRequest {
  Collective collective = Collective::kAllReduce;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::uint32_t root = 0;
  bool is_in_place = false;
  PlanTopology topology{};
};

struct CollectiveAlgorithm {
  std::string_view name;
  std::string_view summary;
  Collective collective = Collective::kAllReduce;
  bool is_rank_ordered = false;  // adds the inputs up in the order of the ranks, or adds nothing
  // Runs through memory that all ranks share, without messages (CommunicatorOptions::segments): the
  // plan says who takes what from whom.
  bool is_shared = false;
  // What ranks of one host tell one another comes first and last, and goes through their memory
  // where they share some.
  bool is_hierarchical = false;
  // For two ranks or more.
  Plan (*build)(const PlanRequest& request) = nullptr;
  // Null: any number of ranks, any topology. Else: why it does not do for this one; empty: it does.
  std::string (*why_not)(const PlanRequest& request) = nullptr;
};

// All that ship, in order of preference at equal cost. kSendReceive has none: its plan is the list
// of transfers.
SPINDRIFT_EXPORT std::span<const CollectiveAlgorithm* const> collective_algorithms();
// Unknown names are refused with the list of what there is for that collective.
SPINDRIFT_EXPORT Result<const CollectiveAlgorithm*> find_collective_algorithm(
    Collective collective, std::string_view name);
// One rank's plan. Checks the request (rank, root, topology).
SPINDRIFT_EXPORT Result<Plan> build_plan(const CollectiveAlgorithm& algorithm,
                                         const PlanRequest& request);

// What the cost model needs to know of the plans of all ranks. Messages between ranks of one host
// (PlanTopology) are counted apart.
struct PlanCost {
  struct Traffic {
    std::uint32_t steps = 0;     // messages one after the other
    std::uint32_t messages = 0;  // that one rank sends or receives, at most
    double blocks = 0;           // of `count` elements that one rank sends or receives, at most
  };
  Traffic network{};
  Traffic near{};
};
SPINDRIFT_EXPORT Result<PlanCost> cost_of(const CollectiveAlgorithm& algorithm,
                                          const PlanRequest& request);

}  // namespace spindrift
