// First inside each host, then between hosts, then inside again: what leaves a host is as little as
// if it were one rank.
#include <algorithm>
#include <vector>

#include "collectives/algorithms.h"
#include "collectives/hosts.h"
#include "collectives/plan_builder.h"

namespace spindrift::collectives {
namespace {

// The vector has a group of chunks for each of the first ranks of a host, as many as the smallest
// host has; a group has a chunk for each host. In its host a group's owner adds it up, the owners
// of one group form a ring between the hosts.
class HierarchicalAllReduce final {
 public:
  explicit HierarchicalAllReduce(const PlanRequest& request)
      : hosts_(request),
        rank_(request.rank),
        host_(hosts_.host_of(request.rank)),
        near_(hosts_.ranks(host_)),
        groups_(hosts_.fewest()),
        chunks_(hosts_.count()),
        own_group_(static_cast<std::uint32_t>(std::find(near_.begin(), near_.end(), request.rank) -
                                              near_.begin())),
        plan_(request, groups_ * chunks_) {}

  Plan build() {
    for (std::uint32_t group = 0; group < groups_; ++group)
      if (group != own_group_) send_group(near_[group], group, BufferKind::kInput);
    if (own_group_ < groups_) {
      add_up_in_host();
      go_around();
    }
    for (std::uint32_t place = 0; place < near_.size(); ++place) {
      if (place == own_group_) continue;
      if (own_group_ < groups_) send_group(near_[place], own_group_, BufferKind::kOutput);
      for (std::uint32_t i = 0; place < groups_ && i < chunks_; ++i)
        plan_.receive(near_[place], output(chunk(place, i)));
    }
    return plan_.finish();
  }

 private:
  std::uint32_t chunk(std::uint32_t group, std::uint32_t i) const { return group * chunks_ + i; }
  // What this rank has of its own group: the sum of its host, which is its input when it is alone.
  ChunkRef host_sum(std::uint32_t i) const {
    return near_.size() == 1 ? input(chunk(own_group_, i)) : output(chunk(own_group_, i));
  }

  void send_group(std::uint32_t peer, std::uint32_t group, BufferKind buffer) {
    for (std::uint32_t i = 0; i < chunks_; ++i)
      plan_.send(peer, {.buffer = buffer, .chunk = chunk(group, i)});
  }

  void add_up_in_host() {
    for (std::uint32_t i = 0; i < chunks_; ++i) {
      ChunkRef sum = input(chunk(own_group_, i));
      for (const std::uint32_t peer : near_) {
        if (peer == rank_) continue;
        plan_.receive_reduce(peer, sum, host_sum(i), {});
        sum = host_sum(i);
      }
    }
  }

  // As the ring of all ranks (ring.cc), with hosts in their place.
  void go_around() {
    const std::uint32_t n = chunks_;
    const std::uint32_t next = hosts_.ranks((host_ + 1) % n)[own_group_];
    const std::uint32_t previous = hosts_.ranks((host_ + n - 1) % n)[own_group_];
    const auto back = [&](std::uint32_t k) { return (host_ + 2 * n - k) % n; };
    const auto at = [&](std::uint32_t i) { return output(chunk(own_group_, i)); };
    for (std::uint32_t k = 0; k + 1 < n; ++k) {
      plan_.send(next, k == 0 ? host_sum(back(0)) : at(back(k)));
      plan_.receive_reduce(previous, host_sum(back(k + 1)), at(back(k + 1)),
                           {.is_final = k + 2 == n});
    }
    for (std::uint32_t k = 0; k + 1 < n; ++k) {
      plan_.send(next, at(back(k + n - 1)));
      plan_.receive(previous, at(back(k)));
    }
  }

  const Hosts hosts_;
  const std::uint32_t rank_;
  const std::uint32_t host_;
  const std::vector<std::uint32_t>& near_;
  const std::uint32_t groups_;
  const std::uint32_t chunks_;  // of a group
  const std::uint32_t own_group_;
  PlanBuilder plan_;
};

Plan hierarchical_all_reduce(const PlanRequest& request) {
  return HierarchicalAllReduce(request).build();
}

// Between hosts a binomial tree of one rank each, inside from that rank to all.
Plan hierarchical_broadcast(const PlanRequest& request) {
  const Hosts hosts(request);
  const std::uint32_t n = hosts.count();
  const std::uint32_t root_host = hosts.host_of(request.root);
  const auto leader = [&](std::uint32_t number) {
    const std::uint32_t host = (number + root_host) % n;
    return host == root_host ? request.root : hosts.ranks(host).front();
  };
  const std::uint32_t own = (hosts.host_of(request.rank) + n - root_host) % n;
  PlanBuilder plan(request, 1);
  if (request.rank != leader(own)) {
    plan.receive(leader(own), output(0));
    return plan.finish();
  }
  const bool is_root = request.rank == request.root;
  const ChunkRef source = is_root ? input(0) : output(0);
  if (!is_root) plan.receive(leader(own & (own - 1)), output(0));
  std::uint32_t reach = own == 0 ? 1 : own & (~own + 1);
  while (own == 0 && reach < n)
    reach *= 2;
  for (std::uint32_t distance = reach / 2; distance > 0; distance /= 2)
    if (own + distance < n) plan.send(leader(own + distance), source);
  for (const std::uint32_t peer : hosts.ranks(hosts.host_of(request.rank)))
    if (peer != request.rank) plan.send(peer, source);
  if (is_root) plan.copy(input(0), output(0));
  return plan.finish();
}

}  // namespace

const CollectiveAlgorithm kHierarchicalAllReduce{
    .name = "hierarchical",
    .summary =
        "sums inside each host, a ring between hosts for each of its ranks, then inside again",
    .collective = Collective::kAllReduce,
    .build = hierarchical_all_reduce,
    .why_not = why_not_hierarchical};
const CollectiveAlgorithm kHierarchicalBroadcast{
    .name = "hierarchical",
    .summary = "one rank of each host by a binomial tree, which passes it on to the others there",
    .collective = Collective::kBroadcast,
    .is_rank_ordered = true,
    .build = hierarchical_broadcast,
    .why_not = why_not_hierarchical};

}  // namespace spindrift::collectives
