#include "collectives/executor.h"

#include <array>
#include <cstring>

#include <absl/strings/str_format.h>

namespace spindrift::collectives {
namespace {

constexpr std::size_t kBatch = 64;
// Longest sleep in the kernel, so that a lost wake-up costs a hiccup and never a job.
constexpr Duration kMaxSleep = std::chrono::milliseconds(50);
// For aborted work to come back; the transport promises to need no peer for it.
constexpr Duration kDrainTimeout = std::chrono::seconds(2);

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

Executor::Executor(Endpoint& endpoint, std::vector<Link> links, const ExecutorOptions& options)
    : endpoint_(endpoint),
      links_(std::move(links)),
      options_(options),
      is_closed_(links_.size(), false) {}

Executor::~Executor() {
  if (outstanding_ > 0) abort_and_drain();
  for (const std::unique_ptr<Scratch>& scratch : scratch_) {
    // Refused only while work names it, and then the endpoint keeps a dead key: nothing to do.
    (void)endpoint_.deregister_memory(scratch->region);
  }
}

Status Executor::start(const Plan& plan, const Buffers& buffers) {
  if (failure_) return *failure_;
  if (!is_done()) {
    return Error(ErrorCode::kUnavailable,
                 "a collective is still running; wait for it before starting another");
  }
  buffers_ = buffers;
  rank_ = plan.rank;
  if (Status status = bind(plan); !status.ok()) {
    unfinished_lanes_ = 0;
    return status;
  }
  last_movement_ = endpoint_.now();
  Status status = start_ready();
  if (!status.ok()) abort_and_drain();
  return status;
}

Status Executor::bind(const Plan& plan) {
  steps_.clear();
  waits_.clear();
  lanes_.clear();
  unfinished_lanes_ = 0;
  for (const Lane& lane : plan.lanes) {
    if (lane.steps.empty()) {
      return Error(ErrorCode::kInvalidArgument, "a plan with an empty lane cannot be run");
    }
    if (Status status = bind_lane(plan, lane); !status.ok()) return status;
    ++unfinished_lanes_;
  }
  return ok_status();
}

Status Executor::bind_lane(const Plan& plan, const Lane& lane) {
  LaneState state;
  const bool is_outgoing = lane.steps.front().kind == StepKind::kSend;
  if (lane.peer) {
    state.link = find_link(*lane.peer, lane.channel, is_outgoing);
    if (state.link == nullptr) {
      return Error(ErrorCode::kNotFound,
                   absl::StrFormat("rank %d has no connection %s rank %d that the plan needs",
                                   plan.rank, is_outgoing ? "to" : "from", *lane.peer));
    }
    if (is_closed_[static_cast<std::size_t>(state.link - links_.data())]) {
      return Error(ErrorCode::kUnavailable,
                   absl::StrFormat("rank %d: rank %d (%s) has left the group", plan.rank,
                                   *lane.peer, state.link->address));
    }
  }
  state.first_step = static_cast<std::uint32_t>(steps_.size());
  state.step_count = static_cast<std::uint32_t>(lane.steps.size());
  for (const Step& step : lane.steps)
    bind_step(plan, step);
  if (lane.peer && !is_outgoing) {
    if (Status status = bind_scratch(state, static_cast<std::uint32_t>(lanes_.size()));
        !status.ok()) {
      return status;
    }
  }
  lanes_.push_back(state);
  return ok_status();
}

void Executor::bind_step(const Plan& plan, const Step& step) {
  const auto range = [&](const ChunkRef& ref) {
    return range_of(buffers_.count, plan.chunks_per_block, ref.chunk, step.chunks);
  };
  const auto place = [&](const ChunkRef& ref) {
    const MemoryRegion& region =
        ref.buffer == BufferKind::kInput ? buffers_.input : buffers_.output;
    return region.bytes.data() + range(ref).first * buffers_.element_bytes;
  };
  // Where a step lies in the vector: its own place decides what counts as "the same elements".
  const auto own_range = [&](const Step& any) {
    const ChunkRef& ref = any.kind == StepKind::kSend ? any.source : any.target;
    return range_of(buffers_.count, plan.chunks_per_block, ref.chunk, any.chunks);
  };
  BoundStep bound;
  bound.kind = step.kind;
  bound.source = step.kind == StepKind::kReceive ? nullptr : place(step.source);
  bound.target = step.kind == StepKind::kSend ? nullptr : place(step.target);
  bound.bytes = own_range(step).count * buffers_.element_bytes;
  bound.slices = static_cast<std::uint32_t>(
      std::max<std::uint64_t>(1, (bound.bytes + options_.slice_bytes - 1) / options_.slice_bytes));
  bound.first_wait = static_cast<std::uint32_t>(waits_.size());
  bound.wait_count = static_cast<std::uint32_t>(step.waits.size());
  for (const StepRef& wait : step.waits) {
    const Step& other = plan.lanes[wait.lane].steps[wait.step];
    waits_.push_back({.on = wait, .is_by_slice = own_range(other) == own_range(step)});
  }
  steps_.push_back(bound);
}

Status Executor::bind_scratch(LaneState& lane, std::uint32_t index) {
  lane.scratch = index;
  while (scratch_.size() <= index)
    scratch_.push_back(std::make_unique<Scratch>());
  Scratch& scratch = *scratch_[index];
  if (!scratch.memory.empty()) return ok_status();
  scratch.memory.resize(std::size_t{options_.slice_bytes} * options_.slices_in_flight);
  Result<MemoryRegion> region = endpoint_.register_memory(scratch.memory, Access::kLocalWrite);
  if (!region.ok()) {
    scratch.memory.clear();
    return region.error();
  }
  scratch.region = region.value();
  return ok_status();
}

const Link* Executor::find_link(std::uint32_t peer, std::uint32_t channel, bool is_outgoing) const {
  for (const Link& link : links_) {
    if (link.peer == peer && link.channel == channel && link.is_outgoing == is_outgoing) {
      return &link;
    }
  }
  return nullptr;
}

std::uint32_t Executor::slice_length(const BoundStep& step, std::uint32_t slice) const {
  const std::uint64_t first = std::uint64_t{slice} * options_.slice_bytes;
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(options_.slice_bytes, step.bytes - first));
}

std::byte* Executor::scratch_slot(const LaneState& lane, std::uint64_t slice) const {
  return scratch_[lane.scratch]->memory.data() +
         (slice % options_.slices_in_flight) * options_.slice_bytes;
}

void Executor::advance(const LaneState& lane, Cursor& cursor) const {
  ++cursor.slice;
  if (cursor.slice < step_at(lane, cursor).slices) return;
  ++cursor.step;
  cursor.slice = 0;
}

void Executor::complete_slice(LaneState& lane) {
  advance(lane, lane.completed);
  if (lane.completed.step == lane.step_count) --unfinished_lanes_;
  last_movement_ = endpoint_.now();
}

bool Executor::may_start(const LaneState& lane) const {
  if (lane.posted.step == lane.step_count || lane.in_flight >= options_.slices_in_flight) {
    return false;
  }
  const BoundStep& step = step_at(lane, lane.posted);
  // Without a message there is nothing to complete later, so an empty step waits for its turn.
  if (step.bytes == 0 && lane.in_flight > 0) return false;
  for (std::uint32_t i = 0; i < step.wait_count; ++i) {
    const BoundWait& wait = waits_[step.first_wait + i];
    const Cursor& other = lanes_[wait.on.lane].completed;
    const bool has_finished =
        other.step > wait.on.step ||
        (other.step == wait.on.step && wait.is_by_slice && other.slice > lane.posted.slice);
    if (!has_finished) return false;
  }
  return true;
}

Status Executor::start_ready() {
  // A step that completes at once may free one of an earlier lane: repeat until all stand still.
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane) {
      while (may_start(lanes_[lane])) {
        const Result<bool> result = start_slice(lane);
        if (!result.ok()) return result.error();
        if (!result.value()) break;
        has_moved = true;
      }
    }
  }
  return ok_status();
}

