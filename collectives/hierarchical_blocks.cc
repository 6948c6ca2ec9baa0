// Hierarchical plans in which every rank has a block: all-gather, reduce-scatter and barrier. What
// leaves a host is as little as if it were one rank: the owners of one part (hosts.h) form a ring
// between the hosts.
#include <vector>

#include "collectives/algorithms.h"
#include "collectives/hosts.h"
#include "collectives/plan_builder.h"

namespace spindrift::collectives {
namespace {

// Inside the host everybody hears of everybody; what an owner gets from the ring it passes on.
Plan hierarchical_all_gather(const PlanRequest& request) {
  const HostParts parts(request);
  PlanBuilder plan(request, 1);
  plan.copy(input(0), output(parts.rank()));
  for (const std::uint32_t peer : parts.near())
    if (peer != parts.rank()) plan.send(peer, input(0));
  for (const std::uint32_t peer : parts.near())
    if (peer != parts.rank()) plan.receive(peer, output(peer));
  for (std::uint32_t step = 0; parts.is_owner() && step + 1 < parts.hosts(); ++step) {
    for (const std::uint32_t block : parts.part(parts.back(step), parts.place()))
      plan.send(parts.next(), block == parts.rank() ? input(0) : output(block));
    for (const std::uint32_t block : parts.part(parts.back(step + 1), parts.place())) {
      plan.receive(parts.previous(), output(block));
      for (const std::uint32_t peer : parts.near())
        if (peer != parts.rank()) plan.send(peer, output(block));
    }
  }
  for (std::uint32_t owner = 0; owner < parts.owners(); ++owner) {
    if (owner == parts.place()) continue;
    for (std::uint32_t step = 1; step < parts.hosts(); ++step) {
      for (const std::uint32_t block : parts.part(parts.back(step), owner))
        plan.receive(parts.near()[owner], output(block));
    }
  }
  return plan.finish();
}

// The all-gather backwards: an owner adds its part up in its host, the ring between hosts, and the
// sums go to their ranks.
class HierarchicalReduceScatter final {
 public:
  explicit HierarchicalReduceScatter(const PlanRequest& request)
      : parts_(request), plan_(request, 1, parts_.is_owner() ? request.ranks : 0) {}

  Plan build() {
    for (std::uint32_t owner = 0; owner < parts_.owners(); ++owner) {
      if (owner == parts_.place()) continue;
      for (const std::uint32_t block : parts_.all_of(owner))
        plan_.send(parts_.near()[owner], input(block));
    }
    if (parts_.is_owner()) {
      add_up_in_host();
      go_around();
      for (const std::uint32_t block : parts_.part(parts_.back(0), parts_.place()))
        if (block != parts_.rank()) plan_.send(block, scratch(block));
    } else {
      plan_.receive(parts_.near()[parts_.place() % parts_.owners()], output(0));
    }
    return plan_.finish();
  }

 private:
  ChunkRef host_sum(std::uint32_t block) const {
    return parts_.near().size() == 1 ? input(block) : scratch(block);
  }

  void add_up_in_host() {
    for (const std::uint32_t block : parts_.all_of(parts_.place())) {
      ChunkRef sum = input(block);
      for (const std::uint32_t peer : parts_.near()) {
        if (peer == parts_.rank()) continue;
        plan_.receive_reduce(peer, sum, scratch(block), {});
        sum = scratch(block);
      }
    }
  }

  void go_around() {
    const std::uint32_t hosts = parts_.hosts();
    for (std::uint32_t step = 1; step < hosts; ++step) {
      for (const std::uint32_t block : parts_.part(parts_.back(step), parts_.place()))
        plan_.send(parts_.next(), step == 1 ? host_sum(block) : scratch(block));
      const bool is_last = step + 1 == hosts;
      for (const std::uint32_t block : parts_.part(parts_.back(step + 1), parts_.place())) {
        const bool is_own = is_last && block == parts_.rank();
        plan_.receive_reduce(parts_.previous(), host_sum(block),
                             is_own ? output(0) : scratch(block), {.is_final = is_last});
      }
    }
  }

  const HostParts parts_;
  PlanBuilder plan_;
};

Plan hierarchical_reduce_scatter(const PlanRequest& request) {
  return HierarchicalReduceScatter(request).build();
}

}  // namespace

const CollectiveAlgorithm kHierarchicalAllGather{
    .name = "hierarchical",
    .summary =
        "a ring between hosts for each of their ranks, which pass on what comes to their own",
    .collective = Collective::kAllGather,
    .is_rank_ordered = true,
    .is_hierarchical = true,
    .build = hierarchical_all_gather,
    .why_not = why_not_hierarchical};
const CollectiveAlgorithm kHierarchicalBarrier{.name = "hierarchical",
                                               .summary = "the all-gather of a byte each",
                                               .collective = Collective::kBarrier,
                                               .is_rank_ordered = true,
                                               .is_hierarchical = true,
                                               .build = hierarchical_all_gather,
                                               .why_not = why_not_hierarchical};
const CollectiveAlgorithm kHierarchicalReduceScatter{
    .name = "hierarchical",
    .summary =
        "sums inside each host, a ring between hosts for each of its ranks, then to the ranks",
    .collective = Collective::kReduceScatter,
    .is_hierarchical = true,
    .build = hierarchical_reduce_scatter,
    .why_not = why_not_hierarchical};

}  // namespace spindrift::collectives
