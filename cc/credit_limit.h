#pragma once
// How many bytes a receiver-driven flow may ever have sent (uet.md B.3): a first window on
// speculation, and from its first news on what it has sent until then plus what it was granted.
#include <algorithm>
#include <cstdint>

#include "spindrift/congestion_control.h"

#include "cc/filters.h"

namespace spindrift {

class CreditLimit {
 public:
  explicit CreditLimit(double speculative_bytes)
      : speculative_bytes_(static_cast<std::uint64_t>(bounded(speculative_bytes))),
        is_speculating_(speculative_bytes_ != 0) {}

  void on_ack(const AckEvent& event) { account(event.acked_bytes, event.in_flight_bytes); }
  void on_loss(const LossEvent& event) { account(event.lost_bytes, event.in_flight_bytes); }
  void on_grant(const CreditGranted& grant) {
    granted_bytes_ = std::max(granted_bytes_, std::min(grant.credit_bytes, kMost));
  }

  std::uint64_t bytes() const {
    return is_speculating_ ? speculative_bytes_ : spent_bytes_ + granted_bytes_;
  }
  void describe(StateWriter& out) const {
    out.field("credit_limit_bytes", static_cast<double>(bytes()));
    out.field("granted_bytes", static_cast<double>(granted_bytes_));
    out.field("speculated_bytes", static_cast<double>(spent_bytes_));
    out.field("is_speculating", is_speculating_ ? 1 : 0);
  }

 private:
  static constexpr std::uint64_t kMost = 1ULL << 60;

  // The first event about data shows all that was sent before it: gone, lost or still under way.
  // What is left of the speculative window is forfeit.
  void account(std::uint64_t gone, std::uint64_t in_flight) {
    if (!is_speculating_ || (gone == 0 && in_flight == 0)) return;
    is_speculating_ = false;
    spent_bytes_ = std::min(std::min(gone, kMost) + std::min(in_flight, kMost), kMost);
  }

  std::uint64_t speculative_bytes_;
  std::uint64_t granted_bytes_ = 0;
  std::uint64_t spent_bytes_ = 0;
  bool is_speculating_;
};

}  // namespace spindrift