Result<bool> Executor::start_slice(std::uint32_t lane_index) {
  LaneState& lane = lanes_[lane_index];
  const BoundStep& step = step_at(lane, lane.posted);
  if (step.bytes == 0 || step.kind == StepKind::kCopy) {
    const std::size_t offset = std::size_t{lane.posted.slice} * options_.slice_bytes;
    if (step.bytes > 0 && step.target != step.source) {
      std::memcpy(step.target + offset, step.source + offset,
                  slice_length(step, lane.posted.slice));
    }
    advance(lane, lane.posted);
    complete_slice(lane);
    return true;
  }
  bool was_accepted = false;
  if (Status status = post_slice(lane_index, step, was_accepted); !status.ok()) {
    return status.error();
  }
  if (was_accepted) {
    ++lane.posted_slices;
    ++lane.in_flight;
    ++outstanding_;
    advance(lane, lane.posted);
  }
  return was_accepted;
}

Status Executor::post_slice(std::uint32_t lane_index, const BoundStep& step, bool& was_accepted) {
  const LaneState& lane = lanes_[lane_index];
  const std::size_t offset = std::size_t{lane.posted.slice} * options_.slice_bytes;
  Sge piece{.bytes = slice_length(step, lane.posted.slice)};
  switch (step.kind) {
    case StepKind::kSend: {
      const std::span<std::byte>& output = buffers_.output.bytes;
      const bool is_output =
          step.source >= output.data() && step.source < output.data() + output.size();
      piece.data = step.source + offset;
      piece.region = is_output ? buffers_.output.local : buffers_.input.local;
      break;
    }
    case StepKind::kReceive:
      piece.data = step.target + offset;
      piece.region = buffers_.output.local;
      break;
    case StepKind::kReceiveReduce:
      piece.data = scratch_slot(lane, lane.posted_slices);
      piece.region = scratch_[lane.scratch]->region.local;
      break;
    case StepKind::kCopy:
      break;
  }
  const WorkRequest request{.user_data = lane_index,
                            .conn = lane.link->conn,
                            .kind = step.kind == StepKind::kSend ? OpKind::kSend : OpKind::kReceive,
                            .local = std::span<const Sge>(&piece, 1)};
  const PostResult result = endpoint_.post(std::span<const WorkRequest>(&request, 1));
  was_accepted = result.accepted == 1;
  if (was_accepted || result.status == PostStatus::kQueueFull) return ok_status();
  return fail(ErrorCode::kIo,
              absl::StrFormat("rank %d could not post work %s: %s", rank_, describe_lane(lane),
                              endpoint_.last_error(lane.link->conn)));
}

