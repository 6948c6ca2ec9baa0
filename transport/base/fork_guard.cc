#include "transport/base/fork_guard.h"

#include <pthread.h>

namespace spindrift {
std::string ForkGuard::sentence(std::string_view what) {
  return "this process was forked from the one that made the " + std::string(what) +
         ", and cannot use it; make one of its own, or start the process anew (spawn)";
}

ForkGuard::ForkGuard() {
  // Where it cannot be registered, for want of memory, children are not told apart.
  static const int registered =
      ::pthread_atfork(nullptr, nullptr, [] { forks_.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(registered);
  generation_ = forks_.load(std::memory_order_relaxed);
}

}  // namespace spindrift
