#pragma once
// Every key of a scenario: its name, what it may be, what it means and which field it is. Scenario
// files, the command line, the JSON Schema and the help all read this one table.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "spindrift/result.h"

#include "sim/scenario.h"

namespace spindrift::simtool {

enum class KeyType : std::uint8_t {
  kCount,   // a whole number
  kBytes,   // "2 MiB"
  kTime,    // "1.5 us"
  kRate,    // "100 Gb/s"
  kNumber,  // "0.5", "50 %"
  kFlag,    // true, false
  kChoice,  // one of `choices`
  kText,
};

// The field of a scenario that a key names.
using Field =
    std::variant<std::uint32_t*, std::uint64_t*, sim::Picoseconds*, double*, bool*, std::string*,
                 sim::Marking*, sim::BufferKind*, sim::Engine*, sim::FaultSpec::Kind*>;

struct Key {
  std::string_view name;  // "topology.hosts"; of a fault, "at"
  KeyType type = KeyType::kCount;
  // Bounds of numbers, in the key's unit: bytes, picoseconds, bits per second.
  double lowest = 0;
  double highest = 0;
  std::string_view help;
  std::vector<std::string_view> choices{};
};
struct ScenarioKey : Key {
  Field (*field)(sim::Scenario& scenario) = nullptr;
};
struct FaultKey : Key {
  Field (*field)(sim::FaultSpec& fault) = nullptr;
};

std::span<const ScenarioKey> scenario_keys();
std::span<const FaultKey> fault_keys();

// "topology.hosts" or, for the first fault, "faults[0].at"; faults up to that one are added. The
// error is a sentence without the key's name in front; a name that nobody knows comes with the
// nearest one that exists.
[[nodiscard]] Status set_key(sim::Scenario& scenario, std::string_view name,
                             std::string_view value);
// As set_key() reads it again. The name must exist.
std::string get_key(const sim::Scenario& scenario, std::string_view name);
bool is_key(std::string_view name);

// "a whole number, 2..65536".
std::string describe_values(const Key& key);
// Names of all keys of this scenario, those of its faults included.
std::vector<std::string> key_names(const sim::Scenario& scenario);

}  // namespace spindrift::simtool