Status Executor::progress() {
  if (failure_) return *failure_;
  Status status = turn();
  if (!status.ok()) abort_and_drain();
  return status;
}

Status Executor::turn() {
  if (Status status = take_completions(); !status.ok()) return status;
  if (Status status = start_ready(); !status.ok()) return status;
  if (is_done()) return ok_status();
  if (Status status = take_events(); !status.ok()) return status;
  const Duration silent_for = endpoint_.now() - last_movement_;
  if (silent_for > options_.stall_timeout)
    return fail(ErrorCode::kTimedOut, describe_stall(silent_for));
  return ok_status();
}

Status Executor::take_completions() {
  std::array<Completion, kBatch> batch;
  const std::size_t count = endpoint_.poll(batch);
  for (std::size_t i = 0; i < count; ++i) {
    Status status = on_completion(batch[i]);
    // Work that this completion allows starts before the next reduction, to run beside it.
    if (status.ok()) status = start_ready();
    if (!status.ok()) {
      outstanding_ -=
          static_cast<std::uint32_t>(std::min<std::size_t>(outstanding_, count - i - 1));
      return status;
    }
  }
  return ok_status();
}

Status Executor::on_completion(const Completion& completion) {
  if (completion.user_data >= lanes_.size() || outstanding_ == 0) return ok_status();
  LaneState& lane = lanes_[completion.user_data];
  --outstanding_;
  --lane.in_flight;
  const BoundStep& step = step_at(lane, lane.completed);
  const std::uint32_t length = slice_length(step, lane.completed.slice);
  if (completion.status != OpStatus::kOk) {
    const bool is_length =
        completion.status == OpStatus::kLocalLength || completion.status == OpStatus::kRemoteLength;
    return fail(ErrorCode::kIo,
                absl::StrFormat("rank %d failed %s: %s: %s%s", rank_, describe_lane(lane),
                                to_string(completion.status), endpoint_.last_error(lane.link->conn),
                                is_length ? "; do all ranks pass the same count?" : ""));
  }
  if (step.kind != StepKind::kSend && completion.bytes != length) {
    return fail(
        ErrorCode::kInvalidArgument,
        absl::StrFormat("rank %d expected %d bytes %s and got %d: all ranks must pass the same "
                        "count, type and slice size",
                        rank_, length, describe_lane(lane), completion.bytes));
  }
  if (step.kind == StepKind::kReceiveReduce) {
    const std::size_t offset = std::size_t{lane.completed.slice} * options_.slice_bytes;
    buffers_.reduce.run(step.target + offset, step.source + offset,
                        scratch_slot(lane, lane.completed_slices), length / buffers_.element_bytes);
  }
  ++lane.completed_slices;
  complete_slice(lane);
  return ok_status();
}

