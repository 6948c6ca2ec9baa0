// spindrift_explore: the scenarios of the explorer, as deep as one has patience for.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>

#include "tests/explore/explorer.h"

namespace spindrift::test {
namespace {

constexpr const char* kUsage =
    "Usage: spindrift_explore [--scenario NAME] [--replays N] [--actions 'LIST']\n"
    "\n"
    "Tries all interleavings of events between two engines and prints the shortest list of "
    "actions\n"
    "that breaks a rule.\n"
    "  --scenario NAME  only this one (default: all)\n"
    "  --replays N      how far, 1..1000000000 (default 200000); about 10000 a second\n"
    "  --actions LIST   repeat these actions of one scenario instead\n";

struct Arguments {
  std::string scenario;
  std::string actions;
  std::uint64_t replays = 200000;
  bool has_actions = false;
};

int wrong(const std::string& sentence) {
  std::fprintf(stderr, "spindrift_explore: %s\n%s\nScenarios:\n", sentence.c_str(), kUsage);
  for (const Scenario& scenario : all_scenarios())
    std::fprintf(stderr, "  %-14s %s\n", std::string(scenario.name).c_str(),
                 std::string(scenario.about).c_str());
  return 2;
}

int run_one(const Scenario& scenario, std::uint64_t replays) {
  const Exploration found = explore(scenario, replays);
  const std::string name(scenario.name);
  std::printf("%-14s %9llu states, %9llu replays, depth %zu%s\n", name.c_str(),
              static_cast<unsigned long long>(found.states),
              static_cast<unsigned long long>(found.replays), found.depth,
              found.is_complete ? ", complete" : "");
  std::fflush(stdout);
  if (found.failure.empty()) return 0;
  std::printf("FAILED: %s\nrepeat: spindrift_explore --scenario %s --actions '%s'\n",
              found.failure.c_str(), name.c_str(), to_string(found.actions).c_str());
  return 1;
}

int repeat_actions(const Arguments& arguments) {
  const Scenario* scenario = find_scenario(arguments.scenario);
  if (scenario == nullptr) return wrong("--actions needs the --scenario they belong to");
  std::vector<Action> actions;
  if (!parse_actions(arguments.actions, actions))
    return wrong("'" + arguments.actions + "' is no list of actions");
  const std::string failure = replay(*scenario, actions);
  std::printf("%s\n", failure.empty() ? "every rule held" : ("FAILED: " + failure).c_str());
  return failure.empty() ? 0 : 1;
}

int run(const Arguments& arguments) {
  if (arguments.has_actions) return repeat_actions(arguments);
  if (!arguments.scenario.empty()) {
    const Scenario* scenario = find_scenario(arguments.scenario);
    if (scenario == nullptr) return wrong("there is no scenario '" + arguments.scenario + "'");
    return run_one(*scenario, arguments.replays);
  }
  int status = 0;
  for (const Scenario& scenario : all_scenarios())
    status = std::max(status, run_one(scenario, arguments.replays));
  return status;
}

int parse_and_run(int count, char** words) {
  Arguments arguments;
  for (int i = 1; i < count; i += 2) {
    const std::string name = words[i];
    if (name == "--help") {
      std::fputs(kUsage, stdout);
      return 0;
    }
    if (i + 1 == count) return wrong("'" + name + "' needs a value, or is unknown");
    const std::string value = words[i + 1];
    if (name == "--scenario") {
      arguments.scenario = value;
    } else if (name == "--actions") {
      arguments.actions = value;
      arguments.has_actions = true;
    } else if (name == "--replays") {
      const auto parsed =
          std::from_chars(value.data(), value.data() + value.size(), arguments.replays);
      if (parsed.ec != std::errc{} || parsed.ptr != value.data() + value.size() ||
          arguments.replays < 1 || arguments.replays > 1000000000)
        return wrong("--replays is '" + value + "'; it must be 1..1000000000");
    } else {
      return wrong("there is no option '" + name + "'");
    }
  }
  return run(arguments);
}

}  // namespace
}  // namespace spindrift::test

int main(int count, char** words) {
  return spindrift::test::parse_and_run(count, words);
}
