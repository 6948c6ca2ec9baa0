// Rings, and the chain, which is a ring that is cut open.
#include "collectives/algorithms.h"
#include "collectives/plan_builder.h"

namespace spindrift::collectives {
namespace {

struct Neighbours {
  explicit Neighbours(const PlanRequest& request)
      : next((request.rank + 1) % request.ranks),
        previous((request.rank + request.ranks - 1) % request.ranks) {}
  std::uint32_t next;
  std::uint32_t previous;
};

// Chunk or block numbers count backwards along the ring: k places behind this rank's own.
std::uint32_t back(const PlanRequest& request, std::uint32_t k) {
  return (request.rank + 2 * request.ranks - k) % request.ranks;
}

// Reduce-scatter followed by all-gather (Patarasuk and Yuan 2009): 2(n-1) steps, each rank sends
// 2(n-1)/n of the buffer.
Plan ring_all_reduce(const PlanRequest& request) {
  PlanBuilder plan(request, request.ranks);
  const Neighbours ring(request);
  const std::uint32_t n = request.ranks;
  for (std::uint32_t k = 0; k + 1 < n; ++k) {
    plan.send(ring.next, k == 0 ? input(request.rank) : output(back(request, k)));
    const std::uint32_t chunk = back(request, k + 1);
    plan.receive_reduce(ring.previous, input(chunk), output(chunk), {.is_final = k + 2 == n});
  }
  for (std::uint32_t k = 0; k + 1 < n; ++k) {
    plan.send(ring.next, output(back(request, k + n - 1)));
    plan.receive(ring.previous, output(back(request, k)));
  }
  return plan.finish();
}

Plan ring_reduce_scatter(const PlanRequest& request) {
  PlanBuilder plan(request, 1, 2);
  const Neighbours ring(request);
  const std::uint32_t n = request.ranks;
  for (std::uint32_t k = 0; k + 1 < n; ++k) {
    const bool is_last = k + 2 == n;
    plan.send(ring.next, k == 0 ? input(back(request, 1)) : scratch((k - 1) % 2));
    plan.receive_reduce(ring.previous, input(back(request, k + 2)),
                        is_last ? output(0) : scratch(k % 2), {.is_final = is_last});
  }
  return plan.finish();
}

Plan ring_all_gather(const PlanRequest& request) {
  PlanBuilder plan(request, 1);
  const Neighbours ring(request);
  for (std::uint32_t k = 0; k + 1 < request.ranks; ++k) {
    plan.send(ring.next, k == 0 ? input(0) : output(back(request, k)));
    plan.receive(ring.previous, output(back(request, k + 1)));
  }
  plan.copy(input(0), output(request.rank));
  return plan.finish();
}

// From the root around the ring to the rank before it.
Plan chain_broadcast(const PlanRequest& request) {
  PlanBuilder plan(request, 1);
  const Neighbours ring(request);
  const bool is_root = request.rank == request.root;
  if (!is_root) plan.receive(ring.previous, output(0));
  if (ring.next != request.root) plan.send(ring.next, is_root ? input(0) : output(0));
  if (is_root) plan.copy(input(0), output(0));
  return plan.finish();
}

// From rank 0 to the last one, and from there to the root: the order of the ranks.
Plan chain_reduce(const PlanRequest& request) {
  const std::uint32_t last = request.ranks - 1;
  const bool is_root = request.rank == request.root;
  PlanBuilder plan(request, 1, 1);
  const bool ends_here = request.rank == last && is_root;
  const ChunkRef sum = ends_here ? output(0) : scratch(0);
  if (request.rank > 0) {
    plan.receive_reduce(request.rank - 1, input(0), sum,
                        {.is_incoming_first = true, .is_final = request.rank == last});
  }
  if (request.rank < last) {
    plan.send(request.rank + 1, request.rank == 0 ? input(0) : sum);
  } else if (!is_root) {
    plan.send(request.root, sum);
  }
  if (is_root && request.rank < last) plan.receive(last, output(0));
  return plan.finish();
}

}  // namespace

const CollectiveAlgorithm kRingAllReduce{
    .name = "ring",
    .summary = "reduce-scatter and all-gather around a ring: 2(n-1) steps, 2(n-1)/n of the bytes",
    .collective = Collective::kAllReduce,
    .build = ring_all_reduce};
const CollectiveAlgorithm kRingReduceScatter{
    .name = "ring",
    .summary = "partial sums travel around a ring: n-1 steps",
    .collective = Collective::kReduceScatter,
    .build = ring_reduce_scatter};
const CollectiveAlgorithm kRingAllGather{.name = "ring",
                                         .summary = "blocks travel around a ring: n-1 steps",
                                         .collective = Collective::kAllGather,
                                         .is_rank_ordered = true,
                                         .build = ring_all_gather};
const CollectiveAlgorithm kChainBroadcast{
    .name = "chain",
    .summary = "slices travel from rank to rank: n-1 steps, every rank sends once",
    .collective = Collective::kBroadcast,
    .is_rank_ordered = true,
    .build = chain_broadcast};
const CollectiveAlgorithm kChainReduce{
    .name = "chain",
    .summary = "slices travel from rank 0 to the last, each adding its own, and then to the root",
    .collective = Collective::kReduce,
    .is_rank_ordered = true,
    .build = chain_reduce};

}  // namespace spindrift::collectives
