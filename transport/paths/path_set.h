#pragma once
// A set of paths: insert, erase and "the next in turn" in O(1). Not ordered.
#include <cstdint>
#include <vector>

#include "spindrift/types.h"

namespace spindrift {

class PathSet {
 public:
  // Paths are numbered 0..path_count-1.
  explicit PathSet(std::uint32_t path_count) : members_(path_count), slots_(path_count) {}

  std::uint32_t size() const { return size_; }
  bool is_empty() const { return size_ == 0; }
  bool contains(PathId path) const { return slots_[path.value] != kAbsent; }
  PathId operator[](std::uint32_t index) const { return members_[index]; }

  void insert(PathId path) {
    if (contains(path)) return;
    slots_[path.value] = static_cast<std::uint16_t>(size_ + 1);
    members_[size_++] = path;
  }
  void erase(PathId path) {
    if (!contains(path)) return;
    const std::uint16_t slot = slots_[path.value];
    const PathId last = members_[--size_];
    members_[slot - 1U] = last;
    slots_[last.value] = slot;
    slots_[path.value] = kAbsent;
  }
  // Members in turn; the set must not be empty.
  PathId next() {
    if (cursor_ >= size_) cursor_ = 0;
    return members_[cursor_++];
  }

 private:
  static constexpr std::uint16_t kAbsent = 0;
  std::vector<PathId> members_;       // the first size_ of it
  std::vector<std::uint16_t> slots_;  // index in members_ plus one
  std::uint32_t size_ = 0;
  std::uint32_t cursor_ = 0;
};

}  // namespace spindrift
