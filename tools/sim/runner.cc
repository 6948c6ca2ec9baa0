#include "tools/sim/runner.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/exit_codes.h"

namespace spindrift::simtool {
namespace {

using Clock = std::chrono::steady_clock;

std::string clock_text(double seconds) {
  const auto whole = static_cast<long>(std::lround(seconds));
  if (whole < 60) return absl::StrFormat("%ld s", whole);
  if (whole < 3600) return absl::StrFormat("%ld:%02ld min", whole / 60, whole % 60);
  return absl::StrFormat("%ld:%02ld h", whole / 3600, whole / 60 % 60);
}

// One line that is written over, a few times a second.
class ProgressLine {
 public:
  ProgressLine(std::size_t runs, bool is_shown) : runs_(runs), is_shown_(is_shown) {
    shares_.resize(runs);
  }
  ~ProgressLine() {
    if (was_shown_) std::fputs("\r\033[K", stderr);
  }
  void update(std::size_t run, const sim::Progress& progress) {
    if (progress.flows_total != 0)
      set(run,
          static_cast<double>(progress.flows_done) / static_cast<double>(progress.flows_total));
  }
  void finish(std::size_t run) {
    set(run, 1);
    ++done_;
  }

 private:
  void set(std::size_t run, double share) {
    if (!is_shown_) return;
    const std::lock_guard guard(lock_);
    sum_ += share - shares_[run];
    shares_[run] = share;
    const Clock::time_point now = Clock::now();
    if (now - shown_ < std::chrono::milliseconds(200)) return;
    shown_ = now;
    show(std::chrono::duration<double>(now - start_).count());
  }
  void show(double seconds) {
    constexpr int kCells = 30;
    const double share = sum_ / static_cast<double>(runs_);
    const int filled = static_cast<int>(share * kCells);
    std::string bar(static_cast<std::size_t>(filled), '#');
    bar.resize(kCells, '.');
    const std::string left =
        share > 0.01 ? ", " + clock_text(seconds / share * (1 - share)) + " left" : "";
    absl::FPrintF(stderr, "\r\033[K[%s] %3.0f %%, %d of %d runs, %s%s", bar, share * 100,
                  done_.load(), runs_, clock_text(seconds), left);
    std::fflush(stderr);
    was_shown_ = true;
  }

  std::mutex lock_;
  std::size_t runs_;
  bool is_shown_;
  bool was_shown_ = false;
  std::atomic<std::size_t> done_ = 0;
  std::vector<double> shares_;
  double sum_ = 0;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_{};
};

class Pool {
 public:
  Pool(const std::vector<PlannedRun>& plans, const Registry& registry, const RunnerOptions& options)
      : plans_(plans),
        registry_(registry),
        options_(options),
        slots_(plans.size()),
        line_(plans.size(), options.shows_progress) {}

  RunnerOutcome run() {
    std::vector<std::thread> helpers;
    for (unsigned i = 1; i < options_.threads && i < plans_.size(); ++i)
      helpers.emplace_back([this] { work(); });
    work();
    for (std::thread& helper : helpers)
      helper.join();
    RunnerOutcome outcome;
    outcome.error = error_;
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      if (!slots_[i]) continue;
      outcome.finished.push_back({.plan = &plans_[i], .results = std::move(*slots_[i])});
    }
    outcome.is_interrupted =
        is_cut_short_ || (tools::was_interrupted() && outcome.finished.size() < plans_.size());
    return outcome;
  }

 private:
  void work() {
    while (!stops_ && !tools::was_interrupted()) {
      const std::size_t index = next_++;
      if (index >= plans_.size()) return;
      one(index);
    }
  }
  void one(std::size_t index) {
    const PlannedRun& plan = plans_[index];
    bool is_stopped = false;
    const auto goes_on = [&](const sim::Progress& progress) {
      line_.update(index, progress);
      is_stopped = stops_ || tools::was_interrupted();
      return !is_stopped;
    };
    auto outcome = sim::run(plan.file.scenario, registry_,
                            {.on_progress = goes_on,
                             .observer = options_.observer,
                             .take_seat = CommunicatorSeat::take});
    if (const auto* complaints = std::get_if<sim::RunError>(&outcome)) {
      const std::lock_guard guard(lock_);
      if (!error_) error_ = sentences(plan.file, *complaints);
      stops_ = true;
      return;
    }
    if (is_stopped && plans_.size() != 1) return;
    is_cut_short_ = is_stopped;
    sim::Results& results = *std::get_if<sim::Results>(&outcome);
    if (!options_.keeps_series) {
      results.flow_samples = {};
      results.port_samples = {};
      results.path_shares = {};
    }
    slots_[index] = std::move(results);
    line_.finish(index);
  }

  const std::vector<PlannedRun>& plans_;
  const Registry& registry_;
  const RunnerOptions options_;
  std::vector<std::optional<sim::Results>> slots_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<bool> stops_ = false;
  bool is_cut_short_ = false;  // the only run
  std::mutex lock_;
  std::optional<std::string> error_;
  ProgressLine line_;
};

}  // namespace

RunnerOutcome run_all(const std::vector<PlannedRun>& plans, const Registry& registry,
                      const RunnerOptions& options) {
  return Pool(plans, registry, options).run();
}

}  // namespace spindrift::simtool
