#include "collectives/plan.h"

namespace spindrift::collectives {
namespace {

constexpr std::uint32_t kSendLane = 0;
constexpr std::uint32_t kReceiveLane = 1;

ChunkRef input(std::uint32_t chunk) {
  return {.buffer = BufferKind::kInput, .chunk = chunk};
}
ChunkRef output(std::uint32_t chunk) {
  return {.buffer = BufferKind::kOutput, .chunk = chunk};
}

}  // namespace

Plan ring_all_reduce(std::uint32_t rank, std::uint32_t ranks) {
  Plan plan{.rank = rank, .ranks = ranks, .chunks_per_block = ranks};
  if (ranks == 1) {
    Lane local;
    local.steps.push_back({.kind = StepKind::kCopy, .source = input(0), .target = output(0)});
    plan.lanes.push_back(local);
    return plan;
  }
  // Chunk numbers count backwards along the ring: `back(k)` is k places behind this rank's own.
  const auto back = [&](std::uint32_t k) { return (rank + 2 * ranks - k) % ranks; };
  Lane send{.peer = (rank + 1) % ranks};
  Lane receive{.peer = back(1)};
  for (std::uint32_t k = 0; k + 1 < ranks; ++k) {
    Step out{.kind = StepKind::kSend, .source = k == 0 ? input(rank) : output(back(k))};
    if (k > 0) out.waits.push_back({.lane = kReceiveLane, .step = k - 1});
    send.steps.push_back(out);
    receive.steps.push_back({.kind = StepKind::kReceiveReduce,
                             .source = input(back(k + 1)),
                             .target = output(back(k + 1))});
  }
  for (std::uint32_t k = 0; k + 1 < ranks; ++k) {
    Step out{.kind = StepKind::kSend, .source = output(back(k + ranks - 1))};
    out.waits.push_back({.lane = kReceiveLane, .step = ranks - 2 + k});
    send.steps.push_back(out);
    // The finished chunk lands where a partial sum was sent from: that send must be over.
    Step in{.kind = StepKind::kReceive, .target = output(back(k))};
    in.waits.push_back({.lane = kSendLane, .step = k});
    receive.steps.push_back(in);
  }
  plan.lanes.push_back(send);
  plan.lanes.push_back(receive);
  return plan;
}

}  // namespace spindrift::collectives
