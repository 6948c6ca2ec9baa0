#pragma once
// CLOCK_MONOTONIC, read by way of the processor's time stamp counter: three quarters of the time of
// clock_gettime(), which a turn that polls memory links is made of otherwise. The counter is tied
// to the kernel's clock anew every millisecond, never backwards for any thread; where the two do
// not run alike (no invariant counter, a machine that slept), the kernel's clock is what is read.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace spindrift {

// `Source`: static ticks(), nanoseconds() and has_steady_ticks(). The ticks are read after whatever
// the thread has read before, as of other threads' times.
template <class Source>
class TickClock {
 public:
  // Any thread.
  std::int64_t now() {
    const Reading reading = read();
    if (!reading.is_whole || reading.passed >= reading.anchor.valid_ticks) [[unlikely]]
      return tie_and_read(reading.is_whole);
    return at(reading.anchor, reading.passed);
  }
  bool uses_ticks() const { return valid_ticks_.load(std::memory_order_relaxed) != 0; }

 private:
  static constexpr std::int64_t kInterval = 1'000'000;  // ns
  // Of both clocks read together: a processor that was taken away in between makes them differ.
  static constexpr std::uint64_t kGoodTicksApart = 512;
  static constexpr std::uint64_t kMostTicksApart = 4096;
  static constexpr int kTries = 4;
  // While one thread ties them together, or is kept from it, the others go on by what they have for
  // so many intervals: longer than a turn of the scheduler.
  static constexpr std::uint64_t kMostIntervals = 16;
  // Clocks further apart than that, and one part in 1000, do not run alike.
  static constexpr std::int64_t kMostError = 50'000;  // ns

  struct Anchor {
    std::uint64_t ticks = 0;
    std::int64_t nanoseconds = 0;
    std::uint64_t rate = 0;         // ns per tick, 32 bits behind the point
    std::uint64_t valid_ticks = 0;  // 0: nothing is known yet
  };
  struct Reading {
    Anchor anchor;
    std::uint64_t passed = 0;  // ticks since then
    bool is_whole = false;
  };
  struct Pair {
    std::uint64_t ticks = 0;
    std::int64_t nanoseconds = 0;
    bool is_close = false;
  };

  static std::int64_t scaled(std::uint64_t ticks, std::uint64_t rate) {
    return static_cast<std::int64_t>((static_cast<__uint128_t>(ticks) * rate) >> 32U);
  }
  static std::int64_t at(const Anchor& anchor, std::uint64_t passed) {
    return anchor.nanoseconds + scaled(passed, anchor.rate);
  }
  // Where others may have been: not beyond what is allowed, nor before the anchor.
  static std::int64_t at_most(const Anchor& anchor, std::uint64_t passed) {
    const bool is_before = passed > UINT64_MAX / 2;
    return at(anchor, is_before ? 0 : std::min(passed, kMostIntervals * anchor.valid_ticks));
  }
  // The ticks are those before the kernel's clock was read: what goes on from there is not behind
  // what others read of that clock.
  static Pair read_both() {
    Pair best;
    std::uint64_t least = UINT64_MAX;
    for (int i = 0; i < kTries && least > kGoodTicksApart; ++i) {
      const std::uint64_t before = Source::ticks();
      const std::int64_t nanoseconds = Source::nanoseconds();
      const std::uint64_t apart = Source::ticks() - before;
      if (apart >= least) continue;
      least = apart;
      best = {.ticks = before, .nanoseconds = nanoseconds};
    }
    best.is_close = least <= kMostTicksApart;
    return best;
  }
  // Whoever sees one of the new numbers sees the odd version, too, or a later one.
  Anchor load() const {
    return {.ticks = ticks_.load(std::memory_order_acquire),
            .nanoseconds = nanoseconds_.load(std::memory_order_acquire),
            .rate = rate_.load(std::memory_order_acquire),
            .valid_ticks = valid_ticks_.load(std::memory_order_acquire)};
  }
  Reading read() const {
    const std::uint32_t version = version_.load(std::memory_order_acquire);
    const Anchor anchor = load();
    const std::uint64_t passed = Source::ticks() - anchor.ticks;
    return {.anchor = anchor,
            .passed = passed,
            .is_whole = version % 2 == 0 && version == version_.load(std::memory_order_relaxed)};
  }
  void begin_change() { version_.fetch_add(1, std::memory_order_acq_rel); }
  void end_change(const Anchor& anchor) {
    ticks_.store(anchor.ticks, std::memory_order_release);
    nanoseconds_.store(anchor.nanoseconds, std::memory_order_release);
    rate_.store(anchor.rate, std::memory_order_release);
    valid_ticks_.store(anchor.valid_ticks, std::memory_order_release);
    version_.fetch_add(1, std::memory_order_release);
  }

