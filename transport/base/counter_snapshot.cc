#include "spindrift/counter_snapshot.h"

#include <algorithm>

namespace spindrift {

void CounterSnapshot::counter(std::string_view name, std::uint64_t value) {
  const auto at = std::find_if(entries_.begin(), entries_.end(),
                               [name](const Entry& entry) { return entry.first == name; });
  if (at != entries_.end())
    at->second += value;
  else
    entries_.emplace_back(name, value);
}

void CounterSnapshot::add(const CounterSnapshot& other) {
  for (const auto& [name, value] : other.entries_)
    counter(name, value);
}

CounterSnapshot CounterSnapshot::since(const CounterSnapshot& earlier) const {
  CounterSnapshot out = *this;
  for (auto& [name, value] : out.entries_)
    value -= std::min(value, earlier.value(name));
  return out;
}

std::uint64_t CounterSnapshot::value(std::string_view name) const {
  for (const auto& [known, value] : entries_)
    if (known == name) return value;
  return 0;
}

std::string CounterSnapshot::to_json() const {
  std::string out = "{";
  for (const auto& [name, value] : entries_) {
    if (out.size() > 1) out += ",";
    out += "\"" + name + "\":" + std::to_string(value);
  }
  return out + "}";
}

}  // namespace spindrift
