#pragma once
// One communicator's part of the segments of memory that the ranks of a host show one another
// (spindrift/host_segments.h): a few slots for each rank, written by it alone.
//
//   0      state line: whether the owner sleeps
//   64     a head line for each slot: number of the round, what call, the payload if it is short
//   ...    the slots' longer payloads, kSlotBytes each
//
// A call is one or more rounds, and rounds are numbered through all calls of the communicator:
// every rank publishes every round once, in order, in slot number % kSlots, and by that says that
// it is through with all rounds before it. So a slot may be written again when all others have
// published the round that follows its old one.
//
// Nothing that another rank writes is an offset or a length here: of the head only the number and
// the fingerprint are looked at, the rest is payload of the length that the own call has.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace spindrift::collectives {

struct alignas(64) SharedHead {
  static constexpr std::size_t kShortBytes = 48;
  std::atomic<std::uint64_t> number;  // of the round, from 1 on; written last, read first
  std::uint32_t fingerprint;
  std::uint32_t unused;
  std::array<std::byte, kShortBytes> payload;
};
static_assert(sizeof(SharedHead) == 64 && std::atomic<std::uint64_t>::is_always_lock_free);

class SharedArea final {
 public:
  static constexpr std::uint32_t kSlots = 4;
  static constexpr std::size_t kSlotBytes = 65536;  // of payload
  static constexpr std::size_t kPayloadAt = 4096;
  static constexpr std::size_t kBytes = kPayloadAt + kSlots * kSlotBytes;
  // Communicators of one session that have one; further ones send messages.
  static constexpr std::uint32_t kAreas = 32;

  // `members`: kBytes of each rank of the group, zeros before its first call; the own one writable.
  SharedArea(std::uint32_t rank, const std::vector<std::span<const std::byte>>& members,
             std::span<std::byte> own);

  std::uint32_t rank() const { return rank_; }
  std::uint32_t ranks() const { return static_cast<std::uint32_t>(members_.size()); }

  // Takes the numbers of a call's rounds; calls take theirs in the order in which they start.
  std::uint64_t take_rounds(std::uint64_t count) {
    const std::uint64_t first = taken_;
    taken_ += count;
    return first;
  }
  // The oldest round that this rank is not through with.
  std::uint64_t round() const { return round_; }
  void finish_round() { ++round_; }

  // Whether this rank may write the slot of round(): the others are through with what was there.
  bool may_write() { return round_ < free_until_ || has_room(); }
  // All have published round().
  void note_all_here() { free_until_ = round_ + kSlots; }
  // kSlotBytes at least; what is put there is seen by the others from publish() on. `bytes` is that
  // of the payload: short ones travel with the head.
  std::byte* own_payload(std::size_t bytes) {
    if (bytes <= SharedHead::kShortBytes) return own_head().payload.data();
    return own_ + kPayloadAt + round_ % kSlots * kSlotBytes;
  }
  void publish(std::uint32_t fingerprint) {
    own_head().fingerprint = fingerprint;
    own_head().number.store(round_ + 1, std::memory_order_release);
  }

  enum class Found : std::uint8_t { kNotYet, kHere, kOtherCall };
  // Whether the rank has published round().
  Found look(std::uint32_t rank, std::uint32_t fingerprint) const {
    const SharedHead& there = head(rank, round_);
    const std::uint64_t number = there.number.load(std::memory_order_acquire);
    if (number <= round_) return Found::kNotYet;
    const std::uint32_t found = *const_cast<const volatile std::uint32_t*>(&there.fingerprint);
    return number == round_ + 1 && found == fingerprint ? Found::kHere : Found::kOtherCall;
  }
  const std::byte* payload(std::uint32_t rank, std::size_t bytes) const {
    if (bytes <= SharedHead::kShortBytes) return head(rank, round_).payload.data();
    return members_[rank] + kPayloadAt + round_ % kSlots * kSlotBytes;
  }
  bool has_published(std::uint32_t rank, std::uint64_t round) const {
    // Later rounds stand in the same slot only when this rank has published those in between.
    return head(rank, round).number.load(std::memory_order_acquire) > round;
  }

  // Who sleeps is to be woken, by other means, after publish(). No fence orders the two, for every
  // call would pay for it: who says that it sleeps looks at the slots once more some microseconds
  // later, when what others had published before they saw it has long arrived.
  void set_asleep(bool is_asleep);
  bool is_asleep(std::uint32_t rank) const {
    return state(rank).is_asleep.load(std::memory_order_relaxed) != 0;
  }

 private:
  struct State {
    alignas(64) std::atomic<std::uint32_t> is_asleep;
  };
  bool has_room();
  const State& state(std::uint32_t rank) const {
    return *reinterpret_cast<const State*>(members_[rank]);
  }
  const SharedHead& head(std::uint32_t rank, std::uint64_t round) const {
    return reinterpret_cast<const SharedHead*>(members_[rank] + sizeof(State))[round % kSlots];
  }
  SharedHead& own_head() const {
    return reinterpret_cast<SharedHead*>(own_ + sizeof(State))[round_ % kSlots];
  }

  const std::uint32_t rank_;
  std::vector<const std::byte*> members_;
  std::byte* const own_;
  std::uint64_t taken_ = 0;
  std::uint64_t round_ = 0;
  std::uint64_t free_until_ = kSlots;  // rounds before it may be written
};

}  // namespace spindrift::collectives
