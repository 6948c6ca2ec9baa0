#pragma once
// The command line of `spindrift perf`: what CLI11 parses, and the checks that turn it into
// PerfOptions.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "spindrift/registry.h"
#include "spindrift/result.h"

#include "tools/perf/options.h"

namespace spindrift::perf {

// Values as typed; the optional ones are empty where the option was not given.
struct PerfArguments {
  std::string target;
  std::optional<std::string> listen{};
  bool serves_once = false;
  int ready_fd = -1;

  std::optional<std::string> operation{};
  std::optional<std::string> test{};
  std::optional<std::string> size{};
  bool has_all_sizes = false;
  bool is_bidirectional = false;
  std::optional<std::uint32_t> depth{};
  std::optional<std::uint32_t> post_batch{};
  std::optional<std::uint32_t> connections{};
  std::optional<std::string> duration{};
  std::optional<std::int64_t> iterations{};
  std::optional<std::int64_t> warmup{};
  bool has_verify = false;

  std::optional<std::string> congestion_control{};
  std::optional<std::string> path_selector{};
  std::optional<std::string> loss_rule{};
  std::optional<std::uint32_t> paths{};
  std::optional<std::string> burst{};
  std::optional<std::string> mtu{};
  std::optional<std::string> crc{};
  std::optional<std::uint32_t> dscp{};
  std::optional<std::string> deadline{};
  std::optional<std::string> faults{};
  std::optional<std::string> capture{};
  std::optional<std::string> trace{};
  std::optional<std::string> rails{};
  std::optional<std::string> device{};
  bool has_guardian = false;

  bool has_json = false;
  std::optional<double> min_mb_per_s{};
  std::optional<double> max_latency_us{};
};

void declare_arguments(CLI::App& app, PerfArguments* arguments);
// What the arguments do not say comes from `settings`.
Result<PerfOptions> check_arguments(const PerfArguments& arguments, const Registry& registry,
                                    const Settings& settings = {});

}  // namespace spindrift::perf
