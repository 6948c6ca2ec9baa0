#pragma once
// One deadline per actor (a small index), in a binary heap that knows where each actor stands.
#include <cstdint>
#include <vector>

#include "spindrift/types.h"

namespace spindrift {

class TimerHeap {
 public:
  explicit TimerHeap(std::uint32_t actors) : position_(actors, kNowhere), when_(actors, kNever) {
    heap_.reserve(actors);
  }
  Time next() const { return heap_.empty() ? kNever : when_[heap_.front()]; }
  Time armed(std::uint32_t actor) const { return when_[actor]; }
  // kNever disarms.
  void arm(std::uint32_t actor, Time when) {
    const std::uint32_t at = position_[actor];
    if (at == kNowhere) {
      if (when == kNever) return;
      when_[actor] = when;
      position_[actor] = static_cast<std::uint32_t>(heap_.size());
      heap_.push_back(actor);
      rise(position_[actor]);
      return;
    }
    if (when == kNever) {
      remove(at);
      return;
    }
    const bool is_earlier = when < when_[actor];
    when_[actor] = when;
    if (is_earlier)
      rise(at);
    else
      sink(at);
  }
  // An actor whose deadline is not after `now`, disarmed; false: none.
  bool take_due(Time now, std::uint32_t& actor) {
    if (heap_.empty() || when_[heap_.front()] > now) return false;
    actor = heap_.front();
    remove(0);
    return true;
  }

 private:
  static constexpr std::uint32_t kNowhere = 0xffffffff;
  void put(std::uint32_t at, std::uint32_t actor) {
    heap_[at] = actor;
    position_[actor] = at;
  }
  void rise(std::uint32_t at) {
    const std::uint32_t actor = heap_[at];
    while (at != 0) {
      const std::uint32_t parent = (at - 1) / 2;
      if (when_[heap_[parent]] <= when_[actor]) break;
      put(at, heap_[parent]);
      at = parent;
    }
    put(at, actor);
  }
  void sink(std::uint32_t at) {
    const std::uint32_t actor = heap_[at];
    const auto size = static_cast<std::uint32_t>(heap_.size());
    for (;;) {
      std::uint32_t child = 2 * at + 1;
      if (child >= size) break;
      if (child + 1 < size && when_[heap_[child + 1]] < when_[heap_[child]]) ++child;
      if (when_[heap_[child]] >= when_[actor]) break;
      put(at, heap_[child]);
      at = child;
    }
    put(at, actor);
  }
  void remove(std::uint32_t at) {
    const std::uint32_t actor = heap_[at];
    const std::uint32_t last = heap_.back();
    heap_.pop_back();
    position_[actor] = kNowhere;
    when_[actor] = kNever;
    if (last == actor) return;
    put(at, last);
    rise(at);
    sink(position_[last]);
  }

  std::vector<std::uint32_t> heap_;
  std::vector<std::uint32_t> position_;
  std::vector<Time> when_;
};

}  // namespace spindrift
