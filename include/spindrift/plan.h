#pragma once
// Plans: who moves which chunk when. What collective algorithms return; data, no behaviour.
#include <cstdint>
#include <optional>
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
};

struct StepRef {
  std::uint32_t lane = 0;
  std::uint32_t step = 0;
  constexpr auto operator<=>(const StepRef&) const = default;
};

struct Step {
  StepKind kind = StepKind::kSend;
  ChunkRef source{};
  ChunkRef target{};
  std::uint32_t chunks = 1;  // consecutive chunks from source and target on
  // kReceiveReduce: target = what comes (+) source. Ranks that add the same two partial results
  // name the same one first, so that they get the same bits.
  bool is_incoming_first = false;
  // The target holds the result of all ranks after this step (averages are divided here).
  bool is_final = false;
  // Steps of this rank that must have completed before this one starts to read or write its places.
  // Two steps over the same number of chunks wait slice by slice, others as a whole.
  std::vector<StepRef> waits{};
};

// Steps start in order and complete in order; several may be under way at once. All of a lane are
// sends to its peer, or receives from it, or (without a peer) copies.
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

// What the cost model needs to know: messages one after the other, and how often a rank at most
// sends `count` elements (one block). Time = steps x latency + blocks x bytes / bandwidth.
struct PlanCost {
  double steps = 0;
  double blocks = 0;
};

struct CollectiveAlgorithm {
  std::string_view name;
  std::string_view summary;
  Collective collective = Collective::kAllReduce;
  bool is_rank_ordered = false;  // adds the inputs up in the order of the ranks, or adds nothing
  Plan (*build)(const PlanRequest& request) = nullptr;
  PlanCost (*cost)(const PlanRequest& request) = nullptr;
};

// All that ship, in order of preference at equal cost. kAllToAllV has those of kAllToAll that move
// each block once; kSendReceive has none, its plan is the list of transfers.
SPINDRIFT_EXPORT std::span<const CollectiveAlgorithm* const> collective_algorithms();
// Unknown names are refused with the list of what there is for that collective.
SPINDRIFT_EXPORT Result<const CollectiveAlgorithm*> find_collective_algorithm(
    Collective collective, std::string_view name);

}  // namespace spindrift
