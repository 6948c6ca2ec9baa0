#include "providers/dpdk/neighbors.h"

#include <algorithm>

namespace spindrift {

NeighborTable::Entry* NeighborTable::find(const NetAddress& address) {
  for (Entry& entry : entries_)
    if (entry.address.is_same_host(address)) return &entry;
  return nullptr;
}

// When all places are taken, a neighbour that nobody uses makes room.
NeighborTable::Entry* NeighborTable::add(const NetAddress& address) {
  if (entries_.size() >= kCapacity) {
    const auto idle = std::find_if(entries_.begin(), entries_.end(),
                                   [](const Entry& entry) { return entry.state == State::kStale; });
    if (idle == entries_.end()) return nullptr;
    entries_.erase(idle);
  }
  Entry entry;
  entry.address = address;
  entry.address.port = 0;
  entry.address.scope = 0;
  entries_.push_back(entry);
  return &entries_.back();
}

void NeighborTable::set_deadline(Entry& entry, Time deadline) {
  entry.deadline = deadline;
  next_deadline_ = std::min(next_deadline_, deadline);
}

void NeighborTable::set_static(const NetAddress& address, const MacAddress& mac) {
  Entry* entry = find(address);
  if (entry == nullptr) entry = add(address);
  if (entry == nullptr) return;
  entry->mac = mac;
  entry->state = State::kStatic;
  entry->deadline = kNever;
  ++generation_;
}

const MacAddress* NeighborTable::use(const NetAddress& address, Time now) {
  Entry* entry = find(address);
  if (entry == nullptr) {
    entry = add(address);
    if (entry == nullptr) return nullptr;
    set_deadline(*entry, now);
    return nullptr;
  }
  entry->is_used = true;
  switch (entry->state) {
    case State::kAsking:
      return nullptr;
    case State::kStale:
      entry->state = State::kChecking;
      entry->asked = 0;
      set_deadline(*entry, now);
      return &entry->mac;
    case State::kReachable:
    case State::kChecking:
    case State::kStatic:
      return &entry->mac;
  }
  return nullptr;
}

void NeighborTable::learn(const News& news, Time now) {
  Entry* entry = find(news.address);
  if (entry == nullptr) {
    if (!news.is_new_welcome) return;
    entry = add(news.address);
    if (entry == nullptr) return;
  }
  if (entry->state == State::kStatic) return;
  const bool has_changed = entry->state != State::kAsking && entry->mac != news.mac;
  if (has_changed) ++generation_;
  // Hearsay of the same address says nothing about whether the neighbour still hears us.
  if (!has_changed && !news.is_confirmed && entry->state != State::kAsking) return;
  entry->mac = news.mac;
  entry->state = State::kReachable;
  entry->asked = 0;
  entry->is_used = false;
  set_deadline(*entry, now + times_.reachable);
}

// Whether there is something to say about the entry. `is_gone`: it is to be forgotten.
bool NeighborTable::on_deadline(Entry& entry, Time now, Due& out, bool& is_gone) const {
  is_gone = false;
  if (entry.state == State::kReachable) {
    if (!entry.is_used) {
      entry.state = State::kStale;
      entry.deadline = kNever;
      return false;
    }
    entry.state = State::kChecking;
    entry.asked = 0;
  }
  if (entry.state != State::kAsking && entry.state != State::kChecking) {
    entry.deadline = kNever;
    return false;
  }
  out = Due{.address = entry.address, .mac = {}, .is_question = true};
  if (entry.asked >= times_.tries) {
    out.is_question = false;
    is_gone = true;
    return true;
  }
  // It may have another address now, which only a question to everybody finds.
  const bool is_alone = entry.state == State::kChecking && 2 * entry.asked < times_.tries;
  if (is_alone) out.mac = entry.mac;
  ++entry.asked;
  entry.deadline = now + times_.retry;
  return true;
}

std::size_t NeighborTable::poll(Time now, std::span<Due> out) {
  if (now < next_deadline_) return 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < entries_.size() && count < out.size();) {
    Entry& entry = entries_[i];
    bool is_gone = false;
    if (entry.deadline <= now && on_deadline(entry, now, out[count], is_gone)) ++count;
    if (!is_gone) {
      ++i;
      continue;
    }
    entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(i));
    ++generation_;
  }
  next_deadline_ = kNever;
  for (const Entry& entry : entries_)
    next_deadline_ = std::min(next_deadline_, entry.deadline);
  return count;
}

}  // namespace spindrift
