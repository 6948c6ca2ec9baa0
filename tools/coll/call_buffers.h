#pragma once
// The memory of one rank for calls of one operation, what belongs into it, and what must come out.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "spindrift/collective.h"

#include "tools/coll/operations.h"
#include "tools/coll/options.h"
#include "tools/coll/pattern.h"

namespace spindrift::coll {

enum class Place : std::uint8_t { kApart, kInPlace };

class CallBuffers final {
 public:
  // For counts up to that of `max_bytes` (as nccl-tests counts). May throw std::bad_alloc.
  CallBuffers(const Options& options, std::uint32_t rank, std::uint32_t ranks,
              std::uint64_t max_bytes);

  // The call, valid until the next one of either function.
  CollectiveCall call(std::uint64_t count, Place place);
  // Zeros stay zeros, however often they are reduced in place.
  void clear(std::uint64_t count, Place place);
  // This rank's values, and something else where the result will be.
  void fill(std::uint64_t count, Place place);
  // Elements of the result at this rank that are wrong.
  std::uint64_t count_wrong(std::uint64_t count, Place place);

 private:
  struct Extent {
    std::span<std::byte> input;
    std::span<std::byte> output;
  };
  std::uint64_t input_elements(std::uint64_t count) const;
  std::uint64_t output_elements(std::uint64_t count) const;
  Extent extent(std::uint64_t count, Place place);
  void lay_out_parts(std::uint64_t count);
  std::uint64_t count_wrong_parts(std::span<const std::byte> output, std::uint64_t count);
  std::span<std::byte> elements(std::vector<std::byte>& buffer, std::uint64_t first,
                                std::uint64_t count) const;

  const Options& options_;
  const Operation& operation_;
  const std::uint32_t rank_;
  const std::uint32_t ranks_;
  const std::size_t element_bytes_;
  Pattern pattern_;
  std::vector<std::byte> input_;
  std::vector<std::byte> output_;
  // Of an uneven all-to-all, and of a send and a receive.
  std::vector<std::uint64_t> input_counts_, input_offsets_, output_counts_, output_offsets_;
  std::vector<Transfer> transfers_;
};

}  // namespace spindrift::coll
