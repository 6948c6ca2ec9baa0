#pragma once
// One seed: a safety phase with faults, in which whatever happens must be right, and a liveness
// phase without, in which everything must end. All of it in virtual time.
#include <cstdint>
#include <string>
#include <string_view>

namespace spindrift::soak {

// Defects put in on purpose, to see that they are found.
enum class Plant : std::uint8_t { kNone, kCorruptOneByte, kLoseCompletion, kRepeatCompletion };
std::string_view to_string(Plant plant);
bool parse_plant(std::string_view text, Plant& out);

struct Outcome {
  std::string failure{};  // empty: every rule held
  std::string plan{};     // what the seed stands for
  std::uint64_t operations = 0;
  std::uint64_t connections = 0;
  std::uint64_t restarts = 0;
  std::uint64_t faults = 0;  // packets lost, repeated, reordered, damaged
};
Outcome run_seed(std::uint64_t seed, Plant plant = Plant::kNone);

}  // namespace spindrift::soak
