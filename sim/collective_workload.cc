// Collectives as flows that wait for each other: a host sends on what it has received, the moment
// it has all of it. Reduction itself takes no time.
#include <algorithm>
#include <optional>

#include "sim/workload.h"

namespace spindrift::sim {
namespace {

constexpr std::uint32_t kNone = 0xffffffff;

// Bytes of part `index` of `parts` nearly equal ones; never 0.
std::uint64_t part_bytes(std::uint64_t bytes, std::uint32_t parts, std::uint32_t index) {
  return std::max<std::uint64_t>(1, bytes / parts + (index < bytes % parts ? 1 : 0));
}

// 2(n-1) steps: in step s host i sends part (i - s) mod n to its neighbour, which it received in
// the step before. `before[i]` (kNone: nothing) must be delivered before host i begins. Returns
// each host's last reception.
std::vector<std::uint32_t> append_ring(FlowPlans& flows, std::uint64_t bytes, std::uint32_t hosts,
                                       const std::vector<std::uint32_t>& before, Picoseconds gap) {
  std::vector<std::uint32_t> received = before;
  for (std::uint32_t step = 0; step < 2 * (hosts - 1); ++step) {
    std::vector<std::uint32_t> next(hosts, kNone);
    for (std::uint32_t host = 0; host < hosts; ++host) {
      const std::uint32_t part = (host + 2 * hosts - step % hosts) % hosts;
      const auto index = static_cast<std::uint32_t>(flows.size());
      const std::uint32_t neighbour = (host + 1) % hosts;
      flows.push_back({.source = host,
                       .destination = neighbour,
                       .bytes = part_bytes(bytes, hosts, part),
                       .start = step == 0 ? gap : 0});
      if (received[host] != kNone) make_wait_for_delivery(flows, index, received[host]);
      next[neighbour] = index;
    }
    received = next;
  }
  return received;
}

}  // namespace

FlowPlans ring_all_reduce(const WorkloadSpec& spec, std::uint32_t hosts) {
  FlowPlans flows;
  append_ring(flows, spec.bytes, hosts, std::vector<std::uint32_t>(hosts, kNone), 0);
  return flows;
}

//  Host i's parent is (i - 1) / 2. Chunk by chunk: up when both children's have come, down when the
//  parent's has.
FlowPlans tree_all_reduce(const WorkloadSpec& spec, std::uint32_t hosts) {
  FlowPlans flows;
  const auto chunks = static_cast<std::uint32_t>(
      std::max<std::uint64_t>(1, (spec.bytes + spec.chunk_bytes - 1) / spec.chunk_bytes));
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    const std::uint64_t bytes = part_bytes(spec.bytes, chunks, chunk);
    std::vector<std::uint32_t> up(hosts, kNone);
    for (std::uint32_t host = hosts - 1; host > 0; --host) {
      up[host] = static_cast<std::uint32_t>(flows.size());
      flows.push_back({.source = host, .destination = (host - 1) / 2, .bytes = bytes});
      for (const std::uint32_t child : {2 * host + 1, 2 * host + 2})
        if (child < hosts) make_wait_for_delivery(flows, up[host], up[child]);
    }
    std::vector<std::uint32_t> down(hosts, kNone);
    for (std::uint32_t host = 1; host < hosts; ++host) {
      const std::uint32_t parent = (host - 1) / 2;
      down[host] = static_cast<std::uint32_t>(flows.size());
      flows.push_back({.source = parent, .destination = host, .bytes = bytes});
      if (parent != 0) {
        make_wait_for_delivery(flows, down[host], down[parent]);
        continue;
      }
      for (const std::uint32_t child : {1U, 2U})
        if (child < hosts) make_wait_for_delivery(flows, down[host], up[child]);
    }
  }
  return flows;
}

// Each step computes, then reduces its buckets one behind the other, as gradients become ready from
// the last layer on. A step begins on a host when its last bucket has arrived there.
FlowPlans training_step(const WorkloadSpec& spec, std::uint32_t hosts) {
  FlowPlans flows;
  std::vector<std::uint32_t> done(hosts, kNone);
  for (std::uint32_t step = 0; step < spec.repeats; ++step)
    for (std::uint32_t bucket = 0; bucket < spec.buckets; ++bucket)
      done = append_ring(flows, spec.bytes, hosts, done, bucket == 0 ? spec.compute_gap : 0);
  return flows;
}

}  // namespace spindrift::sim
