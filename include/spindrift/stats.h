#pragma once
// State and counters by name, without allocation.
#include <cstdint>
#include <string_view>

namespace spindrift {

// Receives numbers by name. Names are stable, lower_case, units last ("window_bytes").
class StateWriter {
 public:
  virtual ~StateWriter() = default;
  virtual void field(std::string_view name, double value) = 0;
};

class CounterWriter {
 public:
  virtual ~CounterWriter() = default;
  virtual void counter(std::string_view name, std::uint64_t value) = 0;
};

}  // namespace spindrift
