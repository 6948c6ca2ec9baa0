#pragma once
// A FIFO of fixed capacity, sized once.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "transport/base/check.h"

namespace spindrift {

template <class T>
class Ring {
 public:
  explicit Ring(std::size_t capacity)
      : capacity_(capacity),
        mask_(std::bit_ceil(capacity == 0 ? 1 : capacity) - 1),
        slots_(std::make_unique<T[]>(mask_ + 1)) {}

  std::size_t size() const { return tail_ - head_; }
  std::size_t capacity() const { return capacity_; }
  bool is_empty() const { return head_ == tail_; }
  bool is_full() const { return size() >= capacity_; }

  // The slot is handed out as it was left: assign every field.
  T& push_back() {
    SPINDRIFT_DCHECK(!is_full());
    return slots_[tail_++ & mask_];
  }
  void push_back(T value) { push_back() = std::move(value); }
  void pop_front() {
    SPINDRIFT_DCHECK(!is_empty());
    ++head_;
  }
  T& front() { return slots_[head_ & mask_]; }
  const T& front() const { return slots_[head_ & mask_]; }
  // index 0 is the front
  T& operator[](std::size_t index) { return slots_[(head_ + index) & mask_]; }
  const T& operator[](std::size_t index) const { return slots_[(head_ + index) & mask_]; }
  // Elements have serial numbers that count from 0 and never repeat.
  std::uint64_t front_serial() const { return head_; }
  std::uint64_t end_serial() const { return tail_; }
  bool contains_serial(std::uint64_t serial) const { return serial >= head_ && serial < tail_; }
  T& at_serial(std::uint64_t serial) { return slots_[serial & mask_]; }
  const T& at_serial(std::uint64_t serial) const { return slots_[serial & mask_]; }
  void clear() { head_ = tail_; }

 private:
  std::size_t capacity_;
  std::uint64_t mask_;
  std::unique_ptr<T[]> slots_;
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
};

}  // namespace spindrift
