// nccl_net_check: is this shared object a network plugin that NCCL can rely on? Prints what holds
// and what does not, version by version.
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "tools/nccl/cases.h"
#include "tools/nccl/measure.h"

namespace {

using namespace spindrift::nccl_check;  // NOLINT(google-build-using-namespace): a main file

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

struct Arguments {
  std::string plugin;
  std::vector<int> versions;
  std::vector<std::string> cases;
  std::vector<std::string> environment;
  std::vector<std::string> rank_environment;
  std::vector<std::string> namespaces;
  int ranks = 0;
  int seconds = 60;
  int stagger_ms = 0;
  bool lists = false;
  bool is_verbose = false;
  std::string measure;
  MeasureOptions measuring;
};

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const auto part :
       {loading_cases(), connection_cases(), transfer_cases(), pattern_cases(), trouble_cases()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

bool is_chosen(const Arguments& arguments, const Case& one) {
  if (arguments.cases.empty()) return true;
  for (const std::string& name : arguments.cases)
    if (name == one.name || name == one.group) return true;
  return false;
}

std::string seconds_of(const Outcome& outcome) {
  if (outcome.figures.empty() || outcome.figures[0] == 0) return "";
  char text[32];
  std::snprintf(text, sizeof(text), " (%.2f s)", outcome.figures[0]);
  return text;
}

int check_version(const Arguments& arguments, int version, int& held) {
  int failed = 0;
  std::string_view group;
  for (const Case& one : all_cases()) {
    if (!is_chosen(arguments, one)) continue;
    if (group != one.group) std::printf("%s\n", std::string(one.group).c_str());
    group = one.group;
    RunOptions options{.plugin = arguments.plugin,
                       .version = version,
                       .ranks = one.ranks > 1 && one.victim < 0 && arguments.ranks > 0
                                    ? arguments.ranks
                                    : one.ranks,
                       .environment = arguments.environment,
                       .rank_environment = arguments.rank_environment,
                       .namespaces = arguments.namespaces,
                       .stagger = std::chrono::milliseconds(arguments.stagger_ms),
                       .time_limit = std::chrono::seconds(arguments.seconds),
                       .is_log_shown = arguments.is_verbose,
                       .victim = one.victim};
    const Outcome outcome = run_ranks(options, one.run);
    const char* mark = "ok    ";
    if (outcome.kind == Outcome::Kind::kSkipped) mark = "-     ";
    if (outcome.kind == Outcome::Kind::kFailed) mark = "FAILED";
    std::printf("  %s %-20s %s%s\n", mark, std::string(one.name).c_str(),
                std::string(one.holds).c_str(), seconds_of(outcome).c_str());
    if (!outcome.words.empty()) std::printf("           %s\n", outcome.words.c_str());
    std::fflush(stdout);
    failed += outcome.kind == Outcome::Kind::kFailed ? 1 : 0;
    held += outcome.kind == Outcome::Kind::kHeld ? 1 : 0;
  }
  return failed;
}

int check(const Arguments& arguments) {
  int failed = 0;
  int held = 0;
  for (const int version : arguments.versions) {
    std::printf("ncclNetPlugin_v%d of %s\n", version, arguments.plugin.c_str());
    failed += check_version(arguments, version, held);
  }
  std::printf("%d hold, %d do not\n", held, failed);
  return failed == 0 && held > 0 ? 0 : kExitFailed;
}

void describe(CLI::App& app, Arguments& arguments) {
  app.add_option("--plugin", arguments.plugin, "the shared object: libnccl-net-NAME.so")
      ->check(CLI::ExistingFile);
  app.add_option("--versions", arguments.versions,
                 "of the interface, 6..12 (default: those it has)")
      ->delimiter(',')
      ->check(CLI::Range(kLowestVersion, kHighestVersion));
  app.add_option("--case", arguments.cases, "only these checks, or groups of them")->delimiter(',');
  app.add_option("--env", arguments.environment, "NAME=VALUE for the plugin, repeatable");
  app.add_option("--rank-env", arguments.rank_environment,
                 "RANK:NAME=VALUE for the plugin of one rank, repeatable");
  app.add_option("--namespaces", arguments.namespaces,
                 "network namespaces (ip netns) that the ranks run in, in turn")
      ->delimiter(',');
  app.add_option("--ranks", arguments.ranks, "processes of the checks that take several, 2..4")
      ->check(CLI::Range(2, kMaxRanks));
  app.add_option("--stagger", arguments.stagger_ms,
                 "ms between the starts of two ranks (0), for media that want an order")
      ->check(CLI::Range(0, 10000));
  app.add_option("--timeout", arguments.seconds, "seconds for one check (60)")
      ->check(CLI::Range(1, 3600));
  app.add_flag("--list", arguments.lists, "name the checks");
  app.add_flag("--verbose", arguments.is_verbose, "show what the plugin logs");
  app.add_option("--measure", arguments.measure,
                 "instead of checking: bandwidth, both (directions), latency or idle")
      ->check(CLI::IsMember({"bandwidth", "both", "latency", "idle"}));
  app.add_option("--seconds", arguments.measuring.seconds, "of a measurement (1)")
      ->check(CLI::Range(0.05, 60.0));
  app.add_option("--step", arguments.measuring.step_bytes, "bytes of a step of --measure bandwidth")
      ->check(CLI::Range(1, 4 << 20));
  app.add_flag("--merge", arguments.measuring.is_merged,
               "measure over one device merged of all there are");
  app.add_flag("--pin", arguments.measuring.is_pinned, "rank i runs on processor i");
  app.footer(
      "Exit code 0: all that was checked holds; 1: something does not; 2: the command makes no "
      "sense.\n"
      "The same interface in every version: --versions 8,11. Over the network alone, for "
      "Spindrift:\n"
      "  nccl_net_check --plugin libnccl-net-spindrift.so --env SPINDRIFT_NCCL_SHM=0");
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Check an NCCL network plugin without NCCL and without a GPU");
  describe(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  if (arguments.lists) {
    for (const Case& one : all_cases())
      std::printf("%-20s %s\n", std::string(one.name).c_str(), std::string(one.holds).c_str());
    return 0;
  }
  if (arguments.plugin.empty()) {
    std::fprintf(stderr, "nccl_net_check: --plugin is missing\n");
    return kExitUsage;
  }
  for (const std::string& name : arguments.cases) {
    bool is_known = false;
    for (const Case& one : all_cases())
      is_known = is_known || name == one.name || name == one.group;
    if (!is_known) {
      std::fprintf(stderr, "nccl_net_check: there is no check \"%s\"; --list names them\n",
                   name.c_str());
      return kExitUsage;
    }
  }
  try {
    if (arguments.versions.empty()) {
      const Library library(arguments.plugin);
      for (int version = kHighestVersion; version >= kLowestVersion; --version)
        if (library.net(version) != nullptr) arguments.versions.push_back(version);
    }
    if (arguments.versions.empty()) {
      std::printf("%s has no ncclNetPlugin_v6..v12\n", arguments.plugin.c_str());
      return kExitFailed;
    }
    if (arguments.measure.empty()) return check(arguments);
    arguments.measuring.what = arguments.measure;
    return measure({.plugin = arguments.plugin,
                    .version = arguments.versions.front(),
                    .environment = arguments.environment,
                    .rank_environment = arguments.rank_environment,
                    .namespaces = arguments.namespaces,
                    .is_log_shown = arguments.is_verbose},
                   arguments.measuring);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "nccl_net_check: %s\n", error.what());
    return kExitFailed;
  }
}
