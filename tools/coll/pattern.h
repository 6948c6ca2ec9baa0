#pragma once
// Values whose reductions over all ranks are known exactly, whatever the order of the operations.
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "spindrift/collective.h"

namespace spindrift::coll {

class Pattern final {
 public:
  Pattern(DataType type, ReduceOp op, std::uint32_t ranks);

  // Element i of the buffer becomes element `first` + i of `rank`.
  void fill(std::span<std::byte> buffer, std::uint32_t rank, std::uint64_t first);
  // Elements that differ from those of `rank`.
  std::uint64_t count_wrong(std::span<const std::byte> buffer, std::uint32_t rank,
                            std::uint64_t first);
  // Elements that differ from the reduction over all ranks; averages may be rounded otherwise.
  std::uint64_t count_wrong_reduced(std::span<const std::byte> buffer, std::uint64_t first);

  // Small and whole, so that every type holds it, and the sum of up to kMaxRanks of them.
  std::int64_t value(std::uint32_t rank, std::uint64_t index) const;
  std::size_t element_bytes() const { return element_bytes_; }

 private:
  using Table = std::vector<std::byte>;  // repeats with the period
  const Table& table_of(std::uint32_t rank);
  const Table& reduced_table();
  std::uint64_t differences(std::span<const std::byte> buffer, const Table& table,
                            std::uint64_t first) const;
  bool is_same(const std::byte* a, const std::byte* b) const;

  const DataType type_;
  const ReduceOp op_;
  const std::uint32_t ranks_;
  const std::size_t element_bytes_;
  bool is_rounded_ = false;
  std::map<std::uint32_t, Table> tables_;
  Table reduced_;
};

}  // namespace spindrift::coll
