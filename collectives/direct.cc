// One message from each rank to each other rank that needs it, all at once.
#include "collectives/algorithms.h"
#include "collectives/plan_builder.h"

namespace spindrift::collectives {
namespace {

// The others, starting behind this one, so that not all ranks send to the same one first.
std::uint32_t other(const PlanRequest& request, std::uint32_t k) {
  return (request.rank + k) % request.ranks;
}

// What this rank contributes, and where the sum goes; all of one length. `partial` is scratch.
struct Fold {
  ChunkRef own{};
  ChunkRef partial{};
  ChunkRef result{};
};

// result = ((rank 0's + rank 1's) + rank 2's) + ..., where all other ranks send theirs.
void fold_in_rank_order(PlanBuilder& plan, const PlanRequest& request, const Fold& fold) {
  const std::uint32_t last = request.ranks - 1;
  const auto add_rest = [&](std::uint32_t first, ChunkRef sum) {
    for (std::uint32_t peer = first; peer <= last; ++peer) {
      plan.receive_reduce(peer, sum, fold.result, {.is_final = peer == last});
      sum = fold.result;
    }
  };
  if (request.rank == 0) {
    add_rest(1, fold.own);
    return;
  }
  if (request.rank == 1) {
    plan.receive_reduce(0, fold.own, fold.result,
                        {.is_incoming_first = true, .is_final = last == 1});
  } else {
    // The own contribution comes third or later and may lie where the result goes.
    plan.receive(0, fold.partial);
    for (std::uint32_t peer = 1; peer < request.rank; ++peer)
      plan.receive_reduce(peer, fold.partial, fold.partial, {});
    plan.reduce(fold.partial, fold.own, fold.result, request.rank == last);
  }
  add_rest(request.rank + 1, fold.result);
}

std::uint32_t scratch_for_fold(const PlanRequest& request) {
  return request.rank >= 2 ? 1 : 0;
}

Plan direct_all_reduce(const PlanRequest& request) {
  PlanBuilder plan(request, 1, scratch_for_fold(request));
  for (std::uint32_t k = 1; k < request.ranks; ++k)
    plan.send(other(request, k), input(0));
  fold_in_rank_order(plan, request, {.own = input(0), .partial = scratch(0), .result = output(0)});
  return plan.finish();
}

Plan mesh_all_reduce(const PlanRequest& request) {
  PlanBuilder plan(request, request.ranks, scratch_for_fold(request));
  for (std::uint32_t k = 1; k < request.ranks; ++k)
    plan.send(other(request, k), input(other(request, k)));
  fold_in_rank_order(plan, request,
                     {.own = input(request.rank),
                      .partial = scratch(request.rank),
                      .result = output(request.rank)});
  for (std::uint32_t k = 1; k < request.ranks; ++k) {
    plan.send(other(request, k), output(request.rank));
    plan.receive(other(request, k), output(other(request, k)));
  }
  return plan.finish();
}

Plan direct_reduce_scatter(const PlanRequest& request) {
  PlanBuilder plan(request, 1, scratch_for_fold(request));
  for (std::uint32_t k = 1; k < request.ranks; ++k)
    plan.send(other(request, k), input(other(request, k)));
  fold_in_rank_order(plan, request,
                     {.own = input(request.rank), .partial = scratch(0), .result = output(0)});
  return plan.finish();
}

Plan direct_all_gather(const PlanRequest& request) {
  PlanBuilder plan(request, 1);
  for (std::uint32_t k = 1; k < request.ranks; ++k)
    plan.send(other(request, k), input(0));
  for (std::uint32_t k = 1; k < request.ranks; ++k)
    plan.receive(other(request, k), output(other(request, k)));
  plan.copy(input(0), output(request.rank));
  return plan.finish();
}

Plan direct_broadcast(const PlanRequest& request) {
  PlanBuilder plan(request, 1);
  if (request.rank != request.root) {
    plan.receive(request.root, output(0));
    return plan.finish();
  }
  for (std::uint32_t k = 1; k < request.ranks; ++k)
    plan.send(other(request, k), input(0));
  plan.copy(input(0), output(0));
  return plan.finish();
}

Plan direct_reduce(const PlanRequest& request) {
  PlanBuilder plan(request, 1, scratch_for_fold(request));
  if (request.rank != request.root) {
    plan.send(request.root, input(0));
  } else {
    fold_in_rank_order(plan, request,
                       {.own = input(0), .partial = scratch(0), .result = output(0)});
  }
  return plan.finish();
}

Plan direct_gather(const PlanRequest& request) {
  PlanBuilder plan(request, 1);
  if (request.rank != request.root) {
    plan.send(request.root, input(0));
    return plan.finish();
  }
  for (std::uint32_t k = 1; k < request.ranks; ++k)
    plan.receive(other(request, k), output(other(request, k)));
  plan.copy(input(0), output(request.rank));
  return plan.finish();
}

Plan direct_scatter(const PlanRequest& request) {
  PlanBuilder plan(request, 1);
  if (request.rank != request.root) {
    plan.receive(request.root, output(0));
    return plan.finish();
  }
  for (std::uint32_t k = 1; k < request.ranks; ++k)
    plan.send(other(request, k), input(other(request, k)));
  plan.copy(input(request.rank), output(0));
  return plan.finish();
}

}  // namespace

const CollectiveAlgorithm kDirectAllReduce{
    .name = "direct",
    .summary = "every rank sends its whole input to every other, which adds all up: one step",
    .collective = Collective::kAllReduce,
    .is_rank_ordered = true,
    .build = direct_all_reduce};
const CollectiveAlgorithm kMeshAllReduce{
    .name = "mesh",
    .summary = "rank r adds up chunk r of all ranks and sends the sum to all: two steps",
    .collective = Collective::kAllReduce,
    .is_rank_ordered = true,
    .build = mesh_all_reduce};
const CollectiveAlgorithm kDirectReduceScatter{
    .name = "direct",
    .summary = "rank r gets block r of every rank and adds them up: one step",
    .collective = Collective::kReduceScatter,
    .is_rank_ordered = true,
    .build = direct_reduce_scatter};
const CollectiveAlgorithm kDirectAllGather{
    .name = "direct",
    .summary = "every rank sends its input to every other: one step",
    .collective = Collective::kAllGather,
    .is_rank_ordered = true,
    .build = direct_all_gather};
const CollectiveAlgorithm kDirectBroadcast{
    .name = "direct",
    .summary = "the root sends to every other rank: one step",
    .collective = Collective::kBroadcast,
    .is_rank_ordered = true,
    .build = direct_broadcast};
const CollectiveAlgorithm kDirectReduce{
    .name = "direct",
    .summary = "every rank sends to the root, which adds all up: one step",
    .collective = Collective::kReduce,
    .is_rank_ordered = true,
    .build = direct_reduce};
const CollectiveAlgorithm kDirectGather{.name = "direct",
                                        .summary = "every rank sends to the root: one step",
                                        .collective = Collective::kGather,
                                        .is_rank_ordered = true,
                                        .build = direct_gather};
const CollectiveAlgorithm kDirectScatter{.name = "direct",
                                         .summary = "the root sends every rank its block: one step",
                                         .collective = Collective::kScatter,
                                         .is_rank_ordered = true,
                                         .build = direct_scatter};
const CollectiveAlgorithm kDirectBarrier{
    .name = "direct",
    .summary = "every rank tells every other that it is there: one step",
    .collective = Collective::kBarrier,
    .is_rank_ordered = true,
    .build = direct_all_gather};

}  // namespace spindrift::collectives
