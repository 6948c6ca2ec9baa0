#pragma once
// The clock of providers that move real bytes.
#include <ctime>

#include "spindrift/types.h"

namespace spindrift {

inline Time monotonic_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return Time(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

}  // namespace spindrift
