#pragma once
// What one acknowledgement says about paths.
#include <cstddef>
#include <cstdint>
#include <span>

#include "spindrift/path_selector.h"

namespace spindrift {

// Newly acknowledged units, summed per path. A super-packet stays on one path, so few are touched.
class PathTally {
 public:
  explicit PathTally(std::span<PathFeedback> room) : entries_(room) {}
  void add(PathId path, std::uint32_t packets) {
    // Neighbours left in one burst on one path.
    if (count_ != 0 && entries_[last_].path == path) {
      entries_[last_].packets += packets;
      return;
    }
    for (last_ = 0; last_ < count_; ++last_) {
      if (entries_[last_].path != path) continue;
      entries_[last_].packets += packets;
      return;
    }
    if (count_ == entries_.size()) {
      has_overflowed_ = true;
      last_ = 0;
      return;
    }
    entries_[count_++] = PathFeedback{.path = path, .packets = packets};
  }
  std::span<PathFeedback> entries() { return {entries_.data(), count_}; }
  bool has_overflowed() const { return has_overflowed_; }

 private:
  std::span<PathFeedback> entries_;
  std::size_t count_ = 0;
  std::size_t last_ = 0;
  bool has_overflowed_ = false;
};

}  // namespace spindrift
