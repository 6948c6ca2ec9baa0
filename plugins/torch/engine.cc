#include "plugins/torch/engine.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <iterator>

#include <absl/strings/str_format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "spindrift/open.h"

#include "transport/base/random.h"

namespace spindrift::torch_plugin {
namespace {

// Between two looks at deadlines.
constexpr Duration kLongestSleep = std::chrono::milliseconds(20);
constexpr Duration kForever = std::chrono::hours(1);

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
  is_stopping_.store(true, std::memory_order_release);
  (void)::eventfd_write(wake_fd_, 1);
  thread_.join();
  ::close(wake_fd_);
}

void Engine::submit(std::unique_ptr<Task> task) {
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
  if (!failure_ && !active_.empty()) communicator_->abort(destroyed.message());
  fail_all(failure_.value_or(destroyed));
  communicator_.reset();
  endpoint_.reset();
}

Status Engine::connect() {
  OpenOptions open;
  open.endpoint.has_guardian = true;
  open.endpoint.max_connections = 2 * options_.ranks + 8;
  const std::string scheme = options_.address.substr(0, options_.address.find("://") + 3);
  Result<std::unique_ptr<Endpoint>> endpoint = open_endpoint(scheme, open);
  if (!endpoint.ok()) return endpoint.error();
  endpoint_ = std::move(endpoint).value();
  CommunicatorOptions options;
  options.rank = options_.rank;
  options.ranks = options_.ranks;
  options.address = options_.address;
  // Between processes of one host every endpoint listens under a name of its own.
  if (scheme == options.address) options.address += absl::StrFormat("torch-%016x", random_u64());
  options.name = options_.name;
  options.setup_timeout =
      std::clamp<Duration>(options_.timeout, std::chrono::milliseconds(1), std::chrono::hours(1));
  options.spin = options_.spin;
  // Every task has a deadline of its own.
  options.stall_timeout = kForever;
  InterruptibleStore store(store_, is_stopping_);
  Result<std::unique_ptr<Communicator>> created = Communicator::create(*endpoint_, store, options);
  if (!created.ok()) return created.error();
  communicator_ = std::move(created).value();
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
    if (Status status = communicator_->progress(); !status.ok()) {
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
  const Result<WorkId> work = communicator_->start(task->call);
  if (work.ok()) {
    active_.push_back({.task = std::move(task), .work = work.value(), .deadline = deadline});
  } else {
    task->done(Error(work.error().code(), task->name + ": " + work.error().message()));
  }
}

void Engine::finish_done() {
  for (auto at = active_.begin(); at != active_.end();) {
    if (!communicator_->is_done(at->work)) {
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
  communicator_->abort(reason);
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
  const bool has_endpoint = endpoint_ != nullptr && !failure_;
  if (has_endpoint && !endpoint_->arm()) return;
  Duration limit = kLongestSleep;
  if (has_endpoint)
    limit = std::min<Duration>(limit, endpoint_->next_deadline() - endpoint_->now());
  if (limit <= Duration::zero()) return;
  std::array<pollfd, 2> entries{
      {{.fd = wake_fd_, .events = POLLIN, .revents = 0},
       {.fd = has_endpoint ? endpoint_->wait_fd() : -1, .events = POLLIN, .revents = 0}}};
  const timespec timeout{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(limit).count()};
  (void)::ppoll(entries.data(), entries.size(), &timeout, nullptr);
  eventfd_t value = 0;
  (void)::eventfd_read(wake_fd_, &value);
}

}  // namespace spindrift::torch_plugin
