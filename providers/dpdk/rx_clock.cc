// Experimental in DPDK 22.11, and unchanged since: rte_eth_read_clock.
#define ALLOW_EXPERIMENTAL_API
#include "providers/dpdk/rx_clock.h"

#include <rte_ethdev.h>

namespace spindrift {
namespace {

// Long enough for a rate, and short enough to follow a clock that is slewed.
constexpr Duration kShortest = std::chrono::milliseconds(20);
constexpr Duration kLongest = std::chrono::seconds(2);
// An older stamp is of another epoch of the clock, as after a reset.
constexpr Duration kOldest = std::chrono::seconds(1);

}  // namespace

void RxClock::tell(std::uint64_t ticks, Time now) {
  if (first_ && ticks < last_.ticks) first_.reset();  // it started anew
  last_ = {ticks, now};
  if (!first_) {
    first_ = middle_ = last_;
    ns_per_tick_ = 0;
    return;
  }
  const Duration span = now - first_->time;
  if (span < kShortest || ticks == first_->ticks) return;
  ns_per_tick_ = static_cast<double>(span.count()) / static_cast<double>(ticks - first_->ticks);
  if (now - middle_.time < kLongest) return;
  first_ = middle_;
  middle_ = last_;
}

void RxClock::tell_of_port(std::uint16_t port, Time now) {
  std::uint64_t ticks = 0;
  if (rte_eth_read_clock(port, &ticks) == 0) tell(ticks, now);
}

Time RxClock::arrival(std::uint64_t ticks, Time now) const {
  const auto distance = static_cast<double>(static_cast<std::int64_t>(ticks - last_.ticks));
  const Time time = last_.time + Duration(static_cast<std::int64_t>(distance * ns_per_tick_));
  return time < now - kOldest ? now : std::min(time, now);
}

}  // namespace spindrift
