#pragma once
// Which PSNs have arrived: a bitmap window above the cumulative edge.
//
//   cumulative edge (CACK)          newest
//        v                             v
//   ...1 1 | 0 1 1 0 0 0 1 1 0 0 0 ... 1 |  window of `capacity` PSNs
#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "spindrift/types.h"

namespace spindrift {

class ReceiveLog {
 public:
  enum class Arrival : std::uint8_t { kNew, kDuplicate, kOutOfWindow };

  // `first` is the first PSN expected. `capacity` is a multiple of 64.
  ReceiveLog(std::uint32_t capacity, Psn first)
      : capacity_(capacity),
        words_(std::bit_ceil(capacity) / 64),
        bits_(words_, 0),
        base_(first),
        end_(first) {}

  Psn cumulative() const { return Psn{base_.value - 1}; }  // all up to here have arrived
  Psn newest() const { return Psn{end_.value - 1}; }
  std::uint32_t out_of_order() const { return out_of_order_; }
  std::uint32_t capacity() const { return capacity_; }

  // The 64-bit PSN nearest to the window whose low 32 bits are `wire`.
  Psn extend(std::uint32_t wire) const {
    const auto delta = static_cast<std::int32_t>(wire - static_cast<std::uint32_t>(base_.value));
    return Psn{base_.value + static_cast<std::uint64_t>(static_cast<std::int64_t>(delta))};
  }
  Arrival check(Psn psn) const {
    if (psn.value - base_.value < capacity_)
      return is_set(psn.value) ? Arrival::kDuplicate : Arrival::kNew;
    // Below: an old duplicate within one window, anything else is absurd.
    return base_.value - psn.value <= capacity_ ? Arrival::kDuplicate : Arrival::kOutOfWindow;
  }
  // How many PSNs from `from` on are kNew; looks no further than `most`.
  std::uint32_t missing_from(Psn from, std::uint32_t most) const {
    const std::uint64_t at = from.value - base_.value;
    if (at >= capacity_) return 0;
    most = static_cast<std::uint32_t>(std::min<std::uint64_t>(most, capacity_ - at));
    std::uint32_t count = from < end_ ? 0 : most;
    while (count < most && !is_set(from.value + count))
      ++count;
    return count;
  }
  // `count` PSNs from `first` on arrived, each of them kNew. True when the cumulative edge moved.
  bool mark(Psn first, std::uint32_t count = 1) {
    const Psn end{first.value + count};
    if (first == base_ && end_ == base_) {  // in order, nothing beyond it: no bit is ever needed
      base_ = end_ = end;
      return true;
    }
    for (std::uint64_t psn = first.value; psn < end.value; psn = (psn | 63) + 1)
      set(psn, std::min(end.value, (psn | 63) + 1) - psn);
    end_ = std::max(end_, end);
    out_of_order_ += count;
    if (first != base_) return false;
    advance();
    return true;
  }
  // Bit i: PSN from + i has arrived. `from` is above the cumulative edge and at most the newest.
  std::uint64_t bitmap(Psn from) const {
    const std::uint64_t word = from.value / 64;
    const auto shift = static_cast<unsigned>(from.value % 64);
    std::uint64_t out = bits_[word & (words_ - 1)] >> shift;
    if (shift != 0) out |= bits_[(word + 1) & (words_ - 1)] << (64 - shift);
    const std::uint64_t known = end_.value - from.value;
    return known < 64 ? out & ((1ULL << known) - 1) : out;
  }

 private:
  bool is_set(std::uint64_t psn) const {
    return ((bits_[(psn / 64) & (words_ - 1)] >> (psn % 64)) & 1) != 0;
  }
  // `count` bits of one word.
  void set(std::uint64_t psn, std::uint64_t count) {
    const std::uint64_t ones = ~0ULL >> (64 - count);
    bits_[(psn / 64) & (words_ - 1)] |= ones << (psn % 64);
  }
  // Moves the edge over the bits that are set, and clears them.
  void advance() {
    for (;;) {
      std::uint64_t& word = bits_[(base_.value / 64) & (words_ - 1)];
      const auto shift = static_cast<unsigned>(base_.value % 64);
      const auto run = static_cast<unsigned>(std::countr_one(word >> shift));
      if (run == 0) break;
      word &= ~((~0ULL >> (64 - run)) << shift);
      base_.value += run;
      out_of_order_ -= run;
      if (shift + run < 64) break;
    }
  }

  std::uint32_t capacity_;
  std::size_t words_;
  std::vector<std::uint64_t> bits_;
  Psn base_;  // first PSN not arrived
  Psn end_;   // one past the newest that arrived
  std::uint32_t out_of_order_ = 0;
};

}  // namespace spindrift
