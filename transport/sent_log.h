#pragma once
// What was sent and is not acknowledged: a ring indexed by Psn, threaded by one list per path in
// send order. Append, find, acknowledge and lose are O(1). Memory grows with what was ever in
// flight at once, by doubling, so that thousands of idle connections cost little.
//
//   psn ring:   | 100 A | 101 A | 102 B | 103 B | 104 A |     (letters: paths)
//   path lists:  A: 100 <-> 101 <-> 104      B: 102 <-> 103
#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "spindrift/types.h"

#include "transport/base/check.h"

namespace spindrift {

struct SentUnit {
  enum class State : std::uint8_t {
    kFree,      // never used, or its PSN was given back
    kInFlight,  // in its path's list
    kLost,      // waiting to be sent again
    kStalled,   // the receiver was not ready; waits for its retry time
    kAcked,
  };
  enum class Kind : std::uint8_t { kRequest, kResponse, kClose };

  Psn psn{};
  PathSeq path_seq{};
  Time sent_time{};
  Time delivered_time_before{};  // for DeliverySample
  std::uint64_t delivered_before = 0;
  std::uint64_t owner = 0;   // serial of the request or response
  std::uint32_t offset = 0;  // within the message
  std::uint32_t nominal_bytes = 0;
  std::uint32_t previous = 0;  // slots in the path list; kNone: end
  std::uint32_t next = 0;
  PathId path{};
  State state = State::kFree;
  Kind kind = Kind::kRequest;
  std::uint8_t transmissions = 0;  // saturates
  bool was_spurious = false;       // counted once
};

class SentLog {
 public:
  static constexpr std::uint32_t kNone = 0xffffffff;

  // `capacity` units may be between the oldest unacknowledged and the next PSN.
  SentLog(std::uint32_t capacity, std::uint32_t path_count, Psn first)
      : capacity_(std::bit_ceil(capacity)),
        mask_(0),
        units_(std::make_unique<SentUnit[]>(mask_ + 1)),
        paths_(path_count),
        oldest_(first),
        next_(first) {}

  bool is_full() const { return room() == 0; }
  std::uint64_t room() const { return capacity_ - (next_.value - oldest_.value); }
  bool is_empty() const { return next_ == oldest_; }
  Psn next() const { return next_; }
  Psn oldest() const { return oldest_; }  // every PSN below it was acknowledged
  std::uint32_t in_flight_packets() const { return in_flight_; }

  // The next PSN's unit; the caller fills kind, owner, offset and bytes, then calls sent(). Units
  // may move.
  SentUnit& append() {
    SPINDRIFT_DCHECK(!is_full());
    make_place_for(1);
    SentUnit& unit = units_[next_.value & mask_];
    unit = SentUnit{};
    unit.psn = next_;
    ++next_.value;
    return unit;
  }
  // What a run's units have in common.
  struct RunShape {
    std::uint64_t owner = 0;   // a request
    std::uint32_t offset = 0;  // of the first
    std::uint32_t step = 0;    // to the next one's offset
    std::uint32_t nominal_bytes = 0;
    std::uint64_t delivered_before = 0;
    Time delivered_time_before{};
  };
  // `count` units (at most room()) behind one another on `path`, sent. Returns the first. Units may
  // move.
  SentUnit& append_run(const RunShape& shape, std::uint32_t count, PathId path, Time now) {
    SPINDRIFT_DCHECK(count != 0 && count <= room());
    make_place_for(count);
    PathList& list = paths_[path.value];
    const auto first = static_cast<std::uint32_t>(next_.value & mask_);
    std::uint32_t previous = list.tail;
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto slot = static_cast<std::uint32_t>((next_.value + i) & mask_);
      units_[slot] = SentUnit{.psn = Psn{next_.value + i},
                              .path_seq = PathSeq{list.next_seq + i},
                              .sent_time = now,
                              .delivered_time_before = shape.delivered_time_before,
                              .delivered_before = shape.delivered_before,
                              .owner = shape.owner,
                              .offset = shape.offset + i * shape.step,
                              .nominal_bytes = shape.nominal_bytes,
                              .previous = previous,
                              .next = static_cast<std::uint32_t>((next_.value + i + 1) & mask_),
                              .path = path,
                              .state = SentUnit::State::kInFlight,
                              .transmissions = 1};
      previous = slot;
    }
    units_[previous].next = kNone;
    if (list.tail == kNone)
      list.head = first;
    else
      units_[list.tail].next = first;
    list.tail = previous;
    list.next_seq += count;
    list.in_flight += count;
    in_flight_ += count;
    next_.value += count;
    return units_[first];
  }
  // First transmission or another one: joins the tail of `path`.
  void sent(SentUnit& unit, PathId path, Time now) {
    PathList& list = paths_[path.value];
    const auto slot = static_cast<std::uint32_t>(unit.psn.value & mask_);
    unit.path = path;
    unit.path_seq = PathSeq{list.next_seq++};
    unit.sent_time = now;
    unit.state = SentUnit::State::kInFlight;
    if (unit.transmissions < 255) ++unit.transmissions;
    unit.previous = list.tail;
    unit.next = kNone;
    if (list.tail == kNone)
      list.head = slot;
    else
      units_[list.tail].next = slot;
    list.tail = slot;
    ++list.in_flight;
    ++in_flight_;
  }
  // Units that left behind one another on one path for the same owner, for the first time.
  struct Run {
    SentUnit* first = nullptr;
    SentUnit* last = nullptr;
    std::uint32_t packets = 0;
    std::uint64_t nominal_bytes = 0;
  };
  // Acknowledges the run that begins with `psn` and ends at `last` or before; both lie in
  // [oldest, next). No packets: the unit is not in flight for the first time.
  Run acknowledge_run(Psn psn, Psn last) {
    SentUnit* unit = &units_[psn.value & mask_];
    if (unit->state != SentUnit::State::kInFlight || unit->transmissions != 1) return {};
    Run run{.first = unit};
    for (std::uint64_t at = psn.value;; ++at) {
      unit->state = SentUnit::State::kAcked;
      run.nominal_bytes += unit->nominal_bytes;
      ++run.packets;
      run.last = unit;
      const auto slot = static_cast<std::uint32_t>((at + 1) & mask_);
      if (at == last.value || unit->next != slot) break;
      unit = &units_[slot];
      if (unit->transmissions != 1 || unit->owner != run.first->owner ||
          unit->kind != run.first->kind)
        break;
    }
    unlink(*run.first, *run.last, run.packets);
    return run;
  }
  // Leaves its path's list for another state.
  void take_out(SentUnit& unit, SentUnit::State state) {
    if (unit.state == SentUnit::State::kInFlight) unlink(unit, unit, 1);
    unit.state = state;
  }
  // Moves the left edge over acknowledged units.
  void retire() {
    while (oldest_ < next_ && units_[oldest_.value & mask_].state == SentUnit::State::kAcked)
      ++oldest_.value;
  }
  // In [oldest, next), or null. The PSN may come from the peer.
  SentUnit* find(Psn psn) {
    if (psn < oldest_ || psn >= next_) return nullptr;
    return &units_[psn.value & mask_];
  }
  // Also below oldest(), as long as its slot was not used again: for telling duplicates apart.
  SentUnit* find_retired(Psn psn) {
    SentUnit& unit = units_[psn.value & mask_];
    return unit.psn == psn && unit.state == SentUnit::State::kAcked ? &unit : nullptr;
  }
  // The PSN in flight for the longest time; the oldest unacknowledged when nothing is in flight.
  Psn longest_in_flight() const {
    const SentUnit* longest = nullptr;
    for (const PathList& list : paths_) {
      if (list.head == kNone) continue;
      const SentUnit& head = units_[list.head];
      if (longest == nullptr || head.sent_time < longest->sent_time) longest = &head;
    }
    return longest == nullptr ? oldest_ : longest->psn;
  }
  const SentUnit* path_head(PathId path) const {
    const std::uint32_t head = paths_[path.value].head;
    return head == kNone ? nullptr : &units_[head];
  }
  SentUnit* path_head(PathId path) { return at(paths_[path.value].head); }
  SentUnit* path_next(const SentUnit& unit) { return at(unit.next); }
  std::uint32_t path_in_flight(PathId path) const { return paths_[path.value].in_flight; }
  std::uint32_t path_count() const { return static_cast<std::uint32_t>(paths_.size()); }

