#pragma once
// Scenario files: TOML, one table per part of the scenario, [[faults]] for what happens to links.
// docs/SIMULATOR.md explains them, docs/scenario.schema.json describes them for editors.
#include <map>
#include <string>
#include <string_view>

#include "spindrift/result.h"

#include "sim/scenario.h"

namespace spindrift::simtool {

struct ScenarioFile {
  std::string title{};        // key `title`, for tables and figures
  std::string description{};  // key `description`
  sim::Scenario scenario{};
  // Where a key was set: "incast.toml:12", or "--set". Keys that are not in here have defaults.
  std::map<std::string, std::string, std::less<>> origins{};
};

// `name` is what messages call the text. Files that the scenario names are looked for beside it
// when `folder` is not empty.
Result<ScenarioFile> parse_scenario(std::string_view text, std::string_view name,
                                    std::string_view folder);
// Every key that is not as by default, as a file that parse_scenario() reads.
std::string to_toml(const ScenarioFile& file);

// "key=value", as on the command line. `origin` is what messages call it.
[[nodiscard]] Status apply_override(ScenarioFile& file, std::string_view assignment,
                                    std::string_view origin);

// What is wrong with a scenario that was put together from several places, each complaint with its
// origin, a line each; ok when nothing is.
[[nodiscard]] Status check(const ScenarioFile& file);
std::string sentences(const ScenarioFile& file, const std::vector<sim::Complaint>& complaints);

}  // namespace spindrift::simtool
