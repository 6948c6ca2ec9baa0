#include "sim/event_list.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "transport/base/check.h"

namespace spindrift::sim {

EventList::EventList(const EventListShape& shape)
    : slot_bits_(shape.slot_bits),
      wheel_bits_(shape.wheel_bits),
      slots_(1ULL << shape.wheel_bits),
      seed_(shape.seed),
      entries_(shape.actors),
      heads_(kLevels << shape.wheel_bits, kNobody),
      present_(2 * std::size_t{shape.actors} + 64) {
  SPINDRIFT_CHECK(wheel_bits_ >= 6 && wheel_bits_ <= 20);
  SPINDRIFT_CHECK(slot_bits_ + kLevels * wheel_bits_ < 63);
  for (auto& bits : used_)
    bits.assign(slots_ / 64, 0);
}

void EventList::schedule(Actor actor, Picoseconds at) {
  SPINDRIFT_DCHECK(!is_scheduled(actor));
  SPINDRIFT_DCHECK(at >= now_);
  SPINDRIFT_DCHECK(may_plan(actor, at));
  put(actor, at);
}

void EventList::reschedule(Actor actor, Picoseconds at) {
  if (is_scheduled(actor)) {
    if (entries_[actor].at == at) return;
    cancel(actor);
  }
  SPINDRIFT_DCHECK(at == kEndOfTime || may_plan(actor, at));
  if (at != kEndOfTime) put(actor, at);
}

void EventList::cancel(Actor actor) {
  Entry& entry = entries_[actor];
  if (entry.where == kNowhere) return;
  if (entry.where == kPresent) {
    std::size_t at = present_at_;
    while (present_[at].actor != actor)
      ++at;
    for (--present_end_; at < present_end_; ++at)
      present_[at] = present_[at + 1];
  } else if (entry.where == kBeyond) {
    std::erase(beyond_, actor);
  } else {
    unlink(actor);
  }
  entry.where = kNowhere;
}

EventList::Actor EventList::next(Picoseconds until) {
  while (present_at_ == present_end_) {
    if (take_next_place()) continue;
    if (load_next_slot()) {
      widen(until);
      continue;
    }
    now_ = std::max(now_, until);
    return kNobody;
  }
  const Due due = present_[present_at_];
  if (due.at > until) {
    now_ = std::max(now_, until);
    return kNobody;
  }
  ++present_at_;
  ++taken_;
  now_ = due.at;
  entries_[due.actor].where = kNowhere;
  return due.actor;
}

void EventList::put_far(Actor actor, std::uint64_t slot) {
  const std::uint64_t differs = slot ^ slot_now_;
  for (unsigned level = 1; level < kLevels; ++level) {
    if (differs >> ((level + 1) * wheel_bits_) != 0) continue;
    const std::uint64_t index = (slot >> (level * wheel_bits_)) & (slots_ - 1);
    link(static_cast<std::uint32_t>(level * slots_ + index), actor);
    return;
  }
  entries_[actor].where = kBeyond;
  beyond_.push_back(actor);
}

// Every actor stands here once at most: what is taken already makes room for all.
void EventList::make_room() {
  const auto first = present_.begin() + static_cast<std::ptrdiff_t>(present_at_);
  std::copy(first, present_.end(), present_.begin());
  present_end_ -= present_at_;
  present_at_ = 0;
  SPINDRIFT_CHECK(present_end_ < present_.size());
}

void EventList::sort_present() {
  std::sort(present_.begin() + static_cast<std::ptrdiff_t>(present_at_),
            present_.begin() + static_cast<std::ptrdiff_t>(present_end_),
            [](const Due& a, const Due& b) { return a.is_before(b); });
}

void EventList::link(std::uint32_t slot, Actor actor) {
  Entry& entry = entries_[actor];
  const Actor head = heads_[slot];
  entry.where = slot;
  entry.next = head;
  entry.previous = kNobody;
  heads_[slot] = actor;
  if (head != kNobody) {
    entries_[head].previous = actor;
    return;
  }
  const std::uint64_t index = slot & (slots_ - 1);
  used_[slot >> wheel_bits_][index / 64] |= 1ULL << (index % 64);
}

void EventList::unlink(Actor actor) {
  const Entry& entry = entries_[actor];
  if (entry.next != kNobody) entries_[entry.next].previous = entry.previous;
  if (entry.previous != kNobody) {
    entries_[entry.previous].next = entry.next;
    return;
  }
  heads_[entry.where] = entry.next;
  if (entry.next != kNobody) return;
  const std::uint64_t index = entry.where & (slots_ - 1);
  used_[entry.where >> wheel_bits_][index / 64] &= ~(1ULL << (index % 64));
}

std::uint64_t EventList::first_used(unsigned level, std::uint64_t from) const {
  if (from >= slots_) return slots_;
  std::uint64_t word = from / 64;
  std::uint64_t bits = used_[level][word] & (~0ULL << (from % 64));
  while (bits == 0) {
    if (++word == slots_ / 64) return slots_;
    bits = used_[level][word];
  }
  return word * 64 + static_cast<std::uint64_t>(std::countr_zero(bits));
}

bool EventList::load_next_slot() {
  present_at_ = 0;
  present_end_ = 0;
  const std::uint64_t index = first_used(0, (slot_now_ & (slots_ - 1)) + 1);
  if (index == slots_) return cascade(1) || cascade(2) || take_back_from_beyond();
  slot_now_ = (slot_now_ & ~(slots_ - 1)) + index;
  append_slot(index);
  sort_present();
  return true;
}

void EventList::append_slot(std::uint64_t index) {
  for (Actor actor = heads_[index]; actor != kNobody; actor = entries_[actor].next)
    append_present(actor);
  heads_[index] = kNobody;
  used_[0][index / 64] &= ~(1ULL << (index % 64));
}

// The slots of a window join the one that was loaded, and all goes by place; not where a turn that
// concerns all, or the caller's limit, lies in the first slot already.
void EventList::widen(Picoseconds until) {
  if (places_.of_actor.empty()) return;
  const auto slot_of = [this](Picoseconds at) {
    return static_cast<std::uint64_t>(at) >> slot_bits_;
  };
  const auto begin = static_cast<Picoseconds>(slot_now_ << slot_bits_);
  std::uint64_t end = std::min(slot_of(begin + places_.window), slot_of(until));
  end = std::min(end, (slot_now_ | (slots_ - 1)) + 1);
  if (is_scheduled(places_.for_all)) end = std::min(end, slot_of(due(places_.for_all)));
  if (end <= slot_now_) return;
  const std::uint64_t turn = slot_now_ & ~(slots_ - 1);
  for (std::uint64_t at = first_used(0, (slot_now_ & (slots_ - 1)) + 1); turn + at < end;
       at = first_used(0, at + 1))
    append_slot(at);
  slot_now_ = end - 1;
  waiting_.clear();
  waiting_at_ = 0;
  for (; present_at_ != present_end_; ++present_at_) {
    const Due& due = present_[present_at_];
    waiting_.push_back({places_.of_actor[due.actor], due});
  }
  std::sort(waiting_.begin(), waiting_.end(), [](const Waiting& a, const Waiting& b) {
    return a.place != b.place ? a.place < b.place : a.due.is_before(b.due);
  });
}

bool EventList::take_next_place() {
  present_at_ = 0;
  present_end_ = 0;
  if (waiting_at_ == waiting_.size()) {
    waiting_.clear();
    waiting_at_ = 0;
    return false;
  }
  const std::uint32_t place = waiting_[waiting_at_].place;
  while (waiting_at_ != waiting_.size() && waiting_[waiting_at_].place == place)
    present_[present_end_++] = waiting_[waiting_at_++].due;
  return true;
}

void EventList::separate(EventPlaces places) {
  SPINDRIFT_CHECK(places.of_actor.size() == entries_.size());
  if (places.window >= Picoseconds{2} << slot_bits_) places_ = std::move(places);
}

// The next used slot of a level becomes a whole turn of the level below.
bool EventList::cascade(unsigned level) {
  const std::uint64_t turn = slot_now_ >> (level * wheel_bits_);
  const std::uint64_t index = first_used(level, (turn & (slots_ - 1)) + 1);
  if (index == slots_) return false;
  slot_now_ = ((turn & ~(slots_ - 1)) + index) << (level * wheel_bits_);
  const std::uint64_t slot = level * slots_ + index;
  Actor actor = heads_[slot];
  heads_[slot] = kNobody;
  used_[level][index / 64] &= ~(1ULL << (index % 64));
  while (actor != kNobody) {
    const Actor following = entries_[actor].next;
    if (static_cast<std::uint64_t>(entries_[actor].at) >> slot_bits_ == slot_now_)
      append_present(actor);
    else
      put(actor, entries_[actor].at);
    actor = following;
  }
  sort_present();
  return true;
}

bool EventList::take_back_from_beyond() {
  if (beyond_.empty()) return false;
  Picoseconds earliest = kEndOfTime;
  for (const Actor actor : beyond_)
    earliest = std::min(earliest, entries_[actor].at);
  slot_now_ = static_cast<std::uint64_t>(earliest) >> slot_bits_;
  std::vector<Actor> actors;
  actors.swap(beyond_);
  for (const Actor actor : actors)
    put(actor, entries_[actor].at);
  return true;
}

}  // namespace spindrift::sim
