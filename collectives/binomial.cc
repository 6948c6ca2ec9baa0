// Binomial trees: log2(n) steps. Ranks are counted from the root on; the subtree of a rank v with
// k trailing zeros is v .. v + 2^k - 1.
#include <bit>

#include "collectives/algorithms.h"
#include "collectives/plan_builder.h"

namespace spindrift::collectives {
namespace {

class Binomial final {
 public:
  explicit Binomial(const PlanRequest& request)
      : n_(request.ranks), root_(request.root), own_((request.rank + n_ - root_) % n_) {}

  bool is_root() const { return own_ == 0; }
  std::uint32_t parent() const { return rank_of(own_ & (own_ - 1)); }
  // Distances to the children: 1, 2, 4, ... below the lowest bit of the own number.
  std::uint32_t reach() const { return own_ == 0 ? std::bit_ceil(n_) : own_ & (~own_ + 1); }
  bool has_child(std::uint32_t distance) const { return own_ + distance < n_; }
  std::uint32_t child(std::uint32_t distance) const { return rank_of(own_ + distance); }
  // Ranks in the subtree of child(distance), or in the own one: distance 0.
  std::uint32_t subtree(std::uint32_t distance) const {
    const std::uint32_t size = distance == 0 ? reach() : distance;
    return std::min(size, n_ - own_ - distance);
  }

  // The blocks of a subtree, cut at the last rank; both ends cut alike.
  template <class Use>
  void for_blocks(std::uint32_t distance, const Use& use) const {
    const std::uint32_t first = rank_of(own_ + distance);
    const std::uint32_t count = subtree(distance);
    const std::uint32_t head = std::min(count, n_ - first);
    use(first, head);
    if (count > head) use(0U, count - head);
  }

 private:
  std::uint32_t rank_of(std::uint32_t number) const { return (number + root_) % n_; }

  const std::uint32_t n_;
  const std::uint32_t root_;
  const std::uint32_t own_;
};

Plan binomial_broadcast(const PlanRequest& request) {
  PlanBuilder plan(request, 1);
  const Binomial tree(request);
  if (!tree.is_root()) plan.receive(tree.parent(), output(0));
  for (std::uint32_t distance = tree.reach() / 2; distance > 0; distance /= 2) {
    if (tree.has_child(distance)) {
      plan.send(tree.child(distance), tree.is_root() ? input(0) : output(0));
    }
  }
  if (tree.is_root()) plan.copy(input(0), output(0));
  return plan.finish();
}

Plan binomial_reduce(const PlanRequest& request) {
  PlanBuilder plan(request, 1, request.rank == request.root ? 0 : 1);
  const Binomial tree(request);
  const ChunkRef target = tree.is_root() ? output(0) : scratch(0);
  ChunkRef sum = input(0);
  for (std::uint32_t distance = 1; distance < tree.reach(); distance *= 2) {
    if (!tree.has_child(distance)) continue;
    const bool is_last = tree.is_root() && !tree.has_child(2 * distance);
    plan.receive_reduce(tree.child(distance), sum, target, {.is_final = is_last});
    sum = target;
  }
  if (!tree.is_root()) plan.send(tree.parent(), sum);
  return plan.finish();
}

Plan binomial_gather(const PlanRequest& request) {
  const Binomial tree(request);
  const bool is_leaf = tree.subtree(0) == 1;
  PlanBuilder plan(request, 1, tree.is_root() || is_leaf ? 0 : request.ranks);
  if (is_leaf && !tree.is_root()) {
    plan.send(tree.parent(), input(0));
    return plan.finish();
  }
  const auto at = [&](std::uint32_t block) {
    return tree.is_root() ? output(block) : scratch(block);
  };
  plan.copy(input(0), at(request.rank));
  for (std::uint32_t distance = 1; distance < tree.reach(); distance *= 2) {
    if (!tree.has_child(distance)) continue;
    tree.for_blocks(distance, [&](std::uint32_t first, std::uint32_t blocks) {
      plan.receive(tree.child(distance), at(first), blocks);
    });
  }
  if (!tree.is_root()) {
    tree.for_blocks(0, [&](std::uint32_t first, std::uint32_t blocks) {
      plan.send(tree.parent(), at(first), blocks);
    });
  }
  return plan.finish();
}

Plan binomial_scatter(const PlanRequest& request) {
  const Binomial tree(request);
  const bool is_leaf = tree.subtree(0) == 1;
  PlanBuilder plan(request, 1, tree.is_root() || is_leaf ? 0 : request.ranks);
  if (is_leaf && !tree.is_root()) {
    plan.receive(tree.parent(), output(0));
    return plan.finish();
  }
  const auto at = [&](std::uint32_t block) {
    return tree.is_root() ? input(block) : scratch(block);
  };
  if (!tree.is_root()) {
    tree.for_blocks(0, [&](std::uint32_t first, std::uint32_t blocks) {
      plan.receive(tree.parent(), at(first), blocks);
    });
  }
  for (std::uint32_t distance = tree.reach() / 2; distance > 0; distance /= 2) {
    if (!tree.has_child(distance)) continue;
    tree.for_blocks(distance, [&](std::uint32_t first, std::uint32_t blocks) {
      plan.send(tree.child(distance), at(first), blocks);
    });
  }
  plan.copy(at(request.rank), output(0));
  return plan.finish();
}

}  // namespace

const CollectiveAlgorithm kBinomialBroadcast{
    .name = "binomial",
    .summary = "who has it sends it on, twice as many in each step: log2(n) steps",
    .collective = Collective::kBroadcast,
    .is_rank_ordered = true,
    .build = binomial_broadcast};
const CollectiveAlgorithm kBinomialReduce{
    .name = "binomial",
    .summary = "half of those left send their sums in each step: log2(n) steps",
    .collective = Collective::kReduce,
    .build = binomial_reduce};
const CollectiveAlgorithm kBinomialGather{
    .name = "binomial",
    .summary = "half of those left send all they have in each step: log2(n) steps",
    .collective = Collective::kGather,
    .is_rank_ordered = true,
    .build = binomial_gather};
const CollectiveAlgorithm kBinomialScatter{
    .name = "binomial",
    .summary = "who has several blocks sends half of them on: log2(n) steps",
    .collective = Collective::kScatter,
    .is_rank_ordered = true,
    .build = binomial_scatter};

}  // namespace spindrift::collectives
