// Hierarchical plans in which every rank has a block: all-gather, reduce-scatter and barrier; and
// the reduce. What leaves a host is as little as if it were one rank.
//
// Each of the first ranks of a host, as many as the smallest host has, owns a part of the blocks of
// every host. The owners of one part form a ring between the hosts.
#include <algorithm>
#include <vector>

#include "collectives/algorithms.h"
#include "collectives/hosts.h"
#include "collectives/plan_builder.h"

namespace spindrift::collectives {
namespace {

class Parts final {
 public:
  explicit Parts(const PlanRequest& request)
      : hosts_(request),
        rank_(request.rank),
        host_(hosts_.host_of(request.rank)),
        near_(hosts_.ranks(host_)),
        owners_(hosts_.fewest()),
        place_(hosts_.place_of(request.rank)) {}

  std::uint32_t rank() const { return rank_; }
  std::uint32_t hosts() const { return hosts_.count(); }
  // The ranks of this host; the first owners() of them own a part each.
  const std::vector<std::uint32_t>& near() const { return near_; }
  std::uint32_t owners() const { return owners_; }
  std::uint32_t place() const { return place_; }
  bool is_owner() const { return place_ < owners_; }
  // `steps` hosts before this one in the ring.
  std::uint32_t back(std::uint32_t steps) const {
    return (host_ + 2 * hosts_.count() - steps) % hosts_.count();
  }
  std::uint32_t next() const { return hosts_.ranks((host_ + 1) % hosts())[place_]; }
  std::uint32_t previous() const { return hosts_.ranks(back(1))[place_]; }
  // Part `owner` of the blocks of a host.
  std::vector<std::uint32_t> part(std::uint32_t host, std::uint32_t owner) const {
    std::vector<std::uint32_t> blocks;
    const std::vector<std::uint32_t>& ranks = hosts_.ranks(host);
    for (std::size_t i = owner; i < ranks.size(); i += owners_)
      blocks.push_back(ranks[i]);
    return blocks;
  }
  // All blocks that the owner has something to do with, ascending.
  std::vector<std::uint32_t> all_of(std::uint32_t owner) const {
    std::vector<std::uint32_t> blocks;
    for (std::uint32_t host = 0; host < hosts(); ++host) {
      const std::vector<std::uint32_t> some = part(host, owner);
      blocks.insert(blocks.end(), some.begin(), some.end());
    }
    std::sort(blocks.begin(), blocks.end());
    return blocks;
  }

 private:
  const Hosts hosts_;
  const std::uint32_t rank_;
  const std::uint32_t host_;
  const std::vector<std::uint32_t>& near_;
  const std::uint32_t owners_;
  const std::uint32_t place_;
};

// Inside the host everybody hears of everybody; what an owner gets from the ring it passes on.
Plan hierarchical_all_gather(const PlanRequest& request) {
  const Parts parts(request);
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

  const Parts parts_;
  PlanBuilder plan_;
};

Plan hierarchical_reduce_scatter(const PlanRequest& request) {
  return HierarchicalReduceScatter(request).build();
}

// The broadcast backwards: one rank adds up in each host, a binomial tree of those to the root.
Plan hierarchical_reduce(const PlanRequest& request) {
  const Hosts hosts(request);
  const std::uint32_t n = hosts.count();
  const std::uint32_t root_host = hosts.host_of(request.root);
  const auto leader = [&](std::uint32_t number) {
    const std::uint32_t host = (number + root_host) % n;
    return host == root_host ? request.root : hosts.ranks(host).front();
  };
  const std::uint32_t own = (hosts.host_of(request.rank) + n - root_host) % n;
  PlanBuilder plan(request, 1, 1);
  if (request.rank != leader(own)) {
    plan.send(leader(own), input(0));
    return plan.finish();
  }
  const ChunkRef place = request.rank == request.root ? output(0) : scratch(0);
  ChunkRef sum = input(0);
  for (const std::uint32_t peer : hosts.ranks(hosts.host_of(request.rank))) {
    if (peer == request.rank) continue;
    plan.receive_reduce(peer, sum, place, {});
    sum = place;
  }
  for (std::uint32_t distance = 1; distance < n; distance *= 2) {
    if ((own & distance) != 0) {
      plan.send(leader(own - distance), sum);
      break;
    }
    if (own + distance >= n) continue;
    const bool is_final = own == 0 && 2 * distance >= n;
    plan.receive_reduce(leader(own + distance), sum, place, {.is_final = is_final});
    sum = place;
  }
  return plan.finish();
}

}  // namespace

const CollectiveAlgorithm kHierarchicalAllGather{
    .name = "hierarchical",
    .summary =
        "a ring between hosts for each of their ranks, which pass on what comes to their own",
    .collective = Collective::kAllGather,
    .is_rank_ordered = true,
    .build = hierarchical_all_gather,
    .why_not = why_not_hierarchical};
const CollectiveAlgorithm kHierarchicalBarrier{.name = "hierarchical",
                                               .summary = "the all-gather of a byte each",
                                               .collective = Collective::kBarrier,
                                               .is_rank_ordered = true,
                                               .build = hierarchical_all_gather,
                                               .why_not = why_not_hierarchical};
const CollectiveAlgorithm kHierarchicalReduceScatter{
    .name = "hierarchical",
    .summary =
        "sums inside each host, a ring between hosts for each of its ranks, then to the ranks",
    .collective = Collective::kReduceScatter,
    .build = hierarchical_reduce_scatter,
    .why_not = why_not_hierarchical};
const CollectiveAlgorithm kHierarchicalReduce{
    .name = "hierarchical",
    .summary = "sums inside each host, then a binomial tree of one rank of each to the root",
    .collective = Collective::kReduce,
    .build = hierarchical_reduce,
    .why_not = why_not_hierarchical};

}  // namespace spindrift::collectives
