#pragma once
// The memory that simulated hosts register. When payload is carried: a source with a pattern, and a
// place of its own for every flow. When it is only counted: one address range, of which every part
// is the same few pages, so that thousands of hosts cost nothing and stay in the cache.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "spindrift/result.h"

#include "sim/workload.h"

namespace spindrift::sim {

// A message of an endpoint; longer flows are several.
inline constexpr std::uint64_t kMessageBytes = 256ULL << 20;

class WorldMemory {
 public:
  WorldMemory() = default;
  ~WorldMemory();
  WorldMemory(const WorldMemory&) = delete;
  WorldMemory& operator=(const WorldMemory&) = delete;

  Status prepare(const FlowPlans& flows, std::uint32_t hosts, bool carries_payload,
                 std::uint64_t seed);
  // What a host registers to send from, and to receive into.
  std::span<std::byte> source() { return source_; }
  std::span<std::byte> sink(std::uint32_t host);
  // Where flow `flow` begins there.
  std::uint64_t source_offset(std::uint32_t flow) const;
  std::uint64_t sink_offset(std::uint32_t flow) const;
  // Whether all its bytes are in place.
  bool is_intact(std::uint32_t flow) const;

 private:
  Status alias(std::size_t bytes);

  const FlowPlans* flows_ = nullptr;
  std::span<std::byte> source_;
  std::vector<std::byte> pattern_;
  std::vector<std::vector<std::byte>> sinks_;
  std::vector<std::uint64_t> offsets_;
  std::byte* aliased_ = nullptr;
  std::size_t aliased_bytes_ = 0;
};

}  // namespace spindrift::sim
