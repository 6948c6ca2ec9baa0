// ReceiveLog against a set of the PSNs that arrived: whatever arrives in whatever order, edge,
// newest, count of holes and bitmaps are those of the set.
#include <cstddef>
#include <cstdint>
#include <set>

#include "tests/fuzz/input.h"
#include "transport/base/check.h"
#include "transport/receive_log.h"

namespace spindrift {
namespace {

class Model {
 public:
  Model(std::uint32_t capacity, std::uint64_t first) : capacity_(capacity), base_(first) {}

  ReceiveLog::Arrival check(std::uint64_t psn) const {
    using Arrival = ReceiveLog::Arrival;
    const bool is_above = psn >= base_;
    if (is_above && psn - base_ >= capacity_) return Arrival::kOutOfWindow;
    if (is_above) return above_.contains(psn) ? Arrival::kDuplicate : Arrival::kNew;
    return base_ - psn <= capacity_ ? Arrival::kDuplicate : Arrival::kOutOfWindow;
  }
  bool mark(std::uint64_t psn) {
    above_.insert(psn);
    newest_ = std::max(newest_, psn);
    const bool moves = psn == base_;
    while (above_.erase(base_) != 0)
      ++base_;
    return moves;
  }
  std::uint64_t bitmap(std::uint64_t from) const {
    std::uint64_t bits = 0;
    for (auto at = above_.lower_bound(from); at != above_.end() && *at < from + 64; ++at)
      bits |= 1ULL << (*at - from);
    return bits;
  }
  void compare(const ReceiveLog& log, std::uint64_t first) const {
    SPINDRIFT_CHECK(log.cumulative().value == base_ - 1);
    SPINDRIFT_CHECK(log.out_of_order() == above_.size());
    SPINDRIFT_CHECK(log.newest().value == std::max(newest_, first - 1));
  }
  std::uint64_t base() const { return base_; }
  std::uint64_t newest() const { return newest_; }

 private:
  std::uint64_t capacity_;
  std::uint64_t base_;
  std::uint64_t newest_ = 0;
  std::set<std::uint64_t> above_;
};

// What is missing from `first` on, `most` PSNs at most, arrives at once.
void mark_run(ReceiveLog& log, Model& model, Psn first, std::uint32_t most) {
  const std::uint32_t count = log.missing_from(first, most);
  bool moves = false;
  for (std::uint32_t i = 0; i <= count && i < most; ++i) {
    const std::uint64_t psn = first.value + i;
    SPINDRIFT_CHECK((model.check(psn) == ReceiveLog::Arrival::kNew) == (i < count));
  }
  for (std::uint32_t i = 0; i < count; ++i)
    moves = model.mark(first.value + i) || moves;
  if (count != 0) SPINDRIFT_CHECK(log.mark(first, count) == moves);
}

void run(FuzzInput in) {
  const std::uint32_t capacity = 64U * (1 + in.u8() % 5);
  const std::uint64_t first = (1ULL << 32) + in.u32();  // as a connection chooses it
  ReceiveLog log(capacity, Psn{first});
  Model model(capacity, first);
  for (int i = 0; i < 4096 && !in.is_empty(); ++i) {
    const std::uint8_t kind = in.u8();
    std::uint64_t count = 1;
    std::uint64_t psn = model.base() + kind % 32;  // close to the edge most of the time
    if (kind >= 128) psn = model.base() - capacity - 2 + in.u16() % (2 * capacity + 8);
    if (kind >= 224) count = 1 + in.u8();  // a run
    if (kind >= 240) {
      mark_run(log, model, Psn{psn}, static_cast<std::uint32_t>(count));
      model.compare(log, first);
      count = 0;
    }
    for (; count != 0; --count, ++psn) {
      SPINDRIFT_CHECK(log.extend(static_cast<std::uint32_t>(psn)).value == psn);
      const ReceiveLog::Arrival arrival = log.check(Psn{psn});
      SPINDRIFT_CHECK(arrival == model.check(psn));
      if (arrival != ReceiveLog::Arrival::kNew) continue;
      SPINDRIFT_CHECK(log.mark(Psn{psn}) == model.mark(psn));
      model.compare(log, first);
    }
    if (model.newest() < model.base()) continue;  // nothing above the edge to ask about
    const std::uint64_t from = model.base() + in.u16() % (model.newest() - model.base() + 1);
    SPINDRIFT_CHECK(log.bitmap(Psn{from}) == model.bitmap(from));
  }
}

}  // namespace
}  // namespace spindrift

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  spindrift::run(spindrift::FuzzInput(std::span(data, bytes)));
  return 0;
}
