#pragma once
// Messages of one peer, in the order in which it posted them, whatever the order in which the
// medium delivers them: libfabric promises none (FI_ORDER_SAS) unless a provider says so, and EFA
// does not. Internal to providers/libfabric.
#include <bit>
#include <cstdint>
#include <vector>

namespace spindrift {

// `Item` is a pointer; null: not there.
template <class Item>
class OfiArrivals {
 public:
  // `window`: messages that the peer may have sent and that were not released yet.
  explicit OfiArrivals(std::uint32_t window)
      : window_(window), slots_(std::bit_ceil(window), nullptr) {}

  // False: no honest peer sends that number now.
  bool put(std::uint32_t number, Item item) {
    if (number - released_ >= window_ || number - next_ >= window_) return false;
    Item& slot = at(number);
    if (slot != nullptr) return false;
    slot = item;
    while (arrived_ - released_ < window_ && at(arrived_) != nullptr)
      ++arrived_;
    return true;
  }
  // Whether that number has come before. Asked where messages may come twice.
  bool has_had(std::uint32_t number) const {
    if (static_cast<std::int32_t>(number - arrived_) < 0) return true;
    return number - released_ < window_ && slots_[number & (slots_.size() - 1)] != nullptr;
  }
  // How many have arrived without a gap, and how many of these were handed out and released, ever.
  std::uint32_t arrived() const { return arrived_; }
  std::uint32_t released() const { return released_; }
  std::uint32_t held() const { return next_ - released_; }
  bool has_next() const { return next_ != arrived_; }
  // The next one; it stays until it is released.
  Item take() { return at(next_++); }
  Item oldest_held() const { return slots_[released_ & (slots_.size() - 1)]; }
  // The oldest that was handed out.
  Item release() {
    Item& slot = at(released_++);
    const Item item = slot;
    slot = nullptr;
    return item;
  }
  // Everything that is here, for whoever gives it back; nothing is expected any more.
  template <class GiveBack>
  void clear(const GiveBack& give_back) {
    for (Item& slot : slots_) {
      if (slot != nullptr) give_back(slot);
      slot = nullptr;
    }
    arrived_ = next_;
  }

 private:
  // Numbers wrap around at 2^32, which must not move a slot: their number is a power of two.
  Item& at(std::uint32_t number) { return slots_[number & (slots_.size() - 1)]; }

  std::uint32_t window_;
  std::vector<Item> slots_;
  std::uint32_t released_ = 0;
  std::uint32_t next_ = 0;
  std::uint32_t arrived_ = 0;
};

}  // namespace spindrift
