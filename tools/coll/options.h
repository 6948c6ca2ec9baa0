#pragma once
// What the user of `spindrift coll` asked for.
#include <cstdint>
#include <optional>
#include <string>

#include "spindrift/collective.h"
#include "spindrift/plan.h"
#include "spindrift/tunables.h"

namespace spindrift::coll {

struct Options {
  // Who takes part. Without `rank` it is the launcher that says it (bootstrap.h), or, where there
  // is none, this process starts `ranks` local processes.
  std::uint32_t ranks = 0;
  std::optional<std::uint32_t> rank;
  std::string rendezvous;          // as JobOptions has it
  bool has_outside_store = false;  // another process serves it, also for rank 0
  std::string address;             // to listen on; empty: by the way to the rendezvous
  std::string provider = "auto";   // GroupOptions::provider

  // What is measured, as in nccl-tests.
  Collective collective = Collective::kAllReduce;
  std::uint32_t root = 0;
  std::uint64_t min_bytes = 32ULL << 20;
  std::uint64_t max_bytes = 32ULL << 20;
  std::uint64_t step_bytes = 1ULL << 20;
  std::uint32_t step_factor = 0;  // 0: steps of step_bytes
  std::uint32_t iterations = 20;
  std::uint32_t warmup = 1;
  bool has_check = true;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::string workload;  // file or name; empty: sizes
  std::uint32_t bucket_mib = 25;
  double backward_ms = 0;  // over which the gradients of a workload become ready
  bool is_json = false;

  // How it is done.
  std::string algorithm;  // CommunicatorOptions::algorithm
  bool is_deterministic = false;
  bool is_explaining = false;
  bool shows_plan = false;
  std::string plan_file;    // SVG; empty: text
  PlanTopology topology{};  // of --explain and --show-plan
  bool is_tuning = false;   // measures the costs of algorithms instead

  // The transport under it.
  ConnectOptions connection{};
  std::string faults;
  std::string trace;    // file; empty: none
  Settings settings{};  // what the options above do not say
  std::uint32_t slice_bytes = CommunicatorOptions{}.slice_bytes;
  double timeout_s = 30;
};

}  // namespace spindrift::coll
