#include "transport/base/flight_recorder.h"

#include <bit>

#include "transport/base/live_recorders.h"

namespace spindrift {

FlightRecorder::FlightRecorder(std::uint32_t events, std::uint32_t level)
    : memory_(Pages::map(events == 0 ? 0 : std::bit_ceil(events) * sizeof(TraceEvent)).value()),
      ring_(reinterpret_cast<TraceEvent*>(memory_.data()), memory_.size() / sizeof(TraceEvent)),
      mask_(ring_.empty() ? 0 : ring_.size() - 1),
      level_(ring_.empty() ? std::uint8_t{0} : static_cast<std::uint8_t>(level)) {
  if (level_ != 0) enlist(*this);
}

FlightRecorder::~FlightRecorder() {
  if (level_ != 0) strike_off(*this);
}

Trace FlightRecorder::snapshot() const {
  Trace out;
  out.overwritten = overwritten();
  out.events.reserve(recorded_ - out.overwritten);
  for (std::uint64_t i = out.overwritten; i < recorded_; ++i)
    out.events.push_back(at(i));
  return out;
}

}  // namespace spindrift
