// shm_limit: what two processes of one host can do with shared memory and process_vm_readv, with
// nothing above them: the yardstick of tools/bench_shm.py.
//
//   copy      the parent reads messages from the child's memory, each into a place of its own
//   ring      64-byte messages through a ring of 128-byte slots, published one by one or in batches
//   ping      64 bytes there and back: copied in, a flag, copied out
#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "providers/monotonic_clock.h"
#include "providers/shm/shm_copy.h"

namespace spindrift::limit {
namespace {

struct Options {
  std::string what = "copy";
  std::uint64_t message_bytes = 1U << 20U;
  std::uint32_t places = 16;  // copy: messages that each side has room for
  std::uint32_t batch = 1;    // ring: messages published at once
  double seconds = 1;
  int first_cpu = 0;
  int second_cpu = 1;
};

void bind_to(int cpu) {
  if (cpu < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(cpu), &set);
  static_cast<void>(sched_setaffinity(0, sizeof(set), &set));
}

std::byte* shared(std::size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE,
                  -1, 0);
  if (at == MAP_FAILED) std::exit(1);
  return static_cast<std::byte*>(at);
}

// A child that runs `body` on the second processor until it is killed.
template <class Body>
pid_t start_child(const Options& options, Body body) {
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  bind_to(options.second_cpu);
  body();
  _exit(0);
}

void end_child(pid_t child) {
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

// The best and the mean of the intervals of 10 ms.
struct Meter {
  explicit Meter(double seconds)
      : start(monotonic_now()),
        end(start + Duration(static_cast<std::int64_t>(seconds * 1e9))),
        mark(start) {}
  // Called with what was done since the last call; false: it is over.
  bool add(double amount) {
    total += amount;
    here += amount;
    const Time now = monotonic_now();
    if (now - mark >= std::chrono::milliseconds(10)) {
      best = std::max(best, here / to_seconds(now - mark));
      here = 0;
      mark = now;
    }
    last = now;
    return now < end;
  }
  static double to_seconds(Duration duration) {
    return static_cast<double>(duration.count()) / 1e9;
  }
  double mean() const { return total / to_seconds(last - start); }
  Time start;
  Time end;
  Time mark;
  Time last{};
  double total = 0;
  double here = 0;
  double best = 0;
};

nlohmann::json copy(const Options& options) {
  const std::size_t bytes = options.message_bytes * options.places;
  std::vector<std::byte> source(bytes, std::byte{1});
  std::vector<std::byte> target(bytes, std::byte{2});
  const pid_t child = start_child(options, [&source] {
    std::fill(source.begin(), source.end(), std::byte{3});  // its own pages
    for (;;)
      pause();
  });
  usleep(100000);
  Meter meter(options.seconds);
  std::uint32_t place = 0;
  do {
    const std::size_t offset = options.message_bytes * place;
    const Sge into{.data = target.data() + offset,
                   .bytes = static_cast<std::uint32_t>(options.message_bytes)};
    const RemoteSpan from{.address = reinterpret_cast<std::uintptr_t>(source.data() + offset),
                          .bytes = into.bytes};
    if (read_process(child, {&from, 1}, {&into, 1}) != 0) {
      end_child(child);
      return {{"error", "the kernel does not let this process read its child"}};
    }
    place = (place + 1) % options.places;
  } while (meter.add(static_cast<double>(options.message_bytes)));
  end_child(child);
  return {{"gb_per_s", meter.mean() / 1e9}, {"best_gb_per_s", meter.best / 1e9}};
}

constexpr std::size_t kSlots = 512;
struct alignas(128) Slot {
  std::atomic<std::uint64_t> number;
  std::byte payload[64];
};
struct Ring {
  Slot slots[kSlots];
  alignas(128) std::atomic<std::uint64_t> taken;
  alignas(128) std::atomic<std::uint64_t> published;
};

// Published by a number in each slot, or by one count for a batch.
void produce(Ring& ring, std::uint32_t batch) {
  std::byte message[64] = {};
  std::uint64_t seen = 0;
  for (std::uint64_t next = 0;; ++next) {
    while (next - seen >= kSlots)
      seen = ring.taken.load(std::memory_order_acquire);
    Slot& slot = ring.slots[next % kSlots];
    std::memcpy(slot.payload, message, sizeof(message));
    if (batch == 1)
      slot.number.store(next + 1, std::memory_order_release);
    else if ((next + 1) % batch == 0)
      ring.published.store(next + 1, std::memory_order_release);
    message[0] = static_cast<std::byte>(next);
  }
}

nlohmann::json messages(const Options& options) {
  auto& ring = *reinterpret_cast<Ring*>(shared(sizeof(Ring)));
  const pid_t child = start_child(options, [&] { produce(ring, options.batch); });
  std::byte target[64];
  std::uint64_t next = 0;
  std::uint64_t published = 0;
  Meter meter(options.seconds);
  constexpr std::uint64_t kAtOnce = 4096;
  do {
    for (std::uint64_t i = 0; i < kAtOnce; ++i, ++next) {
      Slot& slot = ring.slots[next % kSlots];
      if (options.batch == 1) {
        while (slot.number.load(std::memory_order_acquire) != next + 1) {
        }
      } else {
        while (published <= next)
          published = ring.published.load(std::memory_order_acquire);
      }
      std::memcpy(target, slot.payload, sizeof(target));
      asm volatile("" : : "r"(target) : "memory");
      if (next % 64 == 63) ring.taken.store(next + 1, std::memory_order_release);
    }
  } while (meter.add(kAtOnce));
  end_child(child);
  return {{"messages_per_s", meter.mean()}, {"best_messages_per_s", meter.best}};
}

struct alignas(128) Mail {
  std::atomic<std::uint64_t> flag;
  alignas(64) std::byte payload[64];
};

void send_mail(Mail& mail, const std::byte* message, std::uint64_t number) {
  std::memcpy(mail.payload, message, 64);
  mail.flag.store(number, std::memory_order_release);
}
void take_mail(const Mail& mail, std::byte* message, std::uint64_t number) {
  while (mail.flag.load(std::memory_order_acquire) != number) {
  }
  std::memcpy(message, mail.payload, 64);
  asm volatile("" : : "r"(message) : "memory");
}

nlohmann::json ping(const Options& options) {
  auto* boxes = reinterpret_cast<Mail*>(shared(2 * sizeof(Mail)));
  const pid_t child = start_child(options, [boxes] {
    std::byte message[64] = {};
    for (std::uint64_t number = 1;; ++number) {
      take_mail(boxes[0], message, number);
      send_mail(boxes[1], message, number);
    }
  });
  std::byte message[64] = {};
  std::vector<std::int64_t> trips;
  trips.reserve(1U << 22U);
  Meter meter(options.seconds);
  std::uint64_t number = 1;
  do {
    for (int i = 0; i < 256; ++i, ++number) {
      const Time posted = monotonic_now();
      send_mail(boxes[0], message, number);
      take_mail(boxes[1], message, number);
      if (trips.size() < trips.capacity()) trips.push_back((monotonic_now() - posted).count());
    }
  } while (meter.add(256));
  end_child(child);
  std::nth_element(trips.begin(), trips.begin() + static_cast<std::ptrdiff_t>(trips.size() / 2),
                   trips.end());
  return {{"round_trip_ns", trips[trips.size() / 2]}};
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("What two processes can do with shared memory, and nothing above it", "shm_limit");
  app.add_option("what", options.what, "copy, ring or ping")
      ->check(CLI::IsMember({"copy", "ring", "ping"}));
  app.add_option("-s,--size", options.message_bytes, "copy: bytes of a message (1048576)")
      ->check(CLI::Range(1ULL, 1ULL << 30U));
  app.add_option("--places", options.places, "copy: messages each side has room for (16)")
      ->check(CLI::Range(1, 4096));
  app.add_option("--batch", options.batch, "ring: messages published at once (1)")
      ->check(CLI::Range(1, 256));
  app.add_option("-D,--duration", options.seconds, "seconds (1)")->check(CLI::Range(0.01, 600.0));
  app.add_option("--first-cpu", options.first_cpu, "processor of the parent; -1: any (0)");
  app.add_option("--second-cpu", options.second_cpu, "processor of the child; -1: any (1)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  bind_to(options.first_cpu);
  const nlohmann::json result = options.what == "copy"   ? copy(options)
                                : options.what == "ring" ? messages(options)
                                                         : ping(options);
  std::printf("%s\n", result.dump().c_str());
  return result.contains("error") ? 1 : 0;
}

}  // namespace
}  // namespace spindrift::limit

int main(int argc, char** argv) {
  return spindrift::limit::run(argc, argv);
}
