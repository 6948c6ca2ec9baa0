#pragma once
// How long this thread has computed. Others, of a sweep's other runs, do not count.
#include <ctime>

namespace spindrift::sim {

inline double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace spindrift::sim
