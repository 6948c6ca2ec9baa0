#include "collectives/run.h"

#include <algorithm>
#include <cstring>

#include <absl/strings/str_format.h>

namespace spindrift::collectives {
namespace {

// Lanes that are added up share the landing memory of this many.
constexpr std::uint32_t kRoomyLanes = 4;

}  // namespace

Status Run::begin() {
  plan_ = call_.plan;
  failure_.reset();
  has_blocked_ = false;
  queue_.clear();
  queue_head_ = 0;
  unfinished_ = lane_count_ = static_cast<std::uint32_t>(plan_->lanes().size());
  if (lane_count_ == 0) {
    if (is_shared()) shared_.begin(call_.shared);
    return ok_status();
  }
  if (lanes_.size() < unfinished_) lanes_.resize(unfinished_);
  std::uint32_t adding_lanes = 0;
  for (std::uint32_t lane = 0; lane < unfinished_; ++lane) {
    LaneRun& run = lanes_[lane];
    run.posted = run.completed = run.granted = run.arrived = {};
    run.in_flight = run.waiting_arrivals = run.stashed = 0;
    run.is_queued = run.is_blocked = false;
    run.grants.clear();
    run.first_grant = 0;
    run.landings.clear();
    run.first_landing = 0;
    const BoundLane& bound = plan_->lanes()[lane];
    if (plan_->step(bound, 0).kind == StepKind::kReceiveReduce) ++adding_lanes;
  }
  landing_slices_ =
      std::max(1U, call_.slices_in_flight / 2 * kRoomyLanes / std::max(adding_lanes, kRoomyLanes));
  if (plan_->scratch_bytes() > 0) {
    const Result<MemoryPool::Block> block = pool_.take(plan_->scratch_bytes());
    if (!block.ok()) return block.error();
    scratch_ = block.value();
    has_scratch_ = true;
  }
  if (is_shared()) {
    const auto scratch = static_cast<std::size_t>(BufferKind::kScratch);
    call_.shared.buffers[scratch] = has_scratch_ ? scratch_.data() : nullptr;
    shared_.begin(call_.shared);
  }
  queue_all();
  return ok_status();
}

// Grants first: behind data the peer would wait for them until it has taken the data in.
void Run::queue_all() {
  for (const bool grants : {true, false})
    for (std::uint32_t lane = 0; lane < lane_count_; ++lane)
      if ((plan_->lanes()[lane].direction == Direction::kReceive) == grants) queue(lane);
}

void Run::end() {
  unfinished_ = 0;
  if (lane_count_ == 0) return;
  for (std::uint32_t lane = 0; lane < lane_count_; ++lane) {
    LaneRun& run = lanes_[lane];
    for (std::size_t i = run.first_landing; i < run.landings.size(); ++i)
      pool_.give_back(run.landings[i].block);
    run.landings.clear();
    run.first_landing = 0;
  }
  for (Stashed& stashed : stash_)
    stashed.is_used = false;
  if (has_scratch_) pool_.give_back(scratch_);
  has_scratch_ = false;
  lane_count_ = 0;
}

void Run::queue(std::uint32_t lane) {
  if (lanes_[lane].is_queued) return;
  lanes_[lane].is_queued = true;
  queue_.push_back(lane);
}

void Run::queue_dependents(std::uint32_t lane) {
  for (const std::uint32_t other : plan_->dependents(plan_->lanes()[lane]))
    queue(other);
}

bool Run::advance_shared() {
  const bool was_held = is_held();
  const bool has_moved = shared_.advance(unfinished_ == 0);
  if (shared_.take_published()) wake_sleepers();
  if (shared_.other_caller())
    fail_for_other_call(call_.shared.tables->members()[*shared_.other_caller()]);
  if (was_held && !is_held()) queue_all();
  return has_moved;
}

void Run::wake_sleepers() {
  const SharedArea& area = *call_.shared.area;
  for (std::uint32_t place = 0; place < area.ranks(); ++place) {
    if (place == area.rank() || !area.is_asleep(place)) continue;
    const std::uint32_t peer = call_.members[call_.shared.tables->members()[place]];
    // A message that cannot be sent costs that rank a short sleep.
    if (links_.is_open(peer)) (void)links_.send(peer, {.kind = MessageKind::kPing}, {});
  }
}

void Run::advance() {
  if (is_shared()) (void)advance_shared();
  local_work_ = 0;
  while (queue_head_ < queue_.size() && local_work_ < kLocalSlices && !failure_) {
    const std::uint32_t lane = queue_[queue_head_++];
    lanes_[lane].is_queued = false;
    run_lane(lane);
  }
  if (queue_head_ < queue_.size()) return;
  queue_.clear();
  queue_head_ = 0;
}

void Run::retry_blocked() {
  has_blocked_ = false;
  for (std::uint32_t lane = 0; lane < plan_->lanes().size(); ++lane) {
    if (!lanes_[lane].is_blocked) continue;
    lanes_[lane].is_blocked = false;
    queue(lane);
  }
}

void Run::run_lane(std::uint32_t lane) {
  if (lanes_[lane].completed.step == plan_->lanes()[lane].step_count) return;
  switch (plan_->lanes()[lane].direction) {
    case Direction::kLocal:
      run_local(lane);
      return;
    case Direction::kSend:
      run_send(lane);
      return;
    case Direction::kReceive:
      run_receive(lane);
      return;
  }
}

bool Run::holds(const BoundStep& step, std::uint32_t slice) const {
  if (is_held()) return false;
  for (const BoundWait& wait : plan_->waits(step)) {
    const Cursor& other = lanes_[wait.lane].completed;
    const bool is_over = other.step > wait.step ||
                         (other.step == wait.step && wait.is_by_slice && other.slice > slice);
    if (!is_over) return false;
  }
  return true;
}

void Run::advance_cursor(const BoundLane& lane, Cursor& cursor) const {
  if (++cursor.slice < plan_->step(lane, cursor.step).slices) return;
  ++cursor.step;
  cursor.slice = 0;
}

void Run::complete(std::uint32_t lane) {
  advance_cursor(plan_->lanes()[lane], lanes_[lane].completed);
  if (lanes_[lane].completed.step == plan_->lanes()[lane].step_count) --unfinished_;
}

std::byte* Run::at(BufferKind buffer, std::uint64_t offset) const {
  switch (buffer) {
    case BufferKind::kInput:
      return call_.input.data + offset;
    case BufferKind::kOutput:
      return call_.output.data + offset;
    case BufferKind::kScratch:
      break;
  }
  return scratch_.data() + offset;
}

const RegionSet& Run::set_at(BufferKind buffer, const std::byte* address) const {
  for (const RegionSet& piece : call_.pieces) {
    if (address >= piece.bytes.data() && address < piece.bytes.data() + piece.bytes.size()) {
      return piece;
    }
  }
  if (buffer == BufferKind::kScratch) return scratch_.set;
  return buffer == BufferKind::kInput ? call_.input.set : call_.output.set;
}

void Run::run_local(std::uint32_t lane) {
  const BoundLane& bound = plan_->lanes()[lane];
  LaneRun& run = lanes_[lane];
  bool has_moved = false;
  while (run.completed.step < bound.step_count) {
    const BoundStep& step = plan_->step(bound, run.completed.step);
    if (!holds(step, run.completed.slice)) break;
    if (local_work_ >= kLocalSlices) {
      queue(lane);
      break;
    }
    const std::uint64_t offset = std::uint64_t{run.completed.slice} * plan_->slice_bytes();
    const std::uint32_t bytes = plan_->slice_length(step, run.completed.slice);
    if (bytes > 0 && step.kind == StepKind::kCopy) {
      std::memmove(at(step.target_buffer, step.target + offset),
                   at(step.source_buffer, step.source + offset), bytes);
    } else if (bytes > 0) {
      apply(step, offset, at(step.operand_buffer, step.operand + offset), bytes);
    }
    if (bytes > kSmallBytes) ++local_work_;
    complete(lane);
    has_moved = true;
  }
  if (has_moved) queue_dependents(lane);
}

void Run::apply(const BoundStep& step, std::uint64_t offset, const std::byte* incoming,
                std::uint32_t bytes) {
  std::byte* const target = at(step.target_buffer, step.target + offset);
  if (step.kind == StepKind::kReceive) {
    std::memcpy(target, incoming, bytes);
    return;
  }
  const std::byte* const own = at(step.source_buffer, step.source + offset);
  const std::size_t count = bytes / call_.element_bytes;
  call_.reduce.run(target, step.is_incoming_first ? incoming : own,
                   step.is_incoming_first ? own : incoming, count);
  if (step.is_final && call_.finish.run != nullptr) call_.finish.run(target, count, call_.ranks);
}

void Run::run_send(std::uint32_t lane) {
  const BoundLane& bound = plan_->lanes()[lane];
  LaneRun& run = lanes_[lane];
  bool has_completed = false;
  while (run.posted.step < bound.step_count) {
    const BoundStep& step = plan_->step(bound, run.posted.step);
    if (!holds(step, run.posted.slice)) break;
    if (step.bytes == 0 || step.is_small) {
      // Completions keep the order of the lane.
      if (run.in_flight > 0) break;
      if (step.bytes > 0 && !send_small(lane, step)) break;
      advance_cursor(bound, run.posted);
      complete(lane);
      has_completed = true;
      continue;
    }
    if (!send_slice(lane, step)) break;
    ++run.in_flight;
    advance_cursor(bound, run.posted);
  }
  if (has_completed) queue_dependents(lane);
}

bool Run::send_small(std::uint32_t lane, const BoundStep& step) {
  const BoundLane& bound = plan_->lanes()[lane];
  const std::uint32_t peer = link_of(bound);
  if (!links_.is_open(peer)) return false;
  const MessageHeader header{.kind = MessageKind::kData,
                             .group = call_.group,
                             .channel = static_cast<std::uint16_t>(bound.channel),
                             .operation = call_.operation,
                             .fingerprint = call_.fingerprint,
                             .step = lanes_[lane].posted.step};
  const std::span<const std::byte> payload(at(step.source_buffer, step.source), step.bytes);
  return was_posted(lane, links_.send(peer, header, payload));
}

bool Run::send_slice(std::uint32_t lane, const BoundStep& step) {
  const BoundLane& bound = plan_->lanes()[lane];
  LaneRun& run = lanes_[lane];
  if (run.in_flight >= call_.slices_in_flight || run.first_grant == run.grants.size()) return false;
  Grant& grant = run.grants[run.first_grant];
  if (grant.step != run.posted.step || grant.first != run.posted.slice) {
    fail(lane, "it expects another step; all ranks must make the same calls");
    return false;
  }
  const std::uint64_t offset = std::uint64_t{run.posted.slice} * plan_->slice_bytes();
  const std::uint32_t bytes = plan_->slice_length(step, run.posted.slice);
  std::byte* const source = at(step.source_buffer, step.source + offset);
  const std::size_t via = links_.endpoint_of(link_of(bound));
  const Sge piece{.data = source,
                  .bytes = bytes,
                  .region = set_at(step.source_buffer, source).regions[via].local};
  const WriteTag tag{.group = call_.group, .operation = call_.operation, .channel = bound.channel};
  const std::uint64_t token = std::uint64_t{index_} << 32U | lane;
  if (!was_posted(lane, links_.write(link_of(bound), piece, {grant.key, grant.offset}, tag.pack(),
                                     token))) {
    return false;
  }
  ++grant.first;
  grant.offset += plan_->slice_bytes();
  if (--grant.slices > 0) return true;
  if (++run.first_grant < run.grants.size()) return true;
  run.grants.clear();
  run.first_grant = 0;
  return true;
}

bool Run::was_posted(std::uint32_t lane, PostOutcome outcome) {
  if (outcome == PostOutcome::kPosted) return true;
  if (outcome == PostOutcome::kFull) {
    lanes_[lane].is_blocked = true;
    has_blocked_ = true;
  } else if (outcome == PostOutcome::kRefused) {
    fail(lane, links_.last_error(link_of(plan_->lanes()[lane])));
  }
  return false;
}

void Run::on_write_done(std::uint32_t lane) {
  LaneRun& run = lanes_[lane];
  if (run.in_flight == 0) return;
  --run.in_flight;
  complete(lane);
  queue_dependents(lane);
  queue(lane);
}

void Run::on_open(std::uint32_t peer) {
  for (std::uint32_t lane = 0; lane < plan_->lanes().size(); ++lane) {
    const BoundLane& bound = plan_->lanes()[lane];
    if (bound.direction != Direction::kLocal && bound.peer == peer) queue(lane);
  }
}

void Run::fail(std::uint32_t lane, std::string_view what) {
  if (failure_) return;
  const BoundLane& bound = plan_->lanes()[lane];
  const char* const doing = bound.direction == Direction::kSend ? "sending to" : "receiving from";
  failure_ = Failure{.what = absl::StrFormat("failed %s rank %d (%s): %s", doing, bound.peer,
                                             links_.address(link_of(bound)), std::string(what)),
                     .peer = bound.peer};
}

bool Run::needs(std::uint32_t peer) const {
  if (needs_in_memory(peer)) return true;
  for (std::uint32_t lane = 0; lane < plan_->lanes().size(); ++lane) {
    const BoundLane& bound = plan_->lanes()[lane];
    if (bound.direction != Direction::kLocal && bound.peer == peer &&
        lanes_[lane].completed.step < bound.step_count) {
      return true;
    }
  }
  return false;
}

bool Run::needs_in_memory(std::uint32_t peer) const {
  if (!is_shared()) return false;
  const std::span<const std::uint32_t> members = call_.shared.tables->members();
  const auto found = std::find(members.begin(), members.end(), peer);
  return found != members.end() &&
         shared_.needs(static_cast<std::uint32_t>(found - members.begin()));
}

std::string Run::describe_waiting_for_memory() const {
  std::string waiting = "waiting in shared memory for";
  const char* separator = " ";
  for (const std::uint32_t rank : call_.shared.tables->members()) {
    if (!needs_in_memory(rank)) continue;
    const char* const state = links_.is_open(call_.members[rank]) ? "" : ", not connected";
    absl::StrAppendFormat(&waiting, "%srank %d (%s%s)", separator, rank,
                          links_.address(call_.members[rank]), state);
    separator = ", ";
  }
  return waiting;
}

std::string Run::describe_waiting() const {
  if (waits_for_memory()) return describe_waiting_for_memory();
  constexpr std::uint32_t kMaxNamed = 8;
  std::string waiting;
  std::uint32_t count = 0;
  for (std::uint32_t lane = 0; lane < plan_->lanes().size(); ++lane) {
    const BoundLane& bound = plan_->lanes()[lane];
    const LaneRun& run = lanes_[lane];
    if (bound.direction == Direction::kLocal || run.completed.step == bound.step_count) continue;
    if (++count > kMaxNamed) continue;
    const bool is_send = bound.direction == Direction::kSend;
    const char* const state = links_.is_open(link_of(bound)) ? "" : ", not connected";
    absl::StrAppendFormat(&waiting, "%s%s rank %d (%s%s) at step %d of %d",
                          waiting.empty() ? "" : ", ", is_send ? "sending to" : "receiving from",
                          bound.peer, links_.address(link_of(bound)), state, run.completed.step + 1,
                          bound.step_count);
  }
  if (count > kMaxNamed) absl::StrAppendFormat(&waiting, " and %d more", count - kMaxNamed);
  return waiting;
}

}  // namespace spindrift::collectives
