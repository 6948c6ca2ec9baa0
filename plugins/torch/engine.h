#pragma once
// A communicator and the thread that drives it, for callers that only queue work. Knows nothing of
// PyTorch.
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "spindrift/open.h"

#include "transport/base/fork_guard.h"

namespace spindrift::torch_plugin {

// Everything the call points to lives until `done` was called.
struct Task {
  std::string name;  // for errors: "all_reduce"
  CollectiveCall call{};
  Duration timeout{};  // from queueing to the end
  // Exactly once, on the engine's thread, with no lock held; then the task is deleted.
  std::function<void(const Status& status)> done;

  Task() = default;
  virtual ~Task() = default;  // tasks that bring memory derive from this
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
};

struct EngineOptions {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::string name;                                            // of the communicator in the store
  std::string address;                                         // to listen on: "udp://127.0.0.1:0"
  Duration timeout{};                                          // for the others to appear
  Duration spin{};                                             // how long it polls before it sleeps
  std::function<void(const std::string& sentence)> on_note{};  // CommunicatorOptions::on_note
};

// Monotonic.
Time clock_now();

class Engine final {
 public:
  // Connects on its own thread, so this returns at once. `store` must outlive the engine.
  Engine(Store& store, EngineOptions options);
  ~Engine();  // tasks that are not through end with an error
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // From any thread.
  void submit(std::unique_ptr<Task> task);

 private:
  struct Active {
    std::unique_ptr<Task> task;
    WorkId work{};
    Time deadline{};
  };
  void run();
  Status connect();
  void serve();
  void take_queued();
  void begin(std::unique_ptr<Task> task, Time deadline);
  void finish_done();
  void check_deadlines();
  void fail_all(const Error& error);
  void sleep();
  bool is_stopping() const { return is_stopping_.load(std::memory_order_acquire); }

  Store& store_;
  const EngineOptions options_;
  const ForkGuard guard_;
  int wake_fd_ = -1;
  std::atomic<bool> is_stopping_{false};
  std::mutex mutex_;
  std::deque<Active> queued_;  // guarded by mutex_; not begun
  // Of the thread alone.
  OpenedGroup group_;
  std::deque<Active> active_;
  std::optional<Error> failure_;
  Time last_movement_{};
  std::thread thread_;
};

}  // namespace spindrift::torch_plugin
