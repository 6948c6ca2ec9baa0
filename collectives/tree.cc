// Double binary trees (Sanders, Speck and Traeff 2009): two trees carry one half of the vector
// each, and a rank that is inner in the one is, with few exceptions, a leaf in the other.
#include <optional>

#include "collectives/algorithms.h"
#include "collectives/plan_builder.h"

namespace spindrift::collectives {
namespace {

constexpr std::uint32_t kTrees = 2;

// The in-order tree over positions 0 .. n-1: position 0 is the root, odd ones are leaves, and
// the height of a position is the number of its trailing zeros.
std::optional<std::uint32_t> parent_position(std::uint32_t position, std::uint32_t n) {
  if (position == 0) return std::nullopt;
  const std::uint32_t bit = position & (~position + 1);
  const std::uint32_t up = (position ^ bit) | (bit << 1U);
  return up < n ? up : position ^ bit;
}

class Tree final {
 public:
  // Tree 1 is tree 0 mirrored (even n) or shifted by one (odd n), both turned so that `root` is at
  // the first position of tree 0.
  Tree(std::uint32_t tree, std::uint32_t ranks, std::uint32_t root)
      : tree_(tree), ranks_(ranks), root_(root) {}

  std::optional<std::uint32_t> parent(std::uint32_t rank) const {
    const std::optional<std::uint32_t> up = parent_position(position(rank), ranks_);
    return up ? std::optional<std::uint32_t>(rank_at(*up)) : std::nullopt;
  }
  // Ascending.
  std::vector<std::uint32_t> children(std::uint32_t rank) const {
    std::vector<std::uint32_t> found;
    for (std::uint32_t other = 0; other < ranks_; ++other)
      if (parent(other) == rank) found.push_back(other);
    return found;
  }

 private:
  std::uint32_t position(std::uint32_t rank) const {
    const std::uint32_t turned = (rank + ranks_ - root_) % ranks_;
    if (tree_ == 0) return turned;
    return ranks_ % 2 == 0 ? ranks_ - 1 - turned : (turned + ranks_ - 1) % ranks_;
  }
  std::uint32_t rank_at(std::uint32_t position) const {
    const std::uint32_t turned = tree_ == 0        ? position
                                 : ranks_ % 2 == 0 ? ranks_ - 1 - position
                                                   : (position + 1) % ranks_;
    return (turned + root_) % ranks_;
  }

  const std::uint32_t tree_;
  const std::uint32_t ranks_;
  const std::uint32_t root_;
};

Plan tree_all_reduce(const PlanRequest& request) {
  PlanBuilder plan(request, kTrees);
  for (std::uint32_t half = 0; half < kTrees; ++half) {
    const Tree tree(half, request.ranks, 0);
    plan.use_channel(half);
    const std::vector<std::uint32_t> children = tree.children(request.rank);
    const std::optional<std::uint32_t> parent = tree.parent(request.rank);
    ChunkRef sum = input(half);
    for (const std::uint32_t child : children) {
      const bool is_last = !parent && child == children.back();
      plan.receive_reduce(child, sum, output(half), {.is_final = is_last});
      sum = output(half);
    }
    if (parent) {
      plan.send(*parent, sum);
      plan.receive(*parent, output(half));
    }
    for (const std::uint32_t child : children)
      plan.send(child, output(half));
  }
  return plan.finish();
}

// The root of the broadcast sends one half to the top of each tree.
Plan tree_broadcast(const PlanRequest& request) {
  PlanBuilder plan(request, kTrees);
  const bool is_root = request.rank == request.root;
  if (is_root) plan.copy(input(0), output(0), kTrees);
  for (std::uint32_t half = 0; half < kTrees; ++half) {
    const Tree tree(half, request.ranks, request.root);
    plan.use_channel(half);
    const std::optional<std::uint32_t> parent = tree.parent(request.rank);
    std::uint32_t top = request.rank;
    while (tree.parent(top))
      top = *tree.parent(top);
    if (is_root && top != request.rank) plan.send(top, input(half));
    if (!parent && !is_root) plan.receive(request.root, output(half));
    if (parent && !is_root) plan.receive(*parent, output(half));
    for (const std::uint32_t child : tree.children(request.rank)) {
      // The root has everything; whoever is above it in the other tree need not send it.
      if (child != request.root) plan.send(child, is_root ? input(half) : output(half));
    }
  }
  return plan.finish();
}

}  // namespace

const CollectiveAlgorithm kTreeAllReduce{
    .name = "tree",
    .summary = "two binary trees, half of the vector each, up and down: 2 log2(n) steps",
    .collective = Collective::kAllReduce,
    .build = tree_all_reduce};
const CollectiveAlgorithm kTreeBroadcast{
    .name = "tree",
    .summary = "two binary trees, half of the vector each: log2(n) steps",
    .collective = Collective::kBroadcast,
    .is_rank_ordered = true,
    .build = tree_broadcast};

}  // namespace spindrift::collectives
