#pragma once
// When each actor has its turn next. An actor (a small index) stands in the list at most once.
// A timing wheel of three levels; what is due in the present slot is kept sorted. Actors due at the
// same picosecond go in an order that a hash decides, so that nobody always wins.
//
//   level 0: slots of 2^slot_bits ps, 2^wheel_bits of them   level 1, 2: each slot a whole turn
//   below
//
// Thousands of hosts fill no cache, and in the order of time each has one turn in every packet
// time. Where nothing reaches another place sooner than a link's delay, the list hands out a window
// of that length place by place: each place's turns in the order of time, and all of them while its
// memory is near. What happens at a place is the same either way.
#include <cstdint>
#include <vector>

#include "sim/time.h"

namespace spindrift::sim {

struct EventListShape {
  std::uint32_t actors = 0;
  unsigned slot_bits = 15;   // 33 ns
  unsigned wheel_bits = 12;  // 6..20
  std::uint64_t seed = 0;    // of the order among equals
};

// Who can be handed out apart from whom.
struct EventPlaces {
  std::vector<std::uint32_t> of_actor{};
  Picoseconds window = 0;     // no turn plans one at another place sooner
  std::uint32_t for_all = 0;  // the actor whose turns concern every place
};

class EventList {
 public:
  using Actor = std::uint32_t;
  static constexpr Actor kNobody = 0xffffffff;

  explicit EventList(const EventListShape& shape);

  Picoseconds now() const { return now_; }
  bool is_scheduled(Actor actor) const { return entries_[actor].where != kNowhere; }
  // Only while scheduled.
  Picoseconds due(Actor actor) const { return entries_[actor].at; }
  // `at` is not before now(). The actor must not be scheduled.
  void schedule(Actor actor, Picoseconds at);
  // Moves, schedules or (kEndOfTime) takes out.
  void reschedule(Actor actor, Picoseconds at);
  void cancel(Actor actor);
  // The next actor that is due not after `until`, taken out; time moves to its turn. kNobody: none,
  // and time moves to `until`.
  [[nodiscard]] Actor next(Picoseconds until);
  std::uint64_t taken() const { return taken_; }
  // Place by place from now on, in windows of that length at most. In the middle of one now() is
  // the present place's, and not monotonic.
  void separate(EventPlaces places);

 private:
  static constexpr unsigned kLevels = 3;
  static constexpr std::uint32_t kNowhere = 0xffffffff;
  static constexpr std::uint32_t kPresent = 0xfffffffe;  // in present_
  static constexpr std::uint32_t kBeyond = 0xfffffffd;   // in beyond_

  struct Entry {
    Picoseconds at = 0;
    std::uint32_t where = kNowhere;  // slot, counted over all levels
    Actor next = kNobody;
    Actor previous = kNobody;
  };
  struct Due {
    Picoseconds at = 0;
    std::uint32_t order = 0;  // among equals
    Actor actor = 0;
    bool is_before(const Due& other) const {
      if (at != other.at) return at < other.at;
      return order != other.order ? order < other.order : actor < other.actor;
    }
  };

  std::uint32_t order_of(Actor actor, Picoseconds at) const {
    const std::uint64_t mixed =
        (static_cast<std::uint64_t>(at) ^ seed_) * 0x9E3779B97F4A7C15ULL + actor;
    return static_cast<std::uint32_t>((mixed ^ (mixed >> 29)) * 0xBF58476D1CE4E5B9ULL >> 32);
  }
  struct Waiting {
    std::uint32_t place = 0;
    Due due{};
  };
  void insert_present(Actor actor, Picoseconds at) {
    if (present_end_ == present_.size()) [[unlikely]]
      make_room();
    const Due due{at, order_of(actor, at), actor};
    Due* const first = present_.data() + present_at_;
    Due* place = present_.data() + present_end_++;
    for (; place != first && due.is_before(place[-1]); --place)
      *place = place[-1];
    *place = due;
    entries_[actor].where = kPresent;
  }
  // In the window, a place plans its own turns only.
  [[nodiscard]] bool may_plan(Actor actor, Picoseconds at) const {
    return waiting_.empty() || static_cast<std::uint64_t>(at) >> slot_bits_ > slot_now_ ||
           places_.of_actor[actor] == waiting_[waiting_at_ - 1].place;
  }
  void make_room();
  // Of a slot that becomes the present one: sorted when all are there. Many may be due at the same
  // picosecond.
  void append_present(Actor actor) {
    const Picoseconds at = entries_[actor].at;
    present_[present_end_++] = {at, order_of(actor, at), actor};
    entries_[actor].where = kPresent;
  }
  void sort_present();
  void append_slot(std::uint64_t index);
  void widen(Picoseconds until);
  [[nodiscard]] bool take_next_place();
  void link(std::uint32_t slot, Actor actor);
  void unlink(Actor actor);
  // Not into level 0.
  void put_far(Actor actor, std::uint64_t slot);
  void put(Actor actor, Picoseconds at) {
    entries_[actor].at = at;
    const std::uint64_t slot = static_cast<std::uint64_t>(at) >> slot_bits_;
    if (slot <= slot_now_)
      insert_present(actor, at);
    else if ((slot ^ slot_now_) >> wheel_bits_ == 0) [[likely]]
      link(static_cast<std::uint32_t>(slot & (slots_ - 1)), actor);
    else
      put_far(actor, slot);
  }
  [[nodiscard]] bool load_next_slot();
  [[nodiscard]] bool cascade(unsigned level);
  [[nodiscard]] bool take_back_from_beyond();
  // slots_ when there is none.
  [[nodiscard]] std::uint64_t first_used(unsigned level, std::uint64_t from) const;

  unsigned slot_bits_;
  unsigned wheel_bits_;
  std::uint64_t slots_;  // per level
  std::uint64_t seed_;
  Picoseconds now_ = 0;
  std::uint64_t slot_now_ = 0;  // absolute number of the slot that present_ holds
  std::vector<Entry> entries_;
  std::vector<Actor> heads_;                  // first actor of each slot, all levels
  std::vector<std::uint64_t> used_[kLevels];  // a bit per slot
  std::vector<Due> present_;                  // sorted between these two
  std::size_t present_at_ = 0;
  std::size_t present_end_ = 0;
  std::vector<Actor> beyond_;  // later than all levels reach
  EventPlaces places_;
  std::vector<Waiting> waiting_;  // of the window, by place; empty: the order of time holds
  std::size_t waiting_at_ = 0;
  std::uint64_t taken_ = 0;
};

}  // namespace spindrift::sim
