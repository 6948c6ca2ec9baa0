#pragma once
// For a few hundred nanoseconds, among threads that run. Internal to providers/dpdk.
#include <atomic>

namespace spindrift {

class SpinLock {
 public:
  bool try_lock() {
    return !is_held_.load(std::memory_order_relaxed) &&
           !is_held_.exchange(true, std::memory_order_acquire);
  }
  void lock() {
    while (!try_lock())
      __builtin_ia32_pause();
  }
  void unlock() { is_held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> is_held_{false};
};

}  // namespace spindrift
