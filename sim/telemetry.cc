#include "sim/telemetry.h"

namespace spindrift::sim {

void TelemetryMemory::keep(const TelemetryKey& key, const TelemetryStack& met) {
  if (places_.empty()) return;
  const std::uint64_t name = packed(key);
  places_[place_of(name)] = {.key = name, .met = met};
}

const TelemetryStack* TelemetryMemory::find(const TelemetryKey& key) const {
  if (places_.empty()) return nullptr;
  const std::uint64_t name = packed(key);
  const Place& place = places_[place_of(name)];
  return place.key == name && place.met.count != 0 ? &place.met : nullptr;
}

}  // namespace spindrift::sim
