#pragma once
// What a call says about its buffers, checked.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "spindrift/plan.h"

#include "collectives/bound_plan.h"

namespace spindrift::collectives {

// Bytes that this rank's call reads and writes; 0 where it has no such buffer.
struct CallBuffers {
  std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t input_bytes = 0;
  std::uint64_t output_bytes = 0;
  bool is_in_place = false;
};

// Refuses roots, counts and buffers that do not make sense, with the reason.
Result<CallBuffers> check_call(const CollectiveCall& call, std::uint32_t rank, std::uint32_t ranks);

// Places of the blocks of an all-to-all-v in bytes.
struct BlockTables {
  std::vector<ChunkBytes> input;
  std::vector<ChunkBytes> output;
};
BlockTables tables_of(const CollectiveCall& call);

// The plan of a kSendReceive call; chunk i is transfer i, at its absolute address.
struct TransferPlan {
  Plan plan;
  std::vector<ChunkBytes> chunks;
};
Result<TransferPlan> plan_transfers(const CollectiveCall& call, std::uint32_t rank,
                                    std::uint32_t ranks);

// What must be equal at all ranks, in short; `name_hash` of the algorithm, 0 where each rank may
// have its own.
std::uint32_t fingerprint_of(const CollectiveCall& call, std::uint32_t name_hash);
std::uint32_t hash_of(std::string_view name);

}  // namespace spindrift::collectives
