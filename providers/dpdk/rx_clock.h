#pragma once
// When a card says that a packet arrived: a number of its own clock in a field of the packet, and
// how that clock relates to ours. Internal to providers/dpdk.
#include <algorithm>
#include <cstdint>
#include <optional>

#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>

#include "spindrift/types.h"

namespace spindrift {

// Where drivers put it; DPDK says so when the field is registered.
struct RxTimestampField {
  int offset = -1;  // negative: there is none
  std::uint64_t flag = 0;

  bool exists() const { return offset >= 0; }
  std::optional<std::uint64_t> ticks_of(const rte_mbuf& frame) const {
    if (!exists() || (frame.ol_flags & flag) == 0) return std::nullopt;
    return *RTE_MBUF_DYNFIELD(&frame, offset, const rte_mbuf_timestamp_t*);
  }
};

class RxClock {
 public:
  // Both clocks at one moment; to be told every few milliseconds.
  void tell(std::uint64_t ticks, Time now);
  // The same, of the clock of a port. Ports without one say nothing.
  void tell_of_port(std::uint16_t port, Time now);
  bool is_known() const { return ns_per_tick_ > 0; }
  // `now` bounds it: no packet arrives after it was seen, or long before.
  Time arrival(std::uint64_t ticks, Time now) const;

 private:
  struct Moment {
    std::uint64_t ticks = 0;
    Time time{};
  };
  std::optional<Moment> first_{};  // that the rate is measured from
  Moment middle_{};                // that it will be measured from next
  Moment last_{};
  double ns_per_tick_ = 0;
};

}  // namespace spindrift
