#include "bench/peers/harness.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include <sys/resource.h>

namespace spindrift::peers {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<std::pair<const char*, Operation>, 5> kNames{
    {{"all_reduce", Operation::kAllReduce},
     {"all_gather", Operation::kAllGather},
     {"reduce_scatter", Operation::kReduceScatter},
     {"broadcast", Operation::kBroadcast},
     {"all_to_all", Operation::kAllToAll}}};
// Of one size, whatever the time.
constexpr std::uint64_t kFewestCalls = 3;
constexpr std::uint64_t kMostCalls = 100'000;

[[noreturn]] void refuse(const char* program) {
  std::fprintf(stderr,
               "%s: all_reduce|all_gather|reduce_scatter|broadcast|all_to_all SECONDS BYTES...\n",
               program);
  std::exit(2);
}

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double seconds_between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

double seconds_since(Clock::time_point start) {
  return seconds_between(start, Clock::now());
}

struct Took {
  double seconds = 0;
  double longest_seconds = 0;  // of one call; zero where each rank has a processor of its own
};

// Calls are timed one by one only where ranks wait for a processor: elsewhere the clock would cost
// what the smallest of them do.
Took run(const std::function<void()>& call, std::uint64_t calls, bool times_each) {
  Took took;
  const Clock::time_point start = Clock::now();
  Clock::time_point before = start;
  for (std::uint64_t i = 0; i < calls; ++i) {
    call();
    if (!times_each) continue;
    const Clock::time_point now = Clock::now();
    took.longest_seconds = std::max(took.longest_seconds, seconds_between(before, now));
    before = now;
  }
  took.seconds = seconds_since(start);
  return took;
}

}  // namespace

bool is_split(Operation operation) {
  return operation == Operation::kAllGather || operation == Operation::kReduceScatter ||
         operation == Operation::kAllToAll;
}

Request parse_arguments(int argc, char** argv) {
  Request request;
  if (argc < 4) refuse(argv[0]);
  const auto* const name = std::find_if(kNames.begin(), kNames.end(), [&](const auto& entry) {
    return std::strcmp(entry.first, argv[1]) == 0;
  });
  if (name == kNames.end()) refuse(argv[0]);
  request.operation = name->second;
  request.seconds = std::strtod(argv[2], nullptr);
  for (int i = 3; i < argc; ++i)
    request.sizes.push_back(std::strtoull(argv[i], nullptr, 10));
  if (request.seconds <= 0) refuse(argv[0]);
  return request;
}

void measure(const Request& request, const Peer& peer) {
  for (const std::uint64_t bytes : request.sizes) {
    const std::uint64_t parts = is_split(request.operation) ? peer.ranks : 1;
    const std::function<void()> call =
        peer.prepare(request.operation, std::max<std::uint64_t>(1, bytes / sizeof(float) / parts));
    // Connections, registrations and caches first, then a guess at how many calls fit.
    call();
    peer.barrier();
    const Took few = run(call, kFewestCalls, false);
    const double one = peer.largest(few.seconds / static_cast<double>(kFewestCalls));
    const auto fitting = static_cast<std::uint64_t>(request.seconds / std::max(one, 1e-9));
    const std::uint64_t calls = std::clamp(fitting, kFewestCalls, kMostCalls);
    peer.barrier();
    const double processor = processor_seconds();
    const Took took = run(call, calls, peer.ranks > std::thread::hardware_concurrency());
    const double used = processor_seconds() - processor;
    const double us_per_call = 1e6 / static_cast<double>(calls);
    std::printf(
        "{\"rank\": %u, \"bytes\": %llu, \"us\": %.4f, \"cpu_us\": %.4f, \"calls\": %llu, "
        "\"longest_us\": %.4f}\n",
        peer.rank, static_cast<unsigned long long>(bytes), took.seconds * us_per_call,
        used * us_per_call, static_cast<unsigned long long>(calls), took.longest_seconds * 1e6);
    std::fflush(stdout);
    peer.barrier();
  }
}

}  // namespace spindrift::peers
