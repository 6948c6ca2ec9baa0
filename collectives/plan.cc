#include "collectives/plan.h"

namespace spindrift::collectives {
namespace {

// By the table in collective.h.
std::int64_t in_place_shift(const PlanRequest& request, std::uint32_t chunks_per_block) {
  const std::int64_t own = std::int64_t{request.rank} * chunks_per_block;
  switch (request.collective) {
    case Collective::kAllGather:
    case Collective::kGather:
    case Collective::kBarrier:
      return own;
    case Collective::kReduceScatter:
    case Collective::kScatter:
      return -own;
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kAllToAll:
    case Collective::kAllToAllV:
    case Collective::kSendReceive:
      break;
  }
  return 0;
}

}  // namespace

PlaceMap::PlaceMap(const PlanRequest& request, std::uint32_t chunks_per_block,
                   std::uint32_t scratch_blocks)
    : input_chunks_(std::size_t{blocks_of(request.collective, request.ranks).input} *
                    chunks_per_block),
      output_chunks_(std::size_t{blocks_of(request.collective, request.ranks).output} *
                     chunks_per_block),
      scratch_chunks_(std::size_t{scratch_blocks} * chunks_per_block),
      is_in_place_(request.is_in_place),
      shift_(in_place_shift(request, chunks_per_block)) {}

std::size_t PlaceMap::of(const ChunkRef& ref) const {
  if (ref.buffer == BufferKind::kScratch) return input_chunks_ + output_chunks_ + ref.chunk;
  if (ref.buffer == BufferKind::kOutput) return input_chunks_ + ref.chunk;
  const std::int64_t same = std::int64_t{ref.chunk} + shift_;
  const bool is_shared =
      is_in_place_ && same >= 0 && same < static_cast<std::int64_t>(output_chunks_);
  return is_shared ? input_chunks_ + static_cast<std::size_t>(same) : ref.chunk;
}

}  // namespace spindrift::collectives
