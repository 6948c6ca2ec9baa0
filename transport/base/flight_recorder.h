#pragma once
// A ring of trace events: the newest overwrite the oldest. One thread writes.
#include <cstdint>
#include <span>

#include "spindrift/trace.h"

#include "transport/base/pages.h"

namespace spindrift {

class FlightRecorder {
 public:
  // Rounded up to a power of two; zero events record nothing. `level` is 0..kMaxTraceLevel.
  FlightRecorder(std::uint32_t events, std::uint32_t level);
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;
  ~FlightRecorder();

  bool wants(TraceKind kind) const { return level_of(kind) <= level_; }
  std::uint8_t level() const { return level_; }
  // Of the events recorded from now on.
  void set_time(Time now) { now_ = now; }
  // Only when it wants() the kind. The time is filled in here.
  void record(TraceEvent event) {
    event.at = now_;
    ring_[recorded_ & mask_] = event;
    ++recorded_;
  }

  std::uint64_t recorded() const { return recorded_; }
  std::uint64_t overwritten() const {
    return recorded_ > ring_.size() ? recorded_ - ring_.size() : 0;
  }
  // `index` is overwritten()..recorded() - 1; the oldest first.
  const TraceEvent& at(std::uint64_t index) const { return ring_[index & mask_]; }
  Trace snapshot() const;

 private:
  Pages memory_;
  std::span<TraceEvent> ring_;
  std::uint64_t mask_;
  std::uint64_t recorded_ = 0;
  Time now_{};
  std::uint8_t level_;
};

}  // namespace spindrift
