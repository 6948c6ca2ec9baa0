#pragma once
// The collective algorithms that ship. Each file writes down what one rank does, step after step
// (plan_builder.h); for two ranks or more.
#include "spindrift/plan.h"

namespace spindrift::collectives {

// direct.cc: one message to each other rank, no steps to speak of.
extern const CollectiveAlgorithm kDirectAllReduce;
extern const CollectiveAlgorithm kMeshAllReduce;
extern const CollectiveAlgorithm kDirectReduceScatter;
extern const CollectiveAlgorithm kDirectAllGather;
extern const CollectiveAlgorithm kDirectBroadcast;
extern const CollectiveAlgorithm kDirectReduce;
extern const CollectiveAlgorithm kDirectGather;
extern const CollectiveAlgorithm kDirectScatter;
extern const CollectiveAlgorithm kDirectBarrier;
// exchange.cc: all-to-all.
extern const CollectiveAlgorithm kDirectAllToAll;
extern const CollectiveAlgorithm kPairwiseAllToAll;
extern const CollectiveAlgorithm kDirectAllToAllV;
extern const CollectiveAlgorithm kPairwiseAllToAllV;
// bruck.cc
extern const CollectiveAlgorithm kBruckAllToAll;
extern const CollectiveAlgorithm kBruckAllGather;
extern const CollectiveAlgorithm kBruckReduceScatter;
extern const CollectiveAlgorithm kBruckBarrier;
// ring.cc
extern const CollectiveAlgorithm kRingAllReduce;
extern const CollectiveAlgorithm kRingReduceScatter;
extern const CollectiveAlgorithm kRingAllGather;
extern const CollectiveAlgorithm kChainBroadcast;
extern const CollectiveAlgorithm kChainReduce;
// halving_doubling.cc
extern const CollectiveAlgorithm kDoublingAllReduce;
extern const CollectiveAlgorithm kHalvingDoublingAllReduce;
// tree.cc
extern const CollectiveAlgorithm kTreeAllReduce;
extern const CollectiveAlgorithm kTreeBroadcast;
// binomial.cc
extern const CollectiveAlgorithm kBinomialBroadcast;
extern const CollectiveAlgorithm kBinomialReduce;
extern const CollectiveAlgorithm kBinomialGather;
extern const CollectiveAlgorithm kBinomialScatter;

// shared.cc: through memory that the ranks of a host share.
extern const CollectiveAlgorithm kSharedAllReduce;
extern const CollectiveAlgorithm kSharedMeshAllReduce;
extern const CollectiveAlgorithm kSharedReduceScatter;
extern const CollectiveAlgorithm kSharedAllGather;
extern const CollectiveAlgorithm kSharedBroadcast;
extern const CollectiveAlgorithm kSharedReduce;
extern const CollectiveAlgorithm kSharedAllToAll;
extern const CollectiveAlgorithm kSharedGather;
extern const CollectiveAlgorithm kSharedScatter;
extern const CollectiveAlgorithm kSharedBarrier;

// hierarchical.cc, hierarchical_root.cc, hierarchical_blocks.cc: where ranks share hosts.
extern const CollectiveAlgorithm kHierarchicalAllReduce;
extern const CollectiveAlgorithm kHierarchicalDoublingAllReduce;
extern const CollectiveAlgorithm kHierarchicalMeshAllReduce;
extern const CollectiveAlgorithm kHierarchicalTreeAllReduce;
extern const CollectiveAlgorithm kHierarchicalBroadcast;
extern const CollectiveAlgorithm kHierarchicalReduce;
extern const CollectiveAlgorithm kHierarchicalAllGather;
extern const CollectiveAlgorithm kHierarchicalReduceScatter;
extern const CollectiveAlgorithm kHierarchicalBarrier;

}  // namespace spindrift::collectives
