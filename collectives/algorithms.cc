// The table of collective algorithms: a new one is a line here.
#include "collectives/algorithms.h"

#include <array>
#include <string>

#include <absl/strings/str_format.h>

#include "collectives/plan_builder.h"

namespace spindrift {
namespace {

using namespace collectives;

constexpr std::array kAlgorithms{
    &kDirectAllReduce,
    &kSharedAllReduce,
    &kSharedMeshAllReduce,
    &kDoublingAllReduce,
    &kMeshAllReduce,
    &kHalvingDoublingAllReduce,
    &kRingAllReduce,
    &kTreeAllReduce,
    &kHierarchicalAllReduce,
    &kHierarchicalDoublingAllReduce,
    &kHierarchicalMeshAllReduce,
    &kHierarchicalTreeAllReduce,
    &kDirectReduceScatter,
    &kSharedReduceScatter,
    &kRingReduceScatter,
    &kBruckReduceScatter,
    &kHierarchicalReduceScatter,
    &kDirectAllGather,
    &kSharedAllGather,
    &kRingAllGather,
    &kBruckAllGather,
    &kHierarchicalAllGather,
    &kDirectBroadcast,
    &kSharedBroadcast,
    &kBinomialBroadcast,
    &kChainBroadcast,
    &kTreeBroadcast,
    &kHierarchicalBroadcast,
    &kDirectReduce,
    &kSharedReduce,
    &kBinomialReduce,
    &kChainReduce,
    &kHierarchicalReduce,
    &kDirectAllToAll,
    &kSharedAllToAll,
    &kPairwiseAllToAll,
    &kBruckAllToAll,
    &kDirectAllToAllV,
    &kPairwiseAllToAllV,
    &kDirectGather,
    &kSharedGather,
    &kBinomialGather,
    &kDirectScatter,
    &kSharedScatter,
    &kBinomialScatter,
    &kDirectBarrier,
    &kSharedBarrier,
    &kBruckBarrier,
    &kHierarchicalBarrier,
};

Error invalid(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message)};
}

}  // namespace

std::span<const CollectiveAlgorithm* const> collective_algorithms() {
  return kAlgorithms;
}

Result<const CollectiveAlgorithm*> find_collective_algorithm(Collective collective,
                                                             std::string_view name) {
  std::string names;
  for (const CollectiveAlgorithm* algorithm : kAlgorithms) {
    if (algorithm->collective != collective) continue;
    if (algorithm->name == name) return algorithm;
    names += (names.empty() ? "" : ", ") + std::string(algorithm->name);
  }
  if (names.empty()) {
    return invalid(std::string(to_string(collective)) + " has no algorithms to choose from");
  }
  return invalid(absl::StrFormat("%s has no algorithm \"%s\"; there are: %s",
                                 std::string(to_string(collective)), std::string(name), names));
}

Result<Plan> build_plan(const CollectiveAlgorithm& algorithm, const PlanRequest& request) {
  if (request.ranks < 1 || request.ranks > kMaxRanks || request.rank >= request.ranks ||
      request.root >= request.ranks) {
    return invalid(absl::StrFormat("rank %d, root %d of %d ranks; there are 1 to %d, from 0 on",
                                   request.rank, request.root, request.ranks, kMaxRanks));
  }
  if (!request.topology.hosts.empty() && request.topology.hosts.size() != request.ranks) {
    return invalid(absl::StrFormat("a topology of %d ranks for a group of %d",
                                   request.topology.hosts.size(), request.ranks));
  }
  if (request.ranks == 1) {
    PlanBuilder plan(request, 1);
    plan.copy(input(0), output(0));
    return plan.finish();
  }
  if (algorithm.why_not != nullptr) {
    const std::string reason = algorithm.why_not(request);
    if (!reason.empty()) {
      return Error(
          ErrorCode::kUnsupported,
          absl::StrFormat("%s:%s cannot be used: %s", std::string(to_string(algorithm.collective)),
                          std::string(algorithm.name), reason));
    }
  }
  return algorithm.build(request);
}

}  // namespace spindrift
