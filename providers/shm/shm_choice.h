#pragma once
// Which way long messages go: through the rings, copied by both processors at once, or read by the
// peer, copied once. Which is faster depends on how far apart the two processors are (caches that
// they share, or none), on the kernel, and on whether the bytes are in a cache; where processors
// are virtual it changes from one minute to the next. So it is measured, on the messages
// themselves. Internal to providers/shm.
#include <algorithm>
#include <cstdint>

namespace spindrift {

// How fast copies are, in bytes per microsecond: a few together without the slowest of them, in
// which somebody else may have had a turn on the processor.
class ShmCopyRate final {
 public:
  void add(std::uint32_t bytes, std::int64_t nanoseconds) {
    const Copy copy{.bytes = bytes, .nanoseconds = std::max<std::int64_t>(nanoseconds, 1)};
    if (copies_ == 0 || copy.is_slower_than(slowest_)) slowest_ = copy;
    all_.bytes += copy.bytes;
    all_.nanoseconds += copy.nanoseconds;
    if (++copies_ < kCopies) return;
    const std::int64_t rate =
        (all_.bytes - slowest_.bytes) * 1000 / (all_.nanoseconds - slowest_.nanoseconds);
    value_ = static_cast<std::uint32_t>(std::clamp<std::int64_t>(rate, 1, kMost));
    copies_ = 0;
    all_ = {};
  }
  // 0: not known yet.
  std::uint32_t value() const { return value_; }

 private:
  struct Copy {
    std::int64_t bytes = 0;
    std::int64_t nanoseconds = 0;
    bool is_slower_than(const Copy& other) const {
      return nanoseconds * other.bytes > other.nanoseconds * bytes;
    }
  };
  static constexpr std::uint32_t kCopies = 4;
  static constexpr std::int64_t kMost = 1 << 30;
  std::uint32_t copies_ = 0;
  Copy all_;
  Copy slowest_;
  std::uint32_t value_ = 0;
};

// What a receiver shows the sender of how fast it takes things; 0 where it does not know. Anything,
// for it is a peer's.
struct ShmTakenRates {
  std::uint32_t ring = 0;   // out of the ring
  std::uint32_t reads = 0;  // of the sender's memory
};

// Of the messages to one peer.
class ShmChoice final {
 public:
  static constexpr std::int64_t kTryBytes = 4LL << 20;  // by the way that is thought to be slower
  // By the other between two tries: twice as many after each that changed nothing.
  static constexpr std::int64_t kFewestBytes = 16LL << 20;
  static constexpr std::int64_t kMostBytes = 1LL << 30;
  static constexpr std::uint32_t kTimedBytes = 8192;  // shorter copies say little

  // Whether the next message had better be read. Does not change but in note_moved().
  bool reads() const { return reads_; }
  // One in a few of the copies into the ring is timed: looking at the clock costs, too.
  bool is_timed() { return ++copies_ % kTimedEvery == 0; }
  void note_copy(std::uint32_t bytes, std::int64_t nanoseconds) { ring_.add(bytes, nanoseconds); }
  // `bytes` went one way or the other.
  void note_moved(std::uint64_t bytes, const ShmTakenRates& taken) {
    const bool before = prefers_reads_;
    judge(taken);
    left_ -= static_cast<std::int64_t>(std::min<std::uint64_t>(bytes, kMostBytes));
    if (prefers_reads_ != before) {
      tries_ = false;
      left_ = interval_ = kFewestBytes;
    } else if (left_ <= 0) {
      tries_ = !tries_;
      if (!tries_) interval_ = std::min(2 * interval_, kMostBytes);
      left_ = tries_ ? kTryBytes : interval_;
    }
    reads_ = prefers_reads_ != tries_;
  }

 private:
  static constexpr std::uint32_t kTimedEvery = 8;
  void judge(const ShmTakenRates& taken) {
    // As if one processor did both copies: where both directions are busy, each does.
    const std::uint64_t both = std::uint64_t{ring_.value()} + taken.ring;
    const std::uint64_t ring_rate =
        both == 0 ? 0 : std::uint64_t{ring_.value()} * taken.ring / both;
    const std::uint64_t read_rate = taken.reads;
    // Not for little: what is measured wavers.
    if (ring_rate != 0 && read_rate > ring_rate + ring_rate / 4) prefers_reads_ = true;
    if (ring_rate > read_rate + read_rate / 4) prefers_reads_ = false;
  }

  bool reads_ = false;
  bool prefers_reads_ = false;
  std::uint32_t copies_ = 0;
  bool tries_ = false;
  std::int64_t interval_ = kFewestBytes / 2;
  std::int64_t left_ = kTryBytes;  // until the next try, or of this one
  ShmCopyRate ring_;
};

}  // namespace spindrift
