#pragma once
// What `spindrift perf` was asked to do, after every argument was checked.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "spindrift/tunables.h"

#include "tools/perf/messages.h"
#include "tools/perf/plan.h"

namespace spindrift::perf {

enum class Mode { kServer, kClient, kLocal };

struct PerfOptions {
  Mode mode = Mode::kClient;
  std::string server_address;  // of the client; "udp://10.0.0.1:4793"
  std::string listen_address = "udp://0.0.0.0:4793";
  bool serves_once = false;
  int ready_fd = -1;  // the server writes its address there and is silent otherwise

  TestShape shape{};
  bool has_bandwidth = true;
  bool has_latency = false;
  std::uint64_t iterations = 0;  // zero: by duration (bandwidth), kDefaultLatencyIterations
  Duration duration{};           // zero: default
  std::optional<std::uint64_t> warmup{};
  std::uint32_t post_batch = 32;

  TransportChoice transport{};
  std::vector<std::string> rails{};
  std::string device{};  // of the client, where its provider names devices; "dpdk://..."
  std::string faults;
  bool has_corruption = false;  // among the faults: every connection has CRC
  std::string capture;
  std::string trace;  // file; empty: none
  bool has_guardian = false;
  Settings settings{};  // what the options above do not say

  bool has_json = false;
  std::optional<double> min_mb_per_s{};
  std::optional<double> max_latency_us{};
};

inline constexpr std::uint64_t kDefaultLatencyIterations = 1000;

// The run of one size, defaults filled in.
RunRequest make_run(const PerfOptions& options, std::uint64_t message_bytes, bool is_latency);

}  // namespace spindrift::perf