Status Executor::take_events() {
  std::array<ConnEvent, kBatch> events;
  const std::size_t count = endpoint_.poll_events(events);
  for (std::size_t i = 0; i < count; ++i) {
    if (events[i].kind == ConnEvent::Kind::kRequest) {
      // The group is complete; whoever calls now has the wrong address.
      (void)endpoint_.reject(events[i].conn, "this address serves a running group of ranks");
      continue;
    }
    for (std::size_t link = 0; link < links_.size(); ++link) {
      if (links_[link].conn != events[i].conn) continue;
      if (events[i].kind == ConnEvent::Kind::kEstablished) continue;
      is_closed_[link] = true;
      for (const LaneState& lane : lanes_) {
        if (lane.link != &links_[link] || lane.completed.step == lane.step_count) continue;
        return fail(ErrorCode::kIo,
                    absl::StrFormat("rank %d failed %s: the connection has ended: %s", rank_,
                                    describe_lane(lane), endpoint_.last_error(links_[link].conn)));
      }
    }
  }
  return ok_status();
}

Status Executor::wait() {
  Time spin_until = endpoint_.now() + options_.spin;
  while (!is_done()) {
    const Time moved_before = last_movement_;
    if (Status status = progress(); !status.ok()) return status;
    if (is_done()) break;
    if (last_movement_ != moved_before) {
      spin_until = last_movement_ + options_.spin;
    } else if (endpoint_.now() >= spin_until) {
      endpoint_.wait(std::min(kMaxSleep, options_.stall_timeout));
    }
  }
  return failure_ ? Status(*failure_) : ok_status();
}

Error Executor::fail(ErrorCode code, std::string message) {
  failure_ = Error(code, std::move(message));
  return *failure_;
}

void Executor::abort_and_drain() {
  for (const Link& link : links_)
    endpoint_.abort(link.conn);
  const Time deadline = endpoint_.now() + kDrainTimeout;
  std::array<Completion, kBatch> batch;
  while (outstanding_ > 0 && endpoint_.now() < deadline) {
    const std::size_t count = endpoint_.poll(batch);
    outstanding_ -= static_cast<std::uint32_t>(std::min<std::size_t>(outstanding_, count));
  }
}

std::string Executor::describe_lane(const LaneState& lane) const {
  const bool is_outgoing = lane.link->is_outgoing;
  return absl::StrFormat("%s rank %d (%s)", is_outgoing ? "sending to" : "receiving from",
                         lane.link->peer, lane.link->address);
}

std::string Executor::describe_stall(Duration silent_for) const {
  std::string waiting;
  for (const LaneState& lane : lanes_) {
    if (lane.link == nullptr || lane.completed.step == lane.step_count) continue;
    absl::StrAppendFormat(&waiting, "%s%s at step %d of %d", waiting.empty() ? "" : ", ",
                          describe_lane(lane), lane.completed.step + 1, lane.step_count);
    const std::string last = endpoint_.last_error(lane.link->conn);
    if (!last.empty()) absl::StrAppendFormat(&waiting, " [%s]", last);
  }
  return absl::StrFormat(
      "rank %d: nothing has moved for %.1f s while %s; is that rank alive and in the same "
      "collective?",
      rank_, seconds(silent_for), waiting);
}

}  // namespace spindrift::collectives
