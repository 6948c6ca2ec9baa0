#pragma once
// Who runs the loop of an endpoint, and how its caller and its guardian sleep. The guardian is a
// thread that takes over when the caller has gone to compute.
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "spindrift/config.h"
#include "spindrift/work.h"

#include "transport/base/fork_guard.h"
#include "transport/endpoint_waiter.h"

namespace spindrift {

// Held by whoever runs the loop. Free of cost when there is no guardian.
class LoopLock {
 public:
  explicit LoopLock(bool is_shared) : is_shared_(is_shared) {}
  void lock() {
    if (!is_shared_) return;
    // A thread that held it when this process was forked will never give it back.
    while (taken_.test_and_set(std::memory_order_acquire) && !fork_.is_in_child())
      std::this_thread::yield();
  }
  bool try_lock() { return !is_shared_ || !taken_.test_and_set(std::memory_order_acquire); }
  void unlock() {
    if (is_shared_) taken_.clear(std::memory_order_release);
  }

 private:
  const bool is_shared_;
  const ForkGuard fork_;
  std::atomic_flag taken_;
};

// What a child of the process that made the endpoint is told.
Error used_in_child();
PostResult refuse_post_in_child(std::string& last_error);

// What is kept going. All but clock() are called with the lock held.
class GuardedLoop {
 public:
  virtual ~GuardedLoop() = default;
  virtual Time clock() const = 0;
  virtual void guarded_turn() = 0;
  // There is something for the caller to take.
  virtual bool has_news() const = 0;
  // When a turn has something to do; now or earlier: at once.
  virtual Time next_work() const = 0;
  // Before somebody sleeps on the descriptors; false: there is something already.
  virtual bool begin_sleep() { return true; }
};

class Guardian {
 public:
  Guardian(GuardedLoop& loop, LoopLock& lock, const EndpointConfig& config)
      : loop_(loop),
        lock_(lock),
        takeover_(config.guardian_takeover),
        is_wanted_(config.has_guardian) {}
  ~Guardian() { stop(); }
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  // `fds`: the provider's. Starts the thread where one is wanted.
  Status start(const std::vector<int>& fds);
  // The provider's descriptors have changed.
  void watch(const std::vector<int>& fds);
  void stop();

  // With the lock, at the caller's turns.
  void caller_is_here() {
    if (is_wanted_)
      last_call_ns_.store(loop_.clock().time_since_epoch().count(), std::memory_order_relaxed);
  }
  // The caller changed something; it may not call progress() soon.
  void wake() {
    if (is_wanted_ && is_asleep_.exchange(false)) waiter_.wake();
  }

  // The caller's sleep. -1 where there is nothing to sleep on.
  int caller_fd() const { return has_descriptors_ ? caller_waiter_.fd() : -1; }
  // With the lock: false when there is something to do already.
  bool arm();
  // Without the lock, after arm().
  void sleep(Duration timeout);
  bool has_descriptors() const { return has_descriptors_; }
  // This process is a child of the one that made the endpoint: it has neither the thread nor a
  // right to the descriptors.
  bool is_in_child() const { return fork_.is_in_child(); }
  // Turns the guardian made.
  std::uint64_t turns() const { return turns_; }

 private:
  bool caller_was_here() const;
  void run();

  const ForkGuard fork_;
  GuardedLoop& loop_;
  LoopLock& lock_;
  const Duration takeover_;
  const bool is_wanted_;
  bool has_descriptors_ = false;
  EndpointWaiter caller_waiter_;
  EndpointWaiter waiter_;
  std::uint64_t turns_ = 0;  // under the lock
  std::atomic<std::int64_t> last_call_ns_{0};
  std::atomic<bool> is_caller_armed_{false};  // it sleeps on caller_fd()
  std::atomic<bool> is_asleep_{false};        // until a descriptor or the deadline it knew of
  std::atomic<bool> is_stopping_{false};
  std::thread thread_;
};

}  // namespace spindrift
