#include "collectives/fork_guard.h"

#include <atomic>

#include <pthread.h>

namespace spindrift::collectives {
namespace {

// Forks between the first guard and this process. The only variable of its kind: fork() can be
// heard of by no other means.
std::atomic<std::uint32_t>& generation() {
  static std::atomic<std::uint32_t> forks{0};
  return forks;
}

void count_fork() {
  generation().fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

ForkGuard::ForkGuard() {
  // Where it cannot be registered, for want of memory, children are not told apart.
  static const int registered = ::pthread_atfork(nullptr, nullptr, count_fork);
  static_cast<void>(registered);
  generation_ = generation().load(std::memory_order_relaxed);
}

bool ForkGuard::is_in_child() const {
  return generation().load(std::memory_order_relaxed) != generation_;
}

}  // namespace spindrift::collectives
