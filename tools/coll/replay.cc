#include "tools/coll/replay.h"

#include <algorithm>
#include <chrono>

#include "tools/coll/measure.h"

namespace spindrift::coll {
namespace {

// Beyond this, buckets share memory.
constexpr std::uint64_t kMemoryBytes = 1ULL << 30;
constexpr std::uint64_t kFewestSlots = 2;

Time clock_now() {
  return Time(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace

Replay::Replay(Communicator& communicator, Gather& gather, const Options& options,
               std::span<const Bucket> buckets)
    : communicator_(communicator),
      gather_(gather),
      options_(options),
      buckets_(buckets),
      pattern_(options.type, options.op, communicator.ranks()),
      bucket_times_(buckets.size()),
      wrong_(buckets.size()) {
  for (const Bucket& bucket : buckets)
    slot_bytes_ = std::max(slot_bytes_, bucket.elements * bytes_of(options.type));
  const std::uint64_t fitting = kMemoryBytes / std::max<std::uint64_t>(slot_bytes_, 1);
  slots_ = std::min<std::uint64_t>(
      {std::max(fitting, kFewestSlots), buckets.size(), Communicator::kMaxInFlight});
  memory_.resize(slots_ * slot_bytes_);
}

double Replay::elapsed_us() const {
  return std::chrono::duration<double, std::micro>(clock_now() - step_start_).count();
}

CollectiveCall Replay::call_for(std::size_t bucket) {
  std::byte* const memory = memory_.data() + bucket % slots_ * slot_bytes_;
  return {.collective = Collective::kAllReduce,
          .input = memory,
          .output = memory,
          .count = buckets_[bucket].elements,
          .type = options_.type,
          .op = options_.op};
}

void Replay::note_done(bool is_timed) {
  while (!started_.empty() && communicator_.is_done(started_.front().work)) {
    const Started through = started_.front();
    started_.erase(started_.begin());
    if (!is_timed) continue;
    const double took_us = elapsed_us() - through.at_us;
    RankTime& time = bucket_times_[through.bucket];
    time.mean_us += took_us;
    time.slowest_us = std::max(time.slowest_us, took_us);
  }
}

Status Replay::wait_for_oldest(bool is_timed) {
  if (Status status = communicator_.wait(started_.front().work); !status.ok()) return status;
  note_done(is_timed);
  return ok_status();
}

Status Replay::run_step(bool is_timed) {
  if (Status status = communicator_.barrier(); !status.ok()) return status;
  std::uint64_t all = 0;
  for (const Bucket& bucket : buckets_)
    all += bucket.elements;
  std::uint64_t made = 0;
  step_start_ = clock_now();
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    made += buckets_[i].elements;
    const double ready_us =
        options_.backward_ms * 1e3 * static_cast<double>(made) / static_cast<double>(all);
    // The backward pass goes on; what it leaves of the processor drives the communication.
    while (elapsed_us() < ready_us) {
      if (Status status = communicator_.progress(); !status.ok()) return status;
      note_done(is_timed);
    }
    while (started_.size() >= slots_) {
      if (Status status = wait_for_oldest(is_timed); !status.ok()) return status;
    }
    const double at_us = elapsed_us();
    const Result<WorkId> work = communicator_.start(call_for(i));
    if (!work.ok()) return work.error();
    started_.push_back({.bucket = i, .work = work.value(), .at_us = at_us});
  }
  while (!started_.empty()) {
    if (Status status = wait_for_oldest(is_timed); !status.ok()) return status;
  }
  if (is_timed) {
    const double took_us = elapsed_us();
    step_time_.mean_us += took_us;
    step_time_.slowest_us = std::max(step_time_.slowest_us, took_us);
  }
  return ok_status();
}

Status Replay::verify() {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const CollectiveCall call = call_for(i);
    const std::span bytes(static_cast<std::byte*>(call.output),
                          call.count * bytes_of(options_.type));
    pattern_.fill(bytes, communicator_.rank(), i);
    if (Status status = communicator_.run(call); !status.ok()) return status;
    wrong_[i] = pattern_.count_wrong_reduced(bytes, i);
  }
  return ok_status();
}

Result<ReplayResult> Replay::run() {
  // Zeros stay zeros, however often they are added up.
  std::fill(memory_.begin(), memory_.end(), std::byte{0});
  for (std::uint32_t step = 0; step < options_.warmup + options_.iterations; ++step) {
    if (Status status = run_step(step >= options_.warmup); !status.ok()) return status.error();
  }
  if (options_.has_check) {
    if (Status status = verify(); !status.ok()) return status.error();
  }
  for (RankTime& time : bucket_times_)
    time.mean_us /= options_.iterations;
  step_time_.mean_us /= options_.iterations;
  ReplayResult result;
  Result<std::vector<Outcome>> buckets =
      combine(gather_, bucket_times_, wrong_, options_.has_check);
  if (!buckets.ok()) return buckets.error();
  result.buckets = std::move(buckets).value();
  const std::uint64_t none = 0;
  Result<std::vector<Outcome>> step =
      combine(gather_, std::span(&step_time_, 1), std::span(&none, 1), false);
  if (!step.ok()) return step.error();
  result.step = std::move(step.value().front());
  return result;
}

}  // namespace spindrift::coll
