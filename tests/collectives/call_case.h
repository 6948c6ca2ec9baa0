#pragma once
// One collective call of a group: buffers of every rank, filled, and checked against the plain
// definition of the collective.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "spindrift/collective.h"

#include "collectives/plan.h"
#include "tests/collectives/numbers.h"

namespace spindrift::collectives {

struct CallCase {
  Collective collective = Collective::kAllReduce;
  std::uint32_t ranks = 2;
  std::uint64_t count = 0;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::uint32_t root = 0;
  bool is_in_place = false;
  std::string algorithm{};
  std::uint64_t seed = 1;  // of the contents
};

inline std::ostream& operator<<(std::ostream& out, const CallCase& one) {
  return out << to_string(one.collective) << ":" << one.algorithm << " of " << one.ranks
             << " ranks, root " << one.root << ", " << one.count << " x " << to_string(one.type)
             << ", " << to_string(one.op) << ", in place " << one.is_in_place << ", seed "
             << one.seed;
}

inline bool has_root(Collective collective) {
  return collective == Collective::kBroadcast || collective == Collective::kReduce ||
         collective == Collective::kGather || collective == Collective::kScatter;
}
inline bool may_be_in_place(Collective collective) {
  return collective != Collective::kAllToAllV && collective != Collective::kSendReceive;
}
inline bool reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduce ||
         collective == Collective::kReduceScatter;
}

// The buffers of one rank; a group of messages is one to the next rank and one from the rank
// before. They must stay where they are until the call is over.
class RankBuffers {
 public:
  RankBuffers(const CallCase& one, std::uint32_t rank)
      : case_(one), rank_(rank), blocks_(blocks_of(one.collective, one.ranks)) {
    const bool is_root = rank == one.root || !has_root(one.collective);
    has_input_ = is_root || (one.collective != Collective::kBroadcast &&
                             one.collective != Collective::kScatter);
    has_output_ =
        is_root || (one.collective != Collective::kReduce && one.collective != Collective::kGather);
    const std::uint64_t larger =
        std::max(blocks_.input, blocks_.output) * one.count * bytes_of(one.type);
    memory_.assign(2 * (larger + kGuard) + kGuard, kUntouched);
    const std::uint64_t block = one.count * bytes_of(one.type);
    input_ = memory_.data() + kGuard;
    output_ = memory_.data() + kGuard + larger + kGuard;
    if (one.is_in_place && has_input_ && has_output_) {
      output_ = input_;
      if (blocks_.input > blocks_.output) output_ = input_ + rank * block;
      if (blocks_.output > blocks_.input) input_ = output_ + rank * block;
    }
    for (std::uint64_t i = 0; has_input_ && i < blocks_.input * one.count; ++i)
      store(one.type, input_ + i * bytes_of(one.type), value(rank, i));
  }

  CollectiveCall call() {
    CollectiveCall made{.collective = case_.collective,
                        .input = has_input_ ? input_ : nullptr,
                        .output = has_output_ ? output_ : nullptr,
                        .count = case_.count,
                        .type = case_.type,
                        .op = case_.op,
                        .root = case_.root};
    made.algorithm = case_.algorithm;
    if (case_.collective == Collective::kSendReceive) {
      transfers_ = {
          {.peer = (rank_ + 1) % case_.ranks,
           .is_send = true,
           .data = input_,
           .count = case_.count},
          {.peer = (rank_ + case_.ranks - 1) % case_.ranks, .data = output_, .count = case_.count}};
      made.transfers = transfers_;
    }
    if (case_.collective != Collective::kAllToAllV) return made;
    counts_.assign(case_.ranks, case_.count);
    for (std::uint64_t i = 0; i < case_.ranks; ++i)
      offsets_.push_back(i * case_.count);
    made.input_counts = made.output_counts = counts_;
    made.input_offsets = made.output_offsets = offsets_;
    return made;
  }

  void expect_right() const {
    for (std::uint64_t i = 0; has_output_ && i < blocks_.output * case_.count; ++i) {
      const double got = load(case_.type, output_ + i * bytes_of(case_.type));
      ASSERT_EQ(got, expected(i)) << case_ << ": rank " << rank_ << " element " << i;
    }
    for (std::size_t i = 0; i < kGuard; ++i) {
      ASSERT_EQ(memory_[i], kUntouched) << case_ << ": wrote before its buffers";
      ASSERT_EQ(memory_[memory_.size() - 1 - i], kUntouched) << case_ << ": wrote behind them";
    }
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr std::byte kUntouched{0xA5};

  // Small integers: sums of 64 of them are exact in every type that holds them.
  double value(std::uint32_t rank, std::uint64_t i) const {
    const std::uint64_t mixed =
        (i * 7 + std::uint64_t{rank} * 13 + i / 97 + case_.seed) * 0x9E3779B97F4A7C15ULL >> 40U;
    if (case_.op == ReduceOp::kProduct) return static_cast<double>(1 + (mixed % 8 == 0 ? 1 : 0));
    return static_cast<double>(mixed % 4);
  }

  double expected(std::uint64_t i) const {
    const std::uint64_t in_own_block =
        rank_ * case_.count + i % std::max<std::uint64_t>(case_.count, 1);
    const auto block = static_cast<std::uint32_t>(i / std::max<std::uint64_t>(case_.count, 1));
    switch (case_.collective) {
      case Collective::kAllReduce:
      case Collective::kReduce:
        return sum(i);
      case Collective::kReduceScatter:
        return sum(in_own_block);
      case Collective::kAllGather:
      case Collective::kGather:
        return value(block, i % case_.count);
      case Collective::kBroadcast:
        return value(case_.root, i);
      case Collective::kScatter:
        return value(case_.root, in_own_block);
      case Collective::kSendReceive:
        return value((rank_ + case_.ranks - 1) % case_.ranks, i);
      default:
        return value(block, in_own_block);
    }
  }

  double sum(std::uint64_t i) const {
    double all = value(0, i);
    for (std::uint32_t rank = 1; rank < case_.ranks; ++rank)
      all = combine(case_.type, case_.op, all, value(rank, i));
    return finish(case_.type, case_.op, all, case_.ranks);
  }

  const CallCase case_;
  const std::uint32_t rank_;
  const BlockCounts blocks_;
  bool has_input_ = true;
  bool has_output_ = true;
  std::vector<std::byte> memory_;
  std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
  std::vector<std::uint64_t> counts_;
  std::vector<std::uint64_t> offsets_;
  std::vector<Transfer> transfers_;
};

}  // namespace spindrift::collectives
