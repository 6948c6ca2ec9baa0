// spindrift_soak: seed after seed until the time is up or one fails.
#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/soak/soak_run.h"

namespace spindrift::soak {
namespace {

using Clock = std::chrono::system_clock;

constexpr const char* kUsage =
    "Usage: spindrift_soak [--seconds N | --minutes N | --seeds N | --seed N] [--first N] [--jobs "
    "N]\n"
    "\n"
    "Runs the transport in virtual time under random options, work and faults, and checks every\n"
    "completion and every byte. Prints the command that repeats a failure and exits with 1.\n"
    "  --seconds N   how long, 1..1000000 (default: SPINDRIFT_SOAK_SECONDS, else 60)\n"
    "  --minutes N   the same in minutes\n"
    "  --seeds N     so many seeds instead\n"
    "  --seed N      only this seed\n"
    "  --first N     the first seed (default: from the time of day)\n"
    "  --jobs N      threads, 1..256 (default 1)\n";

struct Arguments {
  std::uint64_t seconds = 60;
  std::optional<std::uint64_t> seeds{};
  std::optional<std::uint64_t> first{};
  std::uint64_t jobs = 1;
  Plant plant = Plant::kNone;
};

std::atomic<bool> is_interrupted{false};
void on_interrupt(int) {
  is_interrupted = true;
}

struct Totals {
  std::uint64_t seeds = 0;
  std::uint64_t operations = 0;
  std::uint64_t connections = 0;
  std::uint64_t restarts = 0;
  std::uint64_t faults = 0;
  void add(const Outcome& one) {
    ++seeds;
    operations += one.operations;
    connections += one.connections;
    restarts += one.restarts;
    faults += one.faults;
  }
  void print(Clock::duration time) const {
    const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
    std::printf(
        "%llu s: %llu seeds, %llu connections, %llu operations, %llu restarts, %llu faults\n",
        number(static_cast<std::uint64_t>(
            std::chrono::duration_cast<std::chrono::seconds>(time).count())),
        number(seeds), number(connections), number(operations), number(restarts), number(faults));
    std::fflush(stdout);
  }
};

class Soak {
 public:
  explicit Soak(const Arguments& arguments)
      : arguments_(arguments),
        start_(Clock::now()),
        first_(arguments.first ? *arguments.first
                               : static_cast<std::uint64_t>(start_.time_since_epoch() /
                                                            std::chrono::milliseconds(1)) *
                                     1000),
        next_(first_) {}

  int run(const std::string& program) {
    program_ = program;
    std::printf("first seed %llu\n", static_cast<unsigned long long>(first_));
    std::fflush(stdout);
    std::vector<std::thread> threads;
    for (std::uint64_t i = 1; i < arguments_.jobs; ++i)
      threads.emplace_back([this] { work(); });
    work();
    for (std::thread& thread : threads)
      thread.join();
    totals_.print(Clock::now() - start_);
    return has_failed_ ? 1 : 0;
  }

 private:
  bool goes_on(std::uint64_t seed) const {
    if (is_interrupted || has_failed_) return false;
    if (arguments_.seeds) return seed - first_ < *arguments_.seeds;
    return Clock::now() - start_ < std::chrono::seconds(arguments_.seconds);
  }
  void work() {
    for (std::uint64_t seed = next_++; goes_on(seed); seed = next_++) {
      const Outcome outcome = run_seed(seed, arguments_.plant);
      const std::lock_guard guard(lock_);
      totals_.add(outcome);
      if (!outcome.failure.empty()) {
        report(seed, outcome);
        return;
      }
      const auto time = Clock::now() - start_;
      if (time - last_report_ < std::chrono::seconds(10)) continue;
      last_report_ = time;
      totals_.print(time);
    }
  }
  void report(std::uint64_t seed, const Outcome& outcome) {
    has_failed_ = true;
    std::printf("FAILED, seed %llu: %s\n  with %s\nrepeat: %s --seed %llu",
                static_cast<unsigned long long>(seed), outcome.failure.c_str(),
                outcome.plan.c_str(), program_.c_str(), static_cast<unsigned long long>(seed));
    if (arguments_.plant != Plant::kNone)
      std::printf(" --plant %s", std::string(to_string(arguments_.plant)).c_str());
    std::printf("\n");
    std::fflush(stdout);
  }

  const Arguments arguments_;
  std::string program_;
  const Clock::time_point start_;
  const std::uint64_t first_;
  std::atomic<std::uint64_t> next_;
  std::atomic<bool> has_failed_{false};
  std::mutex lock_;
  Totals totals_;
  Clock::duration last_report_{};
};

bool parse_number(const std::string& text, std::uint64_t highest, std::uint64_t& out) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), out);
  return parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size() && out <= highest;
}

// Empty, or what is wrong.
std::string set(Arguments& arguments, const std::string& name, const std::string& text) {
  if (name == "--plant") {  // for the tests of this program
    if (parse_plant(text, arguments.plant)) return "";
    return "--plant is '" + text +
           "'; it must be corrupt-one-byte, lose-completion or repeat-completion";
  }
  std::uint64_t value = 0;
  const bool is_seed = name == "--seed" || name == "--first";
  const std::uint64_t highest = is_seed ? UINT64_MAX : name == "--jobs" ? 256 : 1000000;
  if (!parse_number(text, highest, value) || (!is_seed && value == 0))
    return name + " is '" + text + "'; it must be a number, " +
           (is_seed ? "0 or more" : "1.." + std::to_string(highest));
  if (name == "--seconds") {
    arguments.seconds = value;
  } else if (name == "--minutes") {
    arguments.seconds = 60 * value;
  } else if (name == "--seeds") {
    arguments.seeds = value;
  } else if (name == "--jobs") {
    arguments.jobs = value;
  } else if (name == "--first") {
    arguments.first = value;
  } else if (name == "--seed") {
    arguments.first = value;
    arguments.seeds = 1;
  } else {
    return "there is no option '" + name + "'";
  }
  return "";
}

int wrong(const std::string& sentence) {
  std::fprintf(stderr, "spindrift_soak: %s\n%s", sentence.c_str(), kUsage);
  return 2;
}

int run(int count, char** words) {
  Arguments arguments;
  // Nobody changes the environment meanwhile.
  if (const char* seconds =
          std::getenv("SPINDRIFT_SOAK_SECONDS")) {  // NOLINT(concurrency-mt-unsafe)
    const std::string error = set(arguments, "--seconds", seconds);
    if (!error.empty()) return wrong("SPINDRIFT_SOAK_SECONDS: " + error);
  }
  for (int i = 1; i < count; i += 2) {
    const std::string name = words[i];
    if (name == "--help") {
      std::fputs(kUsage, stdout);
      return 0;
    }
    if (i + 1 == count) return wrong("'" + name + "' needs a value, or is unknown");
    const std::string error = set(arguments, name, words[i + 1]);
    if (!error.empty()) return wrong(error);
  }
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  return Soak(arguments).run(words[0]);
}

}  // namespace
}  // namespace spindrift::soak

int main(int count, char** words) {
  return spindrift::soak::run(count, words);
}
