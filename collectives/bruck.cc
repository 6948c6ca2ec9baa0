// Bruck et al. 1997: logarithmically many steps for any number of ranks. The reduce-scatter is the
// all-gather backwards.
#include <bit>

#include "collectives/algorithms.h"
#include "collectives/plan_builder.h"

namespace spindrift::collectives {
namespace {

// Consecutive blocks, by number, that may wrap around at the last rank.
struct Run {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

// Both ends cut a run at the same block, so that their pieces match.
template <class Use>
void for_pieces(const Run& run, std::uint32_t ranks, const Use& use) {
  const std::uint32_t first = run.first % ranks;
  const std::uint32_t head = std::min(run.count, ranks - first);
  if (head > 0) use(first, head);
  if (run.count > head) use(0U, run.count - head);
}

Plan bruck_all_gather(const PlanRequest& request) {
  PlanBuilder plan(request, 1);
  const std::uint32_t n = request.ranks;
  plan.copy(input(0), output(request.rank));
  // This rank has the blocks of rank - have + 1 .. rank.
  for (std::uint32_t have = 1; have < n; have *= 2) {
    const std::uint32_t count = std::min(have, n - have);
    const std::uint32_t to = (request.rank + have) % n;
    const std::uint32_t from = (request.rank + n - have) % n;
    for_pieces(
        {.first = request.rank + n + 1 - count, .count = count}, n,
        [&](std::uint32_t first, std::uint32_t blocks) { plan.send(to, output(first), blocks); });
    for_pieces({.first = from + n + 1 - count, .count = count}, n,
               [&](std::uint32_t first, std::uint32_t blocks) {
                 plan.receive(from, output(first), blocks);
               });
  }
  return plan.finish();
}

Plan bruck_reduce_scatter(const PlanRequest& request) {
  PlanBuilder plan(request, 1, request.ranks);
  const std::uint32_t n = request.ranks;
  for_pieces({.first = 0, .count = n}, n, [&](std::uint32_t first, std::uint32_t blocks) {
    plan.copy(input(first), scratch(first), blocks);
  });
  // Sums for the ranks `distance` behind are on their way; those of mask and more hops leave first.
  for (std::uint32_t mask = std::bit_ceil(n) / 2; mask > 0; mask /= 2) {
    const std::uint32_t count = std::min(mask, n - mask);
    const std::uint32_t to = (request.rank + mask) % n;
    const std::uint32_t from = (request.rank + n - mask) % n;
    for_pieces(
        {.first = request.rank + mask, .count = count}, n,
        [&](std::uint32_t first, std::uint32_t blocks) { plan.send(to, scratch(first), blocks); });
    for_pieces({.first = request.rank, .count = count}, n,
               [&](std::uint32_t first, std::uint32_t blocks) {
                 const bool is_last = mask == 1;
                 plan.receive_reduce(from, scratch(first), is_last ? output(0) : scratch(first),
                                     {.is_final = is_last}, blocks);
               });
  }
  return plan.finish();
}

// Scratch of all-to-all: blocks by distance to go, then what is sent, then what has come.
struct ExchangeScratch {
  explicit ExchangeScratch(std::uint32_t ranks)
      : out(ranks), in(ranks + (ranks + 1) / 2), blocks(in + (ranks + 1) / 2) {}
  std::uint32_t out;
  std::uint32_t in;
  std::uint32_t blocks;
};

Plan bruck_all_to_all(const PlanRequest& request) {
  const std::uint32_t n = request.ranks;
  const ExchangeScratch area(n);
  PlanBuilder plan(request, 1, area.blocks);
  // Block d of the scratch is the one that has d ranks to go.
  plan.copy(input(request.rank), scratch(0), n - request.rank);
  if (request.rank > 0) plan.copy(input(0), scratch(n - request.rank), request.rank);
  for (std::uint32_t mask = 1; mask < n; mask *= 2) {
    std::uint32_t count = 0;
    const auto for_runs = [&](const auto& use) {
      count = 0;
      for (std::uint32_t d = mask; d < n; d += 2 * mask) {
        const std::uint32_t length = std::min(mask, n - d);
        use(d, count, length);
        count += length;
      }
    };
    for_runs([&](std::uint32_t d, std::uint32_t at, std::uint32_t length) {
      plan.copy(scratch(d), scratch(area.out + at), length);
    });
    plan.send((request.rank + mask) % n, scratch(area.out), count);
    plan.receive((request.rank + n - mask) % n, scratch(area.in), count);
    for_runs([&](std::uint32_t d, std::uint32_t at, std::uint32_t length) {
      plan.copy(scratch(area.in + at), scratch(d), length);
    });
  }
  // What had d ranks to go came from d ranks before.
  for (std::uint32_t d = 0; d < n; ++d)
    plan.copy(scratch(d), output((request.rank + n - d) % n));
  return plan.finish();
}

constexpr std::string_view kGatherSummary =
    "what a rank has doubles in each step: log2(n) steps, for any number of ranks";

}  // namespace

const CollectiveAlgorithm kBruckAllToAll{
    .name = "bruck",
    .summary = "blocks hop by powers of two, many in one message: log2(n) steps, for small blocks",
    .collective = Collective::kAllToAll,
    .is_rank_ordered = true,
    .build = bruck_all_to_all};
const CollectiveAlgorithm kBruckAllGather{.name = "bruck",
                                          .summary = kGatherSummary,
                                          .collective = Collective::kAllGather,
                                          .is_rank_ordered = true,
                                          .build = bruck_all_gather};
const CollectiveAlgorithm kBruckReduceScatter{
    .name = "bruck",
    .summary = "Bruck's all-gather backwards: log2(n) steps, for any number of ranks",
    .collective = Collective::kReduceScatter,
    .build = bruck_reduce_scatter};
const CollectiveAlgorithm kBruckBarrier{.name = "bruck",
                                        .summary = kGatherSummary,
                                        .collective = Collective::kBarrier,
                                        .is_rank_ordered = true,
                                        .build = bruck_all_gather};

}  // namespace spindrift::collectives
