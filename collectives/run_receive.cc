// The receiving half of a run: grants, landing memory, what has come before its turn.
#include <algorithm>
#include <cstring>

#include <absl/strings/str_format.h>

#include "collectives/run.h"

namespace spindrift::collectives {
namespace {

// Blocks of landing memory that one lane may have granted at a time: one fills while one is added.
constexpr std::size_t kLandingBlocks = 2;
// That a peer may be ahead with: a call has no more steps than that in a lane, and each is granted
// in a few pieces.
constexpr std::size_t kMostGrants = 1U << 20U;

std::string other_call(std::uint64_t got, std::uint64_t expected) {
  return absl::StrFormat(
      "expected %d bytes and got %d: all ranks must pass the same count, type and slice size",
      expected, got);
}

}  // namespace

void Run::on_message(std::uint32_t peer, const MessageHeader& header,
                     std::span<const std::byte> payload) {
  if (header.kind == MessageKind::kCalling) {
    if (header.fingerprint != call_.fingerprint) fail_for_other_call(peer);
    return;
  }
  const bool is_data = header.kind == MessageKind::kData;
  const Direction direction = is_data ? Direction::kReceive : Direction::kSend;
  const std::uint32_t lane = plan_->find_lane(direction, peer, header.channel);
  if (lane == BoundPlan::kNoLane || header.fingerprint != call_.fingerprint) {
    fail_for_other_call(peer);
    return;
  }
  if (is_data) {
    on_data(lane, header, payload);
  } else {
    on_grant(lane, payload);
  }
}

void Run::fail_for_other_call(std::uint32_t peer) {
  if (failure_) return;
  failure_ = Failure{.what = absl::StrFormat("rank %d makes another call than this rank: all "
                                             "ranks must call the same collectives in the same "
                                             "order, with the same count, type, operation, root "
                                             "and algorithm",
                                             peer),
                     .peer = peer};
}

void Run::on_data(std::uint32_t lane, const MessageHeader& header,
                  std::span<const std::byte> payload) {
  const BoundLane& bound = plan_->lanes()[lane];
  LaneRun& run = lanes_[lane];
  const bool is_there = header.step < bound.step_count && header.step >= run.completed.step &&
                        plan_->step(bound, header.step).is_small && !is_stashed(lane, header.step);
  const std::uint64_t expected = is_there ? plan_->step(bound, header.step).bytes : 0;
  if (!is_there || payload.size() != expected) {
    fail(lane, other_call(payload.size(), expected));
    return;
  }
  const BoundStep& step = plan_->step(bound, header.step);
  if (header.step == run.completed.step && holds(step, 0)) {
    apply(step, 0, payload.data(), static_cast<std::uint32_t>(payload.size()));
    complete(lane);
    queue_dependents(lane);
    queue(lane);
    return;
  }
  auto free =
      std::find_if(stash_.begin(), stash_.end(), [](const Stashed& one) { return !one.is_used; });
  if (free == stash_.end()) free = stash_.emplace(stash_.end());
  free->lane = lane;
  free->step = header.step;
  free->is_used = true;
  free->payload.assign(payload.begin(), payload.end());
  ++run.stashed;
  queue(lane);
}

bool Run::is_stashed(std::uint32_t lane, std::uint32_t step) const {
  if (lanes_[lane].stashed == 0) return false;
  return std::any_of(stash_.begin(), stash_.end(), [&](const Stashed& one) {
    return one.is_used && one.lane == lane && one.step == step;
  });
}

void Run::on_grant(std::uint32_t lane, std::span<const std::byte> payload) {
  Grant grant;
  if (payload.size() != sizeof(grant)) {
    fail(lane, "it sent a grant of another version of the library");
    return;
  }
  std::memcpy(&grant, payload.data(), sizeof(grant));
  if (grant.slice_bytes != plan_->slice_bytes()) {
    fail(lane, absl::StrFormat("it cuts slices of %d bytes and this rank of %d: all ranks must "
                               "pass the same count, type and slice size",
                               grant.slice_bytes, plan_->slice_bytes()));
    return;
  }
  LaneRun& run = lanes_[lane];
  // Grants run ahead, but never of the steps that there are.
  if (grant.slices == 0 || run.grants.size() - run.first_grant > kMostGrants) {
    fail(lane, "it grants what no rank would");
    return;
  }
  run.grants.push_back(grant);
  queue(lane);
}

void Run::on_written(std::uint32_t peer, std::uint32_t channel, std::uint64_t bytes) {
  const std::uint32_t lane = plan_->find_lane(Direction::kReceive, peer, channel);
  if (lane == BoundPlan::kNoLane) {
    if (is_shared()) fail_for_other_call(peer);
    return;
  }
  const BoundLane& bound = plan_->lanes()[lane];
  LaneRun& run = lanes_[lane];
  while (run.arrived.step < bound.step_count && (plan_->step(bound, run.arrived.step).is_small ||
                                                 plan_->step(bound, run.arrived.step).bytes == 0)) {
    run.arrived = {.step = run.arrived.step + 1, .slice = 0};
  }
  if (run.arrived >= run.granted) {
    fail(lane, "it wrote more than it was granted");
    return;
  }
  const std::uint32_t expected =
      plan_->slice_length(plan_->step(bound, run.arrived.step), run.arrived.slice);
  if (bytes != expected) {
    fail(lane, other_call(bytes, expected));
    return;
  }
  advance_cursor(bound, run.arrived);
  ++run.waiting_arrivals;
  queue(lane);
}

void Run::run_receive(std::uint32_t lane) {
  // Before the adding, so that the peer goes on meanwhile.
  grant_ahead(lane);
  const BoundLane& bound = plan_->lanes()[lane];
  LaneRun& run = lanes_[lane];
  bool has_completed = false;
  while (run.completed.step < bound.step_count && !failure_) {
    const BoundStep& step = plan_->step(bound, run.completed.step);
    const bool is_adding = step.kind == StepKind::kReceiveReduce;
    const bool is_large = step.bytes > 0 && !step.is_small;
    if (is_large && run.waiting_arrivals == 0) break;
    if (step.is_small && step.bytes > 0 && !is_stashed(lane, run.completed.step)) break;
    // A large plain receive was granted when its waits held.
    if ((is_adding || !is_large) && !holds(step, run.completed.slice)) break;
    if (is_large && is_adding && local_work_ >= kLocalSlices) {
      queue(lane);
      break;
    }
    if (is_large) take_arrived(lane, step);
    if (!is_large && step.bytes > 0) take_stashed(lane, step);
    complete(lane);
    has_completed = true;
  }
  if (!has_completed) return;
  queue_dependents(lane);
  grant_ahead(lane);
}

void Run::take_arrived(std::uint32_t lane, const BoundStep& step) {
  LaneRun& run = lanes_[lane];
  --run.waiting_arrivals;
  if (step.kind != StepKind::kReceiveReduce) return;
  Landing& landing = run.landings[run.first_landing];
  apply(step, std::uint64_t{run.completed.slice} * plan_->slice_bytes(),
        landing.block.data() + std::size_t{landing.used} * plan_->slice_bytes(),
        plan_->slice_length(step, run.completed.slice));
  ++local_work_;
  if (++landing.used < landing.slices) return;
  pool_.give_back(landing.block);
  if (++run.first_landing < run.landings.size()) return;
  run.landings.clear();
  run.first_landing = 0;
}

void Run::take_stashed(std::uint32_t lane, const BoundStep& step) {
  LaneRun& run = lanes_[lane];
  for (Stashed& one : stash_) {
    if (!one.is_used || one.lane != lane || one.step != run.completed.step) continue;
    apply(step, 0, one.payload.data(), static_cast<std::uint32_t>(one.payload.size()));
    one.is_used = false;
    --run.stashed;
    return;
  }
}

void Run::grant_ahead(std::uint32_t lane) {
  const BoundLane& bound = plan_->lanes()[lane];
  LaneRun& run = lanes_[lane];
  if (!links_.is_open(link_of(bound))) return;
  while (run.granted.step < bound.step_count && !failure_) {
    const BoundStep& step = plan_->step(bound, run.granted.step);
    if (step.bytes == 0 || step.is_small) {
      run.granted = {.step = run.granted.step + 1, .slice = 0};
      continue;
    }
    const bool has_granted =
        step.kind == StepKind::kReceive ? grant_in_place(lane, step) : grant_landing(lane, step);
    if (!has_granted) return;
  }
}

bool Run::grant_in_place(std::uint32_t lane, const BoundStep& step) {
  LaneRun& run = lanes_[lane];
  std::uint32_t slices = 0;
  while (run.granted.slice + slices < step.slices && holds(step, run.granted.slice + slices)) {
    ++slices;
    // Without waits all hold alike.
    if (step.wait_count == 0) slices = step.slices - run.granted.slice;
  }
  if (slices == 0) return false;
  const std::byte* const place =
      at(step.target_buffer, step.target + std::uint64_t{run.granted.slice} * plan_->slice_bytes());
  const std::size_t via = links_.endpoint_of(link_of(plan_->lanes()[lane]));
  const MemoryRegion& region = set_at(step.target_buffer, place).regions[via];
  return send_grant(lane, {.key = region.remote.key,
                           .offset = static_cast<std::uint64_t>(place - region.bytes.data()),
                           .step = run.granted.step,
                           .first = run.granted.slice,
                           .slices = slices,
                           .slice_bytes = plan_->slice_bytes()});
}

bool Run::grant_landing(std::uint32_t lane, const BoundStep& step) {
  LaneRun& run = lanes_[lane];
  if (run.landings.size() - run.first_landing >= kLandingBlocks) return false;
  const std::uint32_t slices = std::min(landing_slices_, step.slices - run.granted.slice);
  const Result<MemoryPool::Block> block = pool_.take(std::uint64_t{slices} * plan_->slice_bytes());
  if (!block.ok()) {
    fail(lane, block.error().message());
    return false;
  }
  const std::size_t via = links_.endpoint_of(link_of(plan_->lanes()[lane]));
  if (!send_grant(lane, {.key = block.value().set.regions[via].remote.key,
                         .offset = 0,
                         .step = run.granted.step,
                         .first = run.granted.slice,
                         .slices = slices,
                         .slice_bytes = plan_->slice_bytes()})) {
    pool_.give_back(block.value());
    return false;
  }
  run.landings.push_back({.block = block.value(), .slices = slices, .used = 0});
  return true;
}

bool Run::send_grant(std::uint32_t lane, const Grant& grant) {
  const BoundLane& bound = plan_->lanes()[lane];
  LaneRun& run = lanes_[lane];
  const MessageHeader header{.kind = MessageKind::kReady,
                             .group = call_.group,
                             .channel = static_cast<std::uint16_t>(bound.channel),
                             .operation = call_.operation,
                             .fingerprint = call_.fingerprint,
                             .step = grant.step};
  const auto payload = std::as_bytes(std::span(&grant, 1));
  if (!was_posted(lane, links_.send(link_of(bound), header, payload))) return false;
  run.granted.slice += grant.slices;
  if (run.granted.slice == plan_->step(bound, run.granted.step).slices) {
    run.granted = {.step = run.granted.step + 1, .slice = 0};
  }
  return true;
}

}  // namespace spindrift::collectives
