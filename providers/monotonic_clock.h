#pragma once
// The clock of providers that move real bytes: CLOCK_MONOTONIC, or what follows it.
#include <ctime>

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

#include "spindrift/types.h"

#include "providers/tick_clock.h"

namespace spindrift {

struct ProcessorTicks {
  static std::int64_t nanoseconds() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  }
#if defined(__x86_64__)
  static std::uint64_t ticks() {
    // The processor reads the counter ahead of earlier loads otherwise, by a microsecond and more.
    _mm_lfence();
    return __rdtsc();
  }
  // It counts at one rate in all states of all processors ("invariant TSC").
  static bool has_steady_ticks() {
    constexpr unsigned kPowerManagement = 0x80000007;
    constexpr unsigned kInvariant = 1U << 8U;
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    return __get_cpuid(kPowerManagement, &eax, &ebx, &ecx, &edx) != 0 && (edx & kInvariant) != 0;
  }
#else
  static std::uint64_t ticks() {
    return 0;
  }
  static bool has_steady_ticks() {
    return false;
  }
#endif
};

// One for all threads: what one of them reads is never before what another has read.
inline constinit TickClock<ProcessorTicks> process_clock;

inline Time monotonic_now() {
  return Time(Duration(process_clock.now()));
}

}  // namespace spindrift
