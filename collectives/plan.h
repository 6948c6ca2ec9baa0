#pragma once
// How counts are cut into chunks, and the builders of plans. Builders are pure functions.
#include <algorithm>
#include <cstdint>

#include "spindrift/plan.h"

namespace spindrift::collectives {

// Chunk borders are multiples of this many elements, so that pieces keep to whole cache lines and
// tiny counts travel as one chunk.
inline constexpr std::uint64_t kChunkAlignment = 32;

struct ElementRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  constexpr bool operator==(const ElementRange&) const = default;
};

// Elements of chunks [chunk, chunk + chunks) when `count` is cut into `chunk_count`. The last ones
// may be short or empty.
constexpr ElementRange range_of(std::uint64_t count, std::uint32_t chunk_count, std::uint32_t chunk,
                                std::uint32_t chunks = 1) {
  const std::uint64_t even = count / chunk_count + (count % chunk_count != 0 ? 1 : 0);
  const std::uint64_t length = (even + kChunkAlignment - 1) / kChunkAlignment * kChunkAlignment;
  const std::uint64_t first = std::min(length * chunk, count);
  const std::uint64_t last = std::min(length * (std::uint64_t{chunk} + chunks), count);
  return {.first = first, .count = last - first};
}

// Ring reduce-scatter followed by ring all-gather (Patarasuk and Yuan 2009): 2(n-1) steps, each
// rank sends 2(n-1)/n of the buffer, to rank + 1 only.
Plan ring_all_reduce(std::uint32_t rank, std::uint32_t ranks);

}  // namespace spindrift::collectives
