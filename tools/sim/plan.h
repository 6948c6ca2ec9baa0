#pragma once
// Which runs a command asks for: the scenario as it is, or the product of what is swept, each with
// one seed or several.
#include <string>
#include <string_view>
#include <vector>

#include "tools/sim/scenario_file.h"

namespace spindrift::simtool {

struct Axis {
  std::string key;
  std::vector<std::string> values;
};
// "key=a,b,c"; values that hold commas themselves are separated by '|' instead.
Result<Axis> parse_axis(std::string_view text);

struct PlannedRun {
  ScenarioFile file;
  std::size_t point = 0;  // runs of one point differ in their seed only
  bool is_one_of_several_seeds = false;
  // What is swept, with this run's values, in the order of the axes: "incast fan-in 8".
  std::vector<std::pair<std::string, std::string>> varied{};
  std::string label() const;  // "transport.congestion_control = nscc"; the title without axes
};

// `repeats` seeds from the scenario's on. Every run is checked; errors name the point.
Result<std::vector<PlannedRun>> plan_runs(const ScenarioFile& file, const std::vector<Axis>& axes,
                                          std::uint64_t repeats);

inline constexpr std::size_t kMaxRuns = 100'000;

}  // namespace spindrift::simtool
