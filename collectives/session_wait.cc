// How a session waits, and what it does for calls that go through shared memory, where nobody says
// a word to the endpoints.
#include <algorithm>

#include "collectives/session.h"
#include "collectives/wait_any.h"

namespace spindrift::collectives {
namespace {

// Longest sleep in the kernel, so that a lost wake-up costs a hiccup and never a job.
constexpr Duration kMaxSleep = std::chrono::milliseconds(50);
// The same while others may have to wake this rank who have no connection for it yet.
constexpr Duration kMaxSharedSleep = std::chrono::milliseconds(5);
// Looks at the shared memory between two at the endpoints, while polling and while giving way.
constexpr std::uint32_t kSharedLooks = 128;
constexpr std::uint32_t kEagerLooks = 32;
constexpr std::uint32_t kSharedTurns = 8;
// Before sleeping: together some microseconds.
constexpr std::uint32_t kLastLooks = 100;

}  // namespace

void Session::make_area(Group& group, const std::vector<std::uint32_t>& near) {
  if (segments_ == nullptr || group.id >= SharedArea::kAreas || near.size() < 2) return;
  const std::size_t at = group.id * SharedArea::kBytes;
  std::vector<std::span<const std::byte>> members;
  std::uint32_t place = 0;
  for (const std::uint32_t rank : near) {
    const std::uint32_t member = group.members[rank];
    const bool is_own = member == options_.rank;
    if (is_own) place = static_cast<std::uint32_t>(members.size());
    const std::span<const std::byte> segment = is_own ? segments_->own() : segments_->of(member);
    if (segment.empty()) return;
    members.push_back(segment.subspan(at, SharedArea::kBytes));
  }
  group.area.emplace(place, std::move(members), segments_->own().subspan(at, SharedArea::kBytes));
}

// Only what goes through shared memory, and messages that wait for nothing else.
bool Session::advance_shared() {
  bool has_moved = false;
  looks_at_memory_ = false;
  for (std::size_t i = 0; i < active_.size() && !failure_;) {
    Run& run = *active_[i];
    if (run.is_shared()) {
      has_moved = run.advance_shared() || has_moved;
      if (run.has_more()) {
        run.advance();
        has_moved = true;
      }
      looks_at_memory_ = looks_at_memory_ || run.waits_for_memory();
      settle(run);
    }
    if (i < active_.size() && active_[i] == &run) ++i;
  }
  has_moved_ = has_moved_ || has_moved;
  return has_moved;
}

// Others write without a word to the endpoints, which are looked at now and then. Whether it is
// done.
bool Session::look_at_shared(bool (*is_done)(const void* argument), const void* argument) {
  const bool may_spin = spin_ > Duration::zero();
  const std::uint32_t looks = may_spin ? kSharedLooks : kSharedTurns;
  for (std::uint32_t look = 0; look < looks && !failure_; ++look) {
    (void)advance_shared();
    if (is_done(argument)) return true;
    if (!looks_at_memory_) return false;
    // What is about to come is seen sooner without pauses.
    if (may_spin && look > kEagerLooks) relax();
    if (!may_spin) give_way();
  }
  return false;
}

void Session::set_asleep(bool is_asleep) {
  for (Run* const run : active_)
    if (run->is_shared()) run->call().shared.area->set_asleep(is_asleep);
}

void Session::sleep(Duration timeout, int wake_fd) {
  if (is_in_child()) return;
  if (shared_runs_ == 0) {
    links_.sleep(timeout, wake_fd);
    return;
  }
  set_asleep(true);
  // What was published before is seen now, and who publishes later sees that this rank sleeps.
  bool has_moved = false;
  for (std::uint32_t look = 0; look < kLastLooks && !has_moved; ++look) {
    has_moved = advance_shared();
    relax();
  }
  if (!has_moved && !failure_) links_.sleep(std::min(timeout, kMaxSharedSleep), wake_fd);
  set_asleep(false);
}

Status Session::wait_until(bool (*is_done)(const void* argument), const void* argument) {
  while (!is_in_child() && !is_done(argument) && !failure_) {
    if (shared_runs_ > 0 && look_at_shared(is_done, argument)) break;
    if (Status status = progress(); !status.ok()) return status;
    if (is_idle_ && !is_done(argument)) be_idle();
  }
  return failure_ ? Status(failure_->error) : ok_status();
}

// After a turn in which nothing came: poll on, or let others have the core, or sleep.
void Session::be_idle() {
  const Duration idle_for = last_look_ - last_movement_;
  if (idle_for < spin_) return;
  if (idle_for < spin_ + options_.yield) {
    give_way();
  } else {
    sleep(std::min(kMaxSleep, options_.stall_timeout), -1);
  }
}

}  // namespace spindrift::collectives
