#include "sim/workload.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "sim/collective_data.h"
#include "sim/flow_files.h"
#include "sim/natural_log.h"
#include "sim/size_distribution.h"
#include "transport/base/rng.h"

namespace spindrift::sim {
namespace {

using Complaints = std::vector<Complaint>;

constexpr std::uint64_t kMaxFlowBytes = 1ULL << 40;

Complaint complain(std::string_view key, std::uint64_t value, std::string limit) {
  return {.key = absl::StrCat("workload.", std::string(key)),
          .value = absl::StrCat(value),
          .limit = std::move(limit)};
}

void need_bytes(const WorkloadSpec& spec, Complaints& out) {
  if (spec.bytes < 1 || spec.bytes > kMaxFlowBytes)
    out.push_back(complain("bytes", spec.bytes, "must be 1..2^40"));
}

void need_host(std::string_view key, std::uint32_t host, const WorkloadWorld& world,
               Complaints& out) {
  if (host >= world.hosts)
    out.push_back(
        complain(key, host, absl::StrCat("there is no such host: they are 0..", world.hosts - 1)));
}

FlowPlan flow(std::uint32_t source, std::uint32_t destination, std::uint64_t bytes) {
  return {.source = source, .destination = destination, .bytes = bytes};
}

// Which hosts send is drawn by lot.
FlowPlans incast(const WorkloadSpec& spec, const WorkloadWorld& world, Rng& rng) {
  std::vector<std::uint32_t> others;
  for (std::uint32_t i = 0; i < world.hosts; ++i)
    if (i != spec.destination) others.push_back(i);
  FlowPlans out;
  for (std::uint32_t i = 0; i < spec.fan_in; ++i) {
    std::swap(others[i], others[i + rng.below(others.size() - i)]);
    out.push_back(flow(others[i], spec.destination, spec.bytes));
    out.back().start = static_cast<Picoseconds>(i) * spec.stagger;
  }
  return out;
}

// One cycle through all hosts (Sattolo): nobody sends to itself.
FlowPlans permutation(const WorkloadSpec& spec, const WorkloadWorld& world, Rng& rng) {
  std::vector<std::uint32_t> to(world.hosts);
  std::iota(to.begin(), to.end(), 0U);
  for (std::size_t i = to.size() - 1; i > 0; --i)
    std::swap(to[i], to[rng.below(i)]);
  FlowPlans out;
  for (std::uint32_t i = 0; i < world.hosts; ++i)
    out.push_back(flow(i, to[i], spec.bytes));
  return out;
}

FlowPlans all_to_all(const WorkloadSpec& spec, const WorkloadWorld& world) {
  FlowPlans out;
  for (std::uint32_t host = 0; host < world.hosts; ++host)
    for (std::uint32_t step = 1; step < world.hosts; ++step) {
      const auto index = static_cast<std::uint32_t>(out.size());
      out.push_back(flow(host, (host + step) % world.hosts, spec.bytes));
      if (step > spec.window) make_wait(out, index, index - spec.window);
    }
  return out;
}

// Poisson arrivals; every pair is as likely as any other.
FlowPlans random_pairs(const WorkloadSpec& spec, const WorkloadWorld& world,
                       const SizeDistribution& sizes, Rng& rng) {
  const double bits_per_second =
      spec.load * static_cast<double>(world.host_rate_bps) * static_cast<double>(world.hosts);
  const double mean_gap_ps = sizes.mean_bytes() * 8 / bits_per_second * 1e12;
  double at = 0;
  FlowPlans out;
  for (std::uint32_t i = 0; i < spec.flows; ++i) {
    const double uniform = (static_cast<double>(rng.next() >> 11) + 0.5) * 0x1.0p-53;
    at -= natural_log(uniform) * mean_gap_ps;
    const auto source = static_cast<std::uint32_t>(rng.below(world.hosts));
    const auto step = static_cast<std::uint32_t>(1 + rng.below(world.hosts - 1));
    FlowPlan one = flow(source, (source + step) % world.hosts, sizes.draw(rng));
    one.start = static_cast<Picoseconds>(at);
    out.push_back(one);
  }
  return out;
}

Complaints check(const WorkloadSpec& spec, const WorkloadWorld& world) {
  Complaints out;
  const bool has_bytes = spec.name != "random_pairs";
  if (has_bytes) need_bytes(spec, out);
  if (spec.name == "one_flow") {
    need_host("source", spec.source, world, out);
    need_host("destination", spec.destination, world, out);
    if (spec.source == spec.destination)
      out.push_back(complain("destination", spec.destination, "must differ from the source"));
  } else if (spec.name == "incast") {
    need_host("destination", spec.destination, world, out);
    if (spec.fan_in < 1 || spec.fan_in >= world.hosts)
      out.push_back(complain("fan_in", spec.fan_in,
                             absl::StrCat("must be 1..", world.hosts - 1, ", the other hosts")));
    if (spec.stagger < 0 || spec.stagger > kSecond)
      out.push_back({.key = "workload.stagger",
                     .value = absl::StrCat(spec.stagger),
                     .limit = "must be 0..1 s"});
  } else if (spec.name == "all_to_all") {
    if (spec.window < 1) out.push_back(complain("window", spec.window, "must be at least 1"));
  } else if (spec.name == "random_pairs") {
    if (spec.flows < 1 || spec.flows > 10'000'000)
      out.push_back(complain("flows", spec.flows, "must be 1..10000000"));
    if (!(spec.load > 0 && spec.load <= 2))
      out.push_back({.key = "workload.load",
                     .value = absl::StrCat(spec.load),
                     .limit = "must be above 0 and at most 2"});
  } else if (spec.name == "tree_all_reduce") {
    if (spec.chunk_bytes < 1)
      out.push_back(complain("chunk_bytes", spec.chunk_bytes, "must be at least 1"));
  } else if (spec.name == "collective") {
    if (spec.repeats < 1) out.push_back(complain("repeats", spec.repeats, "must be at least 1"));
    if (world.hosts < 2 || world.hosts > kMaxRanks)
      out.push_back({.key = "topology.hosts",
                     .value = absl::StrCat(world.hosts),
                     .limit = absl::StrCat("must be 2..", kMaxRanks, ", a rank on each")});
    if (!collective_of(spec.operation))
      out.push_back({.key = "workload.operation",
                     .value = spec.operation,
                     .limit = "must be all_reduce, reduce_scatter, all_gather, broadcast, reduce, "
                              "all_to_all, gather, scatter or barrier"});
    if (spec.algorithm.empty())
      out.push_back({.key = "workload.algorithm",
                     .value = "\"\"",
                     .limit = "must be named: what the layer chooses by itself depends on this "
                              "machine's cost model"});
  } else if (spec.name == "training_step") {
    if (spec.repeats < 1) out.push_back(complain("repeats", spec.repeats, "must be at least 1"));
    if (spec.buckets < 1) out.push_back(complain("buckets", spec.buckets, "must be at least 1"));
    if (spec.compute_gap < 0)
      out.push_back({.key = "workload.compute_gap",
                     .value = absl::StrCat(spec.compute_gap),
                     .limit = "must not be negative"});
  }
  return out;
}

}  // namespace

std::variant<FlowPlans, Complaints> plan_workload(const WorkloadSpec& spec,
                                                  const WorkloadWorld& world, std::uint64_t seed) {
  Rng rng(seed);
  if (spec.name == "flow_list") return read_flow_list(spec.file, world.hosts);
  if (spec.name == "matrix") return read_matrix(spec.file, world.hosts);
  Complaints out = check(spec, world);
  if (!out.empty()) return out;
  if (spec.name == "one_flow") return FlowPlans{flow(spec.source, spec.destination, spec.bytes)};
  if (spec.name == "incast") return incast(spec, world, rng);
  if (spec.name == "permutation") return permutation(spec, world, rng);
  if (spec.name == "all_to_all") return all_to_all(spec, world);
  if (spec.name == "ring_all_reduce") return ring_all_reduce(spec, world.hosts);
  if (spec.name == "tree_all_reduce") return tree_all_reduce(spec, world.hosts);
  if (spec.name == "training_step") return training_step(spec, world.hosts);
  if (spec.name == "collective") return collective_calls(spec, world.hosts);
  if (spec.name == "random_pairs") {
    auto sizes = find_size_distribution(spec.sizes);
    if (!sizes.ok())
      return Complaints{
          {.key = "workload.sizes", .value = spec.sizes, .limit = sizes.error().message()}};
    return random_pairs(spec, world, sizes.value(), rng);
  }
  return Complaints{
      {.key = "workload.name",
       .value = spec.name,
       .limit = "must be one_flow, incast, permutation, all_to_all, random_pairs, "
                "ring_all_reduce, tree_all_reduce, training_step, collective, flow_list or "
                "matrix"}};
}

}  // namespace spindrift::sim
