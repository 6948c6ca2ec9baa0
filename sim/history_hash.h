#pragma once
// A hash over the history of a run: equal for equal runs, whatever the compiler. Not for secrets.
#include <bit>
#include <cstdint>

namespace spindrift::sim {

class HistoryHash {
 public:
  void add(std::uint64_t word) { value_ = (std::rotl(value_, 23) ^ word) * 0x9E3779B97F4A7C15ULL; }
  std::uint64_t value() const { return value_ ^ (value_ >> 32); }

 private:
  std::uint64_t value_ = 0x5851F42D4C957F2DULL;
};

}  // namespace spindrift::sim
