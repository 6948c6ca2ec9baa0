#include "transport/guardian.h"

namespace spindrift {

Error used_in_child() {
  return Error(ErrorCode::kUnavailable, ForkGuard::sentence("endpoint"));
}

PostResult refuse_post_in_child(std::string& last_error) {
  last_error = used_in_child().message();
  return {.accepted = 0, .status = PostStatus::kNotConnected};
}

Status Guardian::start(const std::vector<int>& fds) {
  has_descriptors_ = !fds.empty();
  // Nobody can sleep where there is nothing to wait for: simulations have thousands of endpoints.
  if (!has_descriptors_ && !is_wanted_) return ok_status();
  Status watched = caller_waiter_.watch(fds);
  if (!watched.ok() || !is_wanted_) return watched;
  Status guarded = waiter_.watch(fds);
  if (!guarded.ok()) return guarded;
  thread_ = std::thread([this] { run(); });
  return ok_status();
}

void Guardian::watch(const std::vector<int>& fds) {
  has_descriptors_ = !fds.empty();
  if (!has_descriptors_ && !is_wanted_) return;
  // Descriptors that cannot be watched would only make a sleeper late, never wrong.
  static_cast<void>(caller_waiter_.watch(fds).ok());
  if (is_wanted_) static_cast<void>(waiter_.watch(fds).ok());
}

void Guardian::stop() {
  if (!thread_.joinable()) return;
  if (is_in_child()) {  // where there is no such thread to wait for
    static_cast<void>(new std::thread(std::move(thread_)));
    return;
  }
  is_stopping_ = true;
  waiter_.wake();
  thread_.join();
}

bool Guardian::arm() {
  caller_waiter_.drain();
  const Time now = loop_.clock();
  const Time deadline = loop_.next_work();
  if (loop_.has_news() || deadline <= now || !loop_.begin_sleep()) return false;
  caller_waiter_.set_deadline(deadline, now);
  is_caller_armed_ = true;
  return true;
}

void Guardian::sleep(Duration timeout) {
  caller_waiter_.sleep(timeout);
  is_caller_armed_ = false;
}

bool Guardian::caller_was_here() const {
  const Time last{Duration(last_call_ns_.load(std::memory_order_relaxed))};
  return loop_.clock() - last < takeover_;
}

// While the caller polls, this thread only looks at a clock once per takeover time; when the caller
// has gone to compute, it sleeps on the provider and the next deadline and makes the turns.
void Guardian::run() {
  while (!is_stopping_) {
    waiter_.drain();
    if (caller_was_here()) {
      std::this_thread::sleep_for(takeover_);
      continue;
    }
    if (!lock_.try_lock()) {
      std::this_thread::yield();
      continue;
    }
    loop_.guarded_turn();
    ++turns_;
    const bool news = loop_.has_news();
    const Time now = loop_.clock();
    const Time next = loop_.next_work();
    waiter_.set_deadline(next > now && !loop_.begin_sleep() ? now : next, now);
    is_asleep_ = true;
    lock_.unlock();
    if (news) caller_waiter_.wake();
    waiter_.sleep(Duration(-1));
    is_asleep_ = false;
    // A sleeping caller wakes on the same packets: it gets its chance first.
    if (is_caller_armed_ && !is_stopping_) std::this_thread::sleep_for(takeover_);
  }
}

}  // namespace spindrift
