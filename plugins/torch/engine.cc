#include "plugins/torch/engine.h"

#include <algorithm>
#include <ctime>
#include <iterator>

#include <absl/strings/str_format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "spindrift/tunables.h"

namespace spindrift::torch_plugin {
namespace {

// Between two looks at deadlines.
constexpr Duration kLongestSleep = std::chrono::milliseconds(20);
constexpr Duration kForever = std::chrono::hours(30 * 24);

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// Waits in short pieces, so that a process that leaves does not wait for ranks that never come.
class InterruptibleStore final : public Store {
 public:
  InterruptibleStore(Store& store, const std::atomic<bool>& is_stopping)
      : store_(store), is_stopping_(is_stopping) {}
  Status set(std::string_view key, std::string_view value) override {
    return store_.set(key, value);
  }
  Result<std::string> get(std::string_view key, Duration timeout) override {
    const Time deadline = clock_now() + timeout;
    while (true) {
      const Duration left = deadline - clock_now();
      Result<std::string> value = store_.get(key, std::min(left, kLongestSleep));
      if (value.ok() || value.error().code() != ErrorCode::kTimedOut) return value;
      if (left <= kLongestSleep) return value;
      if (is_stopping_.load(std::memory_order_acquire)) {
        return Error(ErrorCode::kUnavailable, "the process group was destroyed");
      }
    }
  }
  Result<std::int64_t> add(std::string_view key, std::int64_t amount) override {
    return store_.add(key, amount);
  }

 private:
  Store& store_;
  const std::atomic<bool>& is_stopping_;
};

}  // namespace

Time clock_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return Time(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

Engine::Engine(Store& store, EngineOptions options)
    : store_(store),
      options_(std::move(options)),
      wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { run(); }) {}

Engine::~Engine() {
  if (guard_.is_in_child()) {
    thread_.detach();  // it is the parent's alone
    return;
  }
  is_stopping_.store(true, std::memory_order_release);
  (void)::eventfd_write(wake_fd_, 1);
  thread_.join();
  ::close(wake_fd_);
}

void Engine::submit(std::unique_ptr<Task> task) {
  if (guard_.is_in_child()) {
    task->done(Error(ErrorCode::kUnavailable, ForkGuard::sentence("communicator")));
    return;
  }
  const Time deadline = clock_now() + task->timeout;
  {
    const std::lock_guard lock(mutex_);
    queued_.push_back({.task = std::move(task), .work = {}, .deadline = deadline});
  }
  (void)::eventfd_write(wake_fd_, 1);
}

void Engine::run() {
  if (Status status = connect(); !status.ok()) failure_ = status.error();
  serve();
  const Error destroyed(ErrorCode::kUnavailable, "the process group was destroyed");
  // What is under way points into memory that its owner may free after `done`.
  if (!failure_ && !active_.empty()) group_.communicator->abort(destroyed.message());
  fail_all(failure_.value_or(destroyed));
  group_ = {};
}

Status Engine::connect() {
  const Result<Settings> settings = load_settings();
  if (!settings.ok()) return settings.error();
  GroupOptions wanted;
  wanted.open.endpoint = settings.value().endpoint;
  wanted.open.udp = settings.value().udp;
  wanted.open.shm = settings.value().shm;
  wanted.open.endpoint.has_guardian = true;
  wanted.open.endpoint.max_connections = 2 * options_.ranks + 8;
  CommunicatorOptions& group = wanted.communicator;
  group.rank = options_.rank;
  group.ranks = options_.ranks;
  group.address = options_.address;
  group.name = options_.name;
  group.connection = settings.value().connect;
  group.setup_timeout =
      std::clamp<Duration>(options_.timeout, std::chrono::milliseconds(1), std::chrono::hours(1));
  // Every task has a deadline of its own.
  group.stall_timeout = kForever;
  group.on_note = options_.on_note;
  InterruptibleStore store(store_, is_stopping_);
  Result<OpenedGroup> opened = open_group(store, wanted);
  if (!opened.ok()) return opened.error();
  group_ = std::move(opened).value();
  return ok_status();
}

void Engine::serve() {
  last_movement_ = clock_now();
  while (!is_stopping()) {
    take_queued();
    if (failure_) {
      fail_all(*failure_);
      sleep();
      continue;
    }
    // Also when nothing is under way: others may make connections, or report a failure.
    if (Status status = group_.communicator->progress(); !status.ok()) {
      failure_ = status.error();
      continue;
    }
    finish_done();
    check_deadlines();
    if (active_.empty() || clock_now() - last_movement_ > options_.spin) sleep();
  }
}

void Engine::take_queued() {
  while (true) {
    Active next;
    {
      const std::lock_guard lock(mutex_);
      if (queued_.empty()) return;
      if (!failure_ && active_.size() >= Communicator::kMaxInFlight) return;
      next = std::move(queued_.front());
      queued_.pop_front();
    }
    last_movement_ = clock_now();
    if (failure_) {
      next.task->done(*failure_);
    } else {
      begin(std::move(next.task), next.deadline);
    }
  }
}

void Engine::begin(std::unique_ptr<Task> task, Time deadline) {
  const Result<WorkId> work = group_.communicator->start(task->call);
  if (work.ok()) {
    active_.push_back({.task = std::move(task), .work = work.value(), .deadline = deadline});
  } else {
    task->done(Error(work.error().code(), task->name + ": " + work.error().message()));
  }
}

void Engine::finish_done() {
  for (auto at = active_.begin(); at != active_.end();) {
    if (!group_.communicator->is_done(at->work)) {
      ++at;
      continue;
    }
    const std::unique_ptr<Task> task = std::move(at->task);
    at = active_.erase(at);
    last_movement_ = clock_now();
    task->done(ok_status());
  }
}

void Engine::check_deadlines() {
  if (active_.empty() || clock_now() < active_.front().deadline) return;
  const Task& late = *active_.front().task;
  const std::string reason = absl::StrFormat(
      "%s did not end within its timeout of %.1f s at rank %d of %d; a rank is "
      "slow, stuck, or called something else",
      late.name, seconds(late.timeout), options_.rank, options_.ranks);
  group_.communicator->abort(reason);
  failure_ = Error(ErrorCode::kTimedOut, reason);
}

void Engine::fail_all(const Error& error) {
  std::deque<Active> ended = std::move(active_);
  active_.clear();
  {
    const std::lock_guard lock(mutex_);
    std::move(queued_.begin(), queued_.end(), std::back_inserter(ended));
    queued_.clear();
  }
  for (const Active& one : ended)
    one.task->done(error);
}

void Engine::sleep() {
  if (group_.communicator != nullptr && !failure_) {
    group_.communicator->sleep(kLongestSleep, wake_fd_);
  } else {
    pollfd entry{.fd = wake_fd_, .events = POLLIN, .revents = 0};
    (void)::poll(&entry, 1, static_cast<int>(kLongestSleep / std::chrono::milliseconds(1)));
  }
  eventfd_t value = 0;
  (void)::eventfd_read(wake_fd_, &value);
}

}  // namespace spindrift::torch_plugin
