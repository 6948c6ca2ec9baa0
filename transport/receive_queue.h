#pragma once
// Posted RECEIVEs of one connection, named by receive sequence number: slot k is met by the k-th
// SEND or WRITE_WITH_IMM of the peer, whatever of it arrives first.
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "spindrift/work.h"

#include "transport/base/ring.h"

namespace spindrift {

struct PostedReceive {
  std::uint64_t user_data = 0;
  std::uint64_t capacity_bytes = 0;
  Time deadline = kNever;
  std::uint32_t line_ordered = 0;
  std::uint8_t sge_count = 0;
  bool is_shared = false;
  std::array<Sge, kMaxSge> sge{};
  std::span<const Sge> list() const { return {sge.data(), sge_count}; }
};

struct ReceiveSlot {
  enum class State : std::uint8_t {
    kPosted,    // waits for its message
    kArriving,  // some of its message has arrived
    kVacant,    // its RECEIVE timed out; the next one posted takes the place
  };
  PostedReceive posted{};
  std::uint64_t received_bytes = 0;
  Psn last_psn{};  // of the message; valid when has_end
  std::uint32_t message_bytes = 0;
  std::uint32_t immediate = 0;
  State state = State::kPosted;
  bool has_end = false;
  bool is_write = false;  // met by a WRITE_WITH_IMM
};

// RECEIVEs for any connection that names the queue.
struct SharedReceiveQueue {
  explicit SharedReceiveQueue(std::uint32_t capacity) : posted(capacity) {}
  Ring<PostedReceive> posted;
};

class ReceiveQueue {
 public:
  ReceiveQueue(std::uint32_t capacity, SharedReceiveQueue* shared)
      : slots_(capacity), shared_(shared) {}

  bool is_shared() const { return shared_ != nullptr; }
  bool has_room() const { return vacancies_ != 0 || !slots_.is_full(); }
  // A new one, to be filled by the caller; there must be room.
  PostedReceive& post() { return vacancies_ != 0 ? vacancy() : append(); }
  // The slot of message `sequence` (32-bit, from the peer); null when no RECEIVE is there for it,
  // or it was completed before.
  ReceiveSlot* find(std::uint32_t sequence) {
    const auto ahead =
        static_cast<std::int32_t>(sequence - static_cast<std::uint32_t>(slots_.front_serial()));
    if (ahead < 0) return nullptr;
    const auto index = static_cast<std::size_t>(ahead);
    if (index >= slots_.size() && !bind(index)) return nullptr;
    ReceiveSlot& slot = slots_[index];
    return slot.state == ReceiveSlot::State::kVacant ? nullptr : &slot;
  }
  // Message `sequence` was completed before: no honest peer sends a new packet of it.
  bool is_past(std::uint32_t sequence) const {
    return static_cast<std::int32_t>(sequence - static_cast<std::uint32_t>(slots_.front_serial())) <
           0;
  }
  bool is_empty() const { return slots_.is_empty(); }
  ReceiveSlot& front() { return slots_.front(); }
  const ReceiveSlot& front() const { return slots_.front(); }
  void pop() {
    if (slots_.front().state == ReceiveSlot::State::kVacant) --vacancies_;
    slots_.pop_front();
  }
  std::size_t size() const { return slots_.size(); }
  ReceiveSlot& at(std::size_t index) { return slots_[index]; }
  void vacate(ReceiveSlot& slot) {
    slot.state = ReceiveSlot::State::kVacant;
    ++vacancies_;
  }
  // RECEIVEs ever made available to the peer, modulo 2^32. With a shared queue it counts what is
  // there now: others may take it first, and then the peer is told that the receiver is not ready.
  std::uint32_t credits() const {
    std::uint64_t total = slots_.end_serial();
    if (shared_ != nullptr)
      total += std::min(shared_->posted.size(), slots_.capacity() - slots_.size());
    return static_cast<std::uint32_t>(total);
  }
  std::uint64_t consumed() const { return slots_.front_serial(); }

 private:
  PostedReceive& append() {
    ReceiveSlot& slot = slots_.push_back();
    slot = ReceiveSlot{};
    return slot.posted;
  }
  PostedReceive& vacancy() {
    std::size_t i = 0;
    while (slots_[i].state != ReceiveSlot::State::kVacant)
      ++i;
    slots_[i] = ReceiveSlot{};
    --vacancies_;
    return slots_[i].posted;
  }
  // All slots up to `index`, in order, or none: a later message must not take the last buffer that
  // an earlier one of the same connection needs.
  bool bind(std::size_t index) {
    if (shared_ == nullptr || index >= slots_.capacity()) return false;
    if (shared_->posted.size() < index + 1 - slots_.size()) return false;
    while (slots_.size() <= index) {
      append() = shared_->posted.front();
      shared_->posted.pop_front();
    }
    return true;
  }

  Ring<ReceiveSlot> slots_;
  SharedReceiveQueue* shared_;
  std::uint32_t vacancies_ = 0;
};

}  // namespace spindrift
