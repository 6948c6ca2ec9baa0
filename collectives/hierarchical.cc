// First inside each host, then between hosts, then inside again: what leaves a host is as little as
// if it were one rank. Between hosts it is any all-reduce, whose plan is taken over.
#include <vector>

#include "collectives/algorithms.h"
#include "collectives/hosts.h"
#include "collectives/plan_builder.h"

namespace spindrift::collectives {
namespace {

// The vector has a group of chunks for each of the first ranks of a host, as many as the smallest
// host has; a group has the chunks of the plan between hosts. In its host a group's owner adds it
// up, the owners of one group run the plan between hosts.
class HierarchicalAllReduce final {
 public:
  HierarchicalAllReduce(const PlanRequest& request, const CollectiveAlgorithm& between)
      : parts_(request),
        far_(between.build({.collective = Collective::kAllReduce,
                            .rank = parts_.host(),
                            .ranks = parts_.hosts(),
                            .is_in_place = request.is_in_place || !is_alone()})),
        chunks_(far_.chunks_per_block),
        plan_(request, parts_.owners() * chunks_, far_.scratch_blocks) {}

  Plan build() {
    for (std::uint32_t owner = 0; owner < parts_.owners(); ++owner)
      if (owner != parts_.place()) send_group(parts_.near()[owner], owner, BufferKind::kInput);
    if (parts_.is_owner()) {
      add_up_in_host();
      go_between_hosts();
    }
    for (std::uint32_t place = 0; place < parts_.near().size(); ++place) {
      if (place == parts_.place()) continue;
      const std::uint32_t peer = parts_.near()[place];
      if (parts_.is_owner()) send_group(peer, parts_.place(), BufferKind::kOutput);
      for (std::uint32_t i = 0; place < parts_.owners() && i < chunks_; ++i)
        plan_.receive(peer, output(chunk(place, i)));
    }
    return plan_.finish();
  }

 private:
  bool is_alone() const { return parts_.near().size() == 1; }
  std::uint32_t chunk(std::uint32_t group, std::uint32_t i) const { return group * chunks_ + i; }

  void send_group(std::uint32_t peer, std::uint32_t group, BufferKind buffer) {
    for (std::uint32_t i = 0; i < chunks_; ++i)
      plan_.send(peer, {.buffer = buffer, .chunk = chunk(group, i)});
  }

  void add_up_in_host() {
    for (std::uint32_t i = 0; i < chunks_; ++i) {
      const std::uint32_t own = chunk(parts_.place(), i);
      ChunkRef sum = input(own);
      for (const std::uint32_t peer : parts_.near()) {
        if (peer == parts_.rank()) continue;
        plan_.receive_reduce(peer, sum, output(own), {});
        sum = output(own);
      }
    }
  }

  // Where the plan between hosts has a chunk: its input is the sum of this host.
  ChunkRef at(const ChunkRef& ref) const {
    const std::uint32_t block = ref.chunk / chunks_;
    const std::uint32_t place =
        block * parts_.owners() * chunks_ + chunk(parts_.place(), ref.chunk % chunks_);
    const bool is_input = ref.buffer == BufferKind::kInput;
    return {.buffer = is_input && !is_alone() ? BufferKind::kOutput : ref.buffer, .chunk = place};
  }

  // Its steps one by one, in an order that its waits allow.
  void go_between_hosts() {
    std::vector<std::uint32_t> done(far_.lanes.size(), 0);
    for (bool has_moved = true; has_moved;) {
      has_moved = false;
      for (std::size_t i = 0; i < far_.lanes.size(); ++i) {
        const Lane& lane = far_.lanes[i];
        for (; done[i] < lane.steps.size() && may_follow(lane.steps[done[i]], done); ++done[i]) {
          take_over(lane, lane.steps[done[i]]);
          has_moved = true;
        }
      }
    }
  }

  static bool may_follow(const Step& step, const std::vector<std::uint32_t>& done) {
    for (const StepWait& wait : step.waits)
      if (done[wait.on.lane] <= wait.on.step) return false;
    return true;
  }

  void take_over(const Lane& lane, const Step& step) {
    const std::uint32_t peer = lane.peer ? parts_.like_on(*lane.peer) : 0;
    plan_.use_channel(lane.channel);
    switch (step.kind) {
      case StepKind::kSend:
        plan_.send(peer, at(step.source), step.chunks);
        break;
      case StepKind::kReceive:
        plan_.receive(peer, at(step.target), step.chunks);
        break;
      case StepKind::kReceiveReduce:
        plan_.receive_reduce(
            peer, at(step.source), at(step.target),
            {.is_incoming_first = step.is_incoming_first, .is_final = step.is_final}, step.chunks);
        break;
      case StepKind::kCopy:
        plan_.copy(at(step.source), at(step.target), step.chunks);
        break;
      case StepKind::kReduce:
        plan_.reduce(at(step.source), at(step.operand), at(step.target), step.is_final,
                     step.chunks);
        break;
    }
    plan_.use_channel(0);
  }

  const HostParts parts_;
  const Plan far_;
  const std::uint32_t chunks_;  // of a group
  PlanBuilder plan_;
};

template <const CollectiveAlgorithm& between>
Plan hierarchical_all_reduce(const PlanRequest& request) {
  return HierarchicalAllReduce(request, between).build();
}

}  // namespace

const CollectiveAlgorithm kHierarchicalAllReduce{
    .name = "hierarchical",
    .summary =
        "sums inside each host, a ring between hosts for each of its ranks, then inside again",
    .collective = Collective::kAllReduce,
    .is_hierarchical = true,
    .build = hierarchical_all_reduce<kRingAllReduce>,
    .why_not = why_not_hierarchical};
const CollectiveAlgorithm kHierarchicalDoublingAllReduce{
    .name = "hierarchical_doubling",
    .summary = "the same with doubling between hosts",
    .collective = Collective::kAllReduce,
    .is_hierarchical = true,
    .build = hierarchical_all_reduce<kDoublingAllReduce>,
    .why_not = why_not_hierarchical};
const CollectiveAlgorithm kHierarchicalMeshAllReduce{
    .name = "hierarchical_mesh",
    .summary = "the same with a mesh between hosts",
    .collective = Collective::kAllReduce,
    .is_hierarchical = true,
    .build = hierarchical_all_reduce<kMeshAllReduce>,
    .why_not = why_not_hierarchical};
const CollectiveAlgorithm kHierarchicalTreeAllReduce{
    .name = "hierarchical_tree",
    .summary = "the same with two binary trees between hosts",
    .collective = Collective::kAllReduce,
    .is_hierarchical = true,
    .build = hierarchical_all_reduce<kTreeAllReduce>,
    .why_not = why_not_hierarchical};

}  // namespace spindrift::collectives
