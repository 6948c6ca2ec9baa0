// Hierarchical plans with a root: one rank of each host stands for it, and those form a binomial
// tree.
#include "collectives/algorithms.h"
#include "collectives/hosts.h"
#include "collectives/plan_builder.h"

namespace spindrift::collectives {
namespace {

// Between hosts a binomial tree of one rank each, inside from that rank to all.
Plan hierarchical_broadcast(const PlanRequest& request) {
  const Leaders leaders(request);
  const std::uint32_t n = leaders.hosts();
  const std::uint32_t own = leaders.number();
  PlanBuilder plan(request, 1);
  if (request.rank != leaders.own()) {
    plan.receive(leaders.own(), output(0));
    return plan.finish();
  }
  const bool is_root = request.rank == request.root;
  const ChunkRef source = is_root ? input(0) : output(0);
  if (!is_root) plan.receive(leaders.of(own & (own - 1)), output(0));
  std::uint32_t reach = own == 0 ? 1 : own & (~own + 1);
  while (own == 0 && reach < n)
    reach *= 2;
  for (std::uint32_t distance = reach / 2; distance > 0; distance /= 2)
    if (own + distance < n) plan.send(leaders.of(own + distance), source);
  for (const std::uint32_t peer : leaders.near())
    if (peer != request.rank) plan.send(peer, source);
  if (is_root) plan.copy(input(0), output(0));
  return plan.finish();
}

// The broadcast backwards: one rank adds up in each host, a binomial tree of those to the root.
Plan hierarchical_reduce(const PlanRequest& request) {
  const Leaders leaders(request);
  const std::uint32_t n = leaders.hosts();
  const std::uint32_t own = leaders.number();
  PlanBuilder plan(request, 1, 1);
  if (request.rank != leaders.own()) {
    plan.send(leaders.own(), input(0));
    return plan.finish();
  }
  const ChunkRef place = request.rank == request.root ? output(0) : scratch(0);
  ChunkRef sum = input(0);
  for (const std::uint32_t peer : leaders.near()) {
    if (peer == request.rank) continue;
    plan.receive_reduce(peer, sum, place, {});
    sum = place;
  }
  for (std::uint32_t distance = 1; distance < n; distance *= 2) {
    if ((own & distance) != 0) {
      plan.send(leaders.of(own - distance), sum);
      break;
    }
    if (own + distance >= n) continue;
    const bool is_final = own == 0 && 2 * distance >= n;
    plan.receive_reduce(leaders.of(own + distance), sum, place, {.is_final = is_final});
    sum = place;
  }
  return plan.finish();
}

}  // namespace

const CollectiveAlgorithm kHierarchicalBroadcast{
    .name = "hierarchical",
    .summary = "one rank of each host by a binomial tree, which passes it on to the others there",
    .collective = Collective::kBroadcast,
    .is_rank_ordered = true,
    .is_hierarchical = true,
    .build = hierarchical_broadcast,
    .why_not = why_not_hierarchical};
const CollectiveAlgorithm kHierarchicalReduce{
    .name = "hierarchical",
    .summary = "sums inside each host, then a binomial tree of one rank of each to the root",
    .collective = Collective::kReduce,
    .is_hierarchical = true,
    .build = hierarchical_reduce,
    .why_not = why_not_hierarchical};

}  // namespace spindrift::collectives
