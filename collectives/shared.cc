// Through memory that the ranks of a host share (shared_run.h). The plans are those of the messages
// that are not sent: who takes what from whom.
#include "collectives/algorithms.h"

namespace spindrift::collectives {
namespace {

template <const CollectiveAlgorithm& messages>
Plan plan_of(const PlanRequest& request) {
  return messages.build(request);
}

}  // namespace

const CollectiveAlgorithm kSharedAllReduce{
    .name = "shared",
    .summary = "every rank reads the whole input of every other in shared memory and adds all up",
    .collective = Collective::kAllReduce,
    .is_rank_ordered = true,
    .is_shared = true,
    .build = plan_of<kDirectAllReduce>};
const CollectiveAlgorithm kSharedMeshAllReduce{
    .name = "shared_mesh",
    .summary = "rank r adds up part r of what all show in shared memory, and all read the sums",
    .collective = Collective::kAllReduce,
    .is_rank_ordered = true,
    .is_shared = true,
    .build = plan_of<kMeshAllReduce>};
const CollectiveAlgorithm kSharedReduceScatter{
    .name = "shared",
    .summary = "rank r reads block r of every rank in shared memory and adds them up",
    .collective = Collective::kReduceScatter,
    .is_rank_ordered = true,
    .is_shared = true,
    .build = plan_of<kDirectReduceScatter>};
const CollectiveAlgorithm kSharedAllGather{
    .name = "shared",
    .summary = "every rank reads the input of every other in shared memory",
    .collective = Collective::kAllGather,
    .is_rank_ordered = true,
    .is_shared = true,
    .build = plan_of<kDirectAllGather>};
const CollectiveAlgorithm kSharedBroadcast{
    .name = "shared",
    .summary = "every other rank reads what the root shows in shared memory",
    .collective = Collective::kBroadcast,
    .is_rank_ordered = true,
    .is_shared = true,
    .build = plan_of<kDirectBroadcast>};
const CollectiveAlgorithm kSharedReduce{
    .name = "shared",
    .summary = "the root reads the input of every other rank in shared memory and adds all up",
    .collective = Collective::kReduce,
    .is_rank_ordered = true,
    .is_shared = true,
    .build = plan_of<kDirectReduce>};
const CollectiveAlgorithm kSharedAllToAll{
    .name = "shared",
    .summary = "every rank reads its block of every other's input in shared memory",
    .collective = Collective::kAllToAll,
    .is_rank_ordered = true,
    .is_shared = true,
    .build = plan_of<kDirectAllToAll>};
const CollectiveAlgorithm kSharedGather{
    .name = "shared",
    .summary = "the root reads the input of every other rank in shared memory",
    .collective = Collective::kGather,
    .is_rank_ordered = true,
    .is_shared = true,
    .build = plan_of<kDirectGather>};
const CollectiveAlgorithm kSharedScatter{
    .name = "shared",
    .summary = "every other rank reads its block of what the root shows in shared memory",
    .collective = Collective::kScatter,
    .is_rank_ordered = true,
    .is_shared = true,
    .build = plan_of<kDirectScatter>};
const CollectiveAlgorithm kSharedBarrier{
    .name = "shared",
    .summary = "every rank shows in shared memory that it is there",
    .collective = Collective::kBarrier,
    .is_rank_ordered = true,
    .is_shared = true,
    .build = plan_of<kDirectBarrier>};

}  // namespace spindrift::collectives