  std::int64_t tie_and_read(bool is_whole) {
    if (is_off_.load(std::memory_order_relaxed)) return Source::nanoseconds();
    if (is_whole && !is_tying_.exchange(true, std::memory_order_acquire)) {
      tie();
      is_tying_.store(false, std::memory_order_release);
    }
    const Reading reading = read();
    if (!reading.is_whole) return Source::nanoseconds();
    const Anchor& anchor = reading.anchor;
    if (reading.passed < kMostIntervals * anchor.valid_ticks) return at(anchor, reading.passed);
    return std::max(Source::nanoseconds(), at_most(anchor, reading.passed));
  }
  void tie() {
    const bool is_first = last_.ticks == 0;
    if (is_first && !Source::has_steady_ticks()) return turn_off();
    const Pair pair = read_both();
    if (!pair.is_close) return;
    if (is_first) last_ = pair;
    if (pair.ticks < last_.ticks) return turn_off();
    const std::uint64_t ticks = pair.ticks - last_.ticks;
    const std::int64_t span = pair.nanoseconds - last_.nanoseconds;
    const std::int64_t error = scaled(ticks, last_rate_) - span;
    if (last_rate_ != 0 && std::abs(error) > kMostError + span / 1000) return turn_off();
    if (span < kInterval) return;
    last_ = pair;
    last_rate_ = static_cast<std::uint64_t>((static_cast<__uint128_t>(span) << 32U) / ticks);
    go_on_from(pair);
  }
  // No reader of the old anchor has gone further than this, whenever it looked: the ticks are read
  // after the change began.
  void go_on_from(const Pair& pair) {
    begin_change();
    const Anchor old = load();
    const std::uint64_t ticks = Source::ticks();
    const std::int64_t kernels = pair.nanoseconds + scaled(ticks - pair.ticks, last_rate_);
    const std::int64_t shown = at_most(old, ticks - old.ticks);
    const std::int64_t now = std::max(kernels, shown);
    // Ahead of the kernel's clock it goes slower, until that has come up.
    const std::int64_t ahead = std::min(now - kernels, kInterval / 2);
    const std::uint64_t slower = last_rate_ / kInterval * static_cast<std::uint64_t>(ahead);
    end_change({.ticks = ticks,
                .nanoseconds = now,
                .rate = last_rate_ - slower,
                .valid_ticks = (static_cast<std::uint64_t>(kInterval) << 32U) / last_rate_});
  }
  void turn_off() {
    is_off_.store(true, std::memory_order_relaxed);
    begin_change();
    end_change({});
  }

  std::atomic<std::uint32_t> version_{0};  // odd while the next four change
  std::atomic<std::uint64_t> ticks_{0};
  std::atomic<std::int64_t> nanoseconds_{0};
  std::atomic<std::uint64_t> rate_{0};
  std::atomic<std::uint64_t> valid_ticks_{0};
  std::atomic<bool> is_off_{false};
  std::atomic<bool> is_tying_{false};
  // Of who ties: the last time, and the true rate of the time before.
  Pair last_{};
  std::uint64_t last_rate_ = 0;
};

}  // namespace spindrift
