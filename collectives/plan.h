#pragma once
// How counts are cut into blocks and chunks.
#include <algorithm>
#include <cstddef>
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

// Elements of one chunk of a block of `count`, counted from the start of the block. The last chunks
// may be short or empty.
constexpr ElementRange range_in_block(std::uint64_t count, std::uint32_t chunks_per_block,
                                      std::uint32_t chunk) {
  const std::uint64_t even = count / chunks_per_block + (count % chunks_per_block != 0 ? 1 : 0);
  // One chunk is the whole block, whatever its length.
  const std::uint64_t length =
      chunks_per_block == 1 ? count
                            : (even + kChunkAlignment - 1) / kChunkAlignment * kChunkAlignment;
  const std::uint64_t first = std::min(length * chunk, count);
  const std::uint64_t last = std::min(length * (std::uint64_t{chunk} + 1), count);
  return {.first = first, .count = last - first};
}

// Elements of chunks [chunk, chunk + chunks) of a buffer of blocks; chunks >= 1.
constexpr ElementRange range_of(std::uint64_t count, std::uint32_t chunks_per_block,
                                std::uint32_t chunk, std::uint32_t chunks = 1) {
  const std::uint32_t last = chunk + chunks - 1;
  const ElementRange head = range_in_block(count, chunks_per_block, chunk % chunks_per_block);
  const ElementRange tail = range_in_block(count, chunks_per_block, last % chunks_per_block);
  const std::uint64_t first = chunk / chunks_per_block * count + head.first;
  return {.first = first,
          .count = last / chunks_per_block * count + tail.first + tail.count - first};
}

// Buffers of `collective`, in blocks.
struct BlockCounts {
  std::uint32_t input = 1;
  std::uint32_t output = 1;
};
constexpr BlockCounts blocks_of(Collective collective, std::uint32_t ranks) {
  switch (collective) {
    case Collective::kAllGather:
    case Collective::kGather:
    case Collective::kBarrier:  // an all-gather of a byte each
      return {.input = 1, .output = ranks};
    case Collective::kReduceScatter:
    case Collective::kScatter:
      return {.input = ranks, .output = 1};
    case Collective::kAllToAll:
    case Collective::kAllToAllV:
      return {.input = ranks, .output = ranks};
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kSendReceive:
      break;
  }
  return {};
}

// Numbers the chunks of all three buffers of one rank, so that chunks that share memory (in place)
// share a number.
class PlaceMap final {
 public:
  PlaceMap(const PlanRequest& request, std::uint32_t chunks_per_block,
           std::uint32_t scratch_blocks);
  std::size_t of(const ChunkRef& ref) const;
  std::size_t input_chunks() const { return input_chunks_; }
  std::size_t output_chunks() const { return output_chunks_; }
  std::size_t scratch_chunks() const { return scratch_chunks_; }
  std::size_t count() const { return input_chunks_ + output_chunks_ + scratch_chunks_; }

 private:
  std::size_t input_chunks_;
  std::size_t output_chunks_;
  std::size_t scratch_chunks_;
  bool is_in_place_;
  std::int64_t shift_;  // in place, input chunk c is output chunk c + shift
};

}  // namespace spindrift::collectives
