// All-to-all in which each block travels once.
#include "collectives/algorithms.h"
#include "collectives/plan_builder.h"

namespace spindrift::collectives {
namespace {

// In place, a block may not arrive before the one that lay there has left, at either end: that
// would leave both waiting for each other. So the blocks are put aside first.
class Blocks final {
 public:
  Blocks(PlanBuilder& plan, const PlanRequest& request) : is_in_place_(request.is_in_place) {
    if (is_in_place_) plan.copy(input(0), scratch(0), request.ranks);
  }
  ChunkRef to(std::uint32_t rank) const { return is_in_place_ ? scratch(rank) : input(rank); }

 private:
  const bool is_in_place_;
};

std::uint32_t scratch_for(const PlanRequest& request) {
  return request.is_in_place ? request.ranks : 0;
}

Plan direct_all_to_all(const PlanRequest& request) {
  PlanBuilder plan(request, 1, scratch_for(request));
  const Blocks blocks(plan, request);
  const std::uint32_t n = request.ranks;
  for (std::uint32_t k = 1; k < n; ++k) {
    const std::uint32_t to = (request.rank + k) % n;
    plan.send(to, blocks.to(to));
  }
  for (std::uint32_t k = 1; k < n; ++k) {
    const std::uint32_t from = (request.rank + n - k) % n;
    plan.receive(from, output(from));
  }
  plan.copy(input(request.rank), output(request.rank));
  return plan.finish();
}

Plan pairwise_all_to_all(const PlanRequest& request) {
  PlanBuilder plan(request, 1, scratch_for(request));
  const Blocks blocks(plan, request);
  const std::uint32_t n = request.ranks;
  plan.copy(input(request.rank), output(request.rank));
  for (std::uint32_t k = 1; k < n; ++k) {
    const std::uint32_t to = (request.rank + k) % n;
    const std::uint32_t from = (request.rank + n - k) % n;
    plan.send(to, blocks.to(to));
    plan.receive(from, output(from));
    plan.next_round();
  }
  return plan.finish();
}

constexpr std::string_view kDirectSummary =
    "every rank sends every other its block, all at once: one step";
constexpr std::string_view kPairwiseSummary =
    "in round k every rank sends to rank + k only: no receiver has two senders";

}  // namespace

const CollectiveAlgorithm kDirectAllToAll{.name = "direct",
                                          .summary = kDirectSummary,
                                          .collective = Collective::kAllToAll,
                                          .is_rank_ordered = true,
                                          .build = direct_all_to_all};
const CollectiveAlgorithm kPairwiseAllToAll{.name = "pairwise",
                                            .summary = kPairwiseSummary,
                                            .collective = Collective::kAllToAll,
                                            .is_rank_ordered = true,
                                            .build = pairwise_all_to_all};
const CollectiveAlgorithm kDirectAllToAllV{.name = "direct",
                                           .summary = kDirectSummary,
                                           .collective = Collective::kAllToAllV,
                                           .is_rank_ordered = true,
                                           .build = direct_all_to_all};
const CollectiveAlgorithm kPairwiseAllToAllV{.name = "pairwise",
                                             .summary = kPairwiseSummary,
                                             .collective = Collective::kAllToAllV,
                                             .is_rank_ordered = true,
                                             .build = pairwise_all_to_all};

}  // namespace spindrift::collectives
