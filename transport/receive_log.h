#pragma once
// Which PSNs have arrived: a bitmap window above the cumulative edge.
//
//   cumulative edge (CACK)          newest
//        v                             v
//   ...1 1 | 0 1 1 0 0 0 1 1 0 0 0 ... 1 |  window of `capacity` PSNs
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
  // `psn` must be kNew. True when the cumulative edge moved.
  bool mark(Psn psn) {
    if (psn == base_ && end_ == base_) {  // in order, nothing beyond it: no bit is ever needed
      ++base_.value;
      end_ = base_;
      return true;
    }
    set(psn.value);
    if (psn >= end_) end_ = Psn{psn.value + 1};
    if (psn != base_) {
      ++out_of_order_;
      return false;
    }
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
  void set(std::uint64_t psn) { bits_[(psn / 64) & (words_ - 1)] |= 1ULL << (psn % 64); }
  void advance() {
    // The first bit belongs to the packet that filled the hole; the rest were out of order.
    std::uint64_t moved = 0;
    for (;;) {
      std::uint64_t& word = bits_[(base_.value / 64) & (words_ - 1)];
      const auto shift = static_cast<unsigned>(base_.value % 64);
      const auto run = static_cast<unsigned>(std::countr_one(word >> shift));
      if (run == 0) break;
      const std::uint64_t mask = run == 64 ? ~0ULL : ((1ULL << run) - 1) << shift;
      word &= ~mask;
      base_.value += run;
      moved += run;
      if (shift + run < 64) break;
    }
    out_of_order_ -= static_cast<std::uint32_t>(moved - 1);
  }

  std::uint32_t capacity_;
  std::size_t words_;
  std::vector<std::uint64_t> bits_;
  Psn base_;  // first PSN not arrived
  Psn end_;   // one past the newest that arrived
  std::uint32_t out_of_order_ = 0;
};

}  // namespace spindrift