 private:
  // Once there is work.
  static constexpr std::uint64_t kFewestUnits = 64;

  struct PathList {
    std::uint32_t head = kNone;
    std::uint32_t tail = kNone;
    std::uint32_t in_flight = 0;
    std::uint64_t next_seq = 1;
  };
  SentUnit* at(std::uint32_t slot) { return slot == kNone ? nullptr : &units_[slot]; }
  // Twice what is in flight, where that is allowed: a late copy of what was retired is told from
  // others by its unit.
  void make_place_for(std::uint32_t count) {
    const std::uint64_t wanted = std::min(2 * (next_.value - oldest_.value + count), capacity_);
    if (wanted > mask_ + 1) [[unlikely]]
      grow(std::max(std::bit_ceil(wanted), std::min(capacity_, kFewestUnits)));
  }
  // Slots are PSNs modulo the size: all move, and with them what names them.
  void grow(std::uint64_t size) {
    const auto slot_of = [this, size](std::uint32_t old) {
      return old == kNone ? kNone : static_cast<std::uint32_t>(units_[old].psn.value & (size - 1));
    };
    auto larger = std::make_unique<SentUnit[]>(size);
    for (std::uint64_t i = 0; i <= mask_; ++i) {
      const bool is_open = units_[i].psn >= oldest_ && units_[i].psn < next_;
      if (!is_open && units_[i].state != SentUnit::State::kAcked) continue;
      SentUnit& moved = larger[units_[i].psn.value & (size - 1)];
      moved = units_[i];
      if (moved.state != SentUnit::State::kInFlight) continue;
      moved.previous = slot_of(moved.previous);
      moved.next = slot_of(moved.next);
    }
    for (PathList& list : paths_) {
      list.head = slot_of(list.head);
      list.tail = slot_of(list.tail);
    }
    units_ = std::move(larger);
    mask_ = size - 1;
  }
  // `count` neighbours of one path's list.
  void unlink(const SentUnit& first, const SentUnit& last, std::uint32_t count) {
    PathList& list = paths_[first.path.value];
    if (first.previous == kNone)
      list.head = last.next;
    else
      units_[first.previous].next = last.next;
    if (last.next == kNone)
      list.tail = first.previous;
    else
      units_[last.next].previous = first.previous;
    list.in_flight -= count;
    in_flight_ -= count;
  }

  std::uint64_t capacity_;
  std::uint64_t mask_;
  std::unique_ptr<SentUnit[]> units_;
  std::vector<PathList> paths_;
  std::uint32_t in_flight_ = 0;
  Psn oldest_;
  Psn next_;
};

}  // namespace spindrift
