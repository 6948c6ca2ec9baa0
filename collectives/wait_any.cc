#include "collectives/wait_any.h"

#include <algorithm>
#include <array>
#include <thread>

#include <poll.h>
#include <sched.h>

namespace spindrift::collectives {
namespace {

constexpr std::size_t kMost = 8;
// Longest sleep beside an endpoint that has no descriptor to wait for.
constexpr Duration kBlind = std::chrono::microseconds(200);

}  // namespace

void wait_for_any(const std::vector<Endpoint*>& endpoints, Duration timeout, int wake_fd) {
  std::array<pollfd, kMost> fds{};
  nfds_t count = 0;
  if (wake_fd >= 0) fds[count++] = {.fd = wake_fd, .events = POLLIN, .revents = 0};
  for (Endpoint* const endpoint : endpoints) {
    if (!endpoint->arm()) return;
    const int fd = endpoint->wait_fd();
    if (fd < 0) timeout = std::min(timeout, kBlind);
    if (fd >= 0 && count < kMost) fds[count++] = {.fd = fd, .events = POLLIN, .revents = 0};
    if (endpoint->next_deadline() != kNever) {
      timeout = std::min(timeout, endpoint->next_deadline() - endpoint->now());
    }
  }
  if (timeout <= Duration::zero()) return;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  const timespec time{.tv_sec = static_cast<time_t>(seconds.count()),
                      .tv_nsec = static_cast<long>((timeout - seconds).count())};
  (void)ppoll(fds.data(), count, &time, nullptr);
}

void give_way() {
  (void)::sched_yield();
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

unsigned usable_cores() {
  static const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  return cores;
}

}  // namespace spindrift::collectives
