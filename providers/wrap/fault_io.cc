#include "providers/wrap/fault_io.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "providers/wrap/forwarding_io.h"
#include "providers/wrap/held_packets.h"
#include "transport/base/check.h"
#include "transport/base/ring.h"
#include "transport/base/rng.h"

namespace spindrift {
namespace {

constexpr std::size_t kSlots = 8192;
constexpr std::size_t kHeaders = 256;
constexpr std::size_t kBatch = 64;
// Packets sent whose payload the inner provider may still reference.
constexpr std::size_t kMaxUnreleased = 65536;

bool is_active(const FaultConfig& config) {
  return config.loss > 0 || config.duplicate > 0 || config.reorder > 0 || config.corrupt > 0 ||
         config.delay > Duration::zero() || config.jitter > Duration::zero() ||
         !config.blackholes.empty();
}

class FaultIoImpl final : public ForwardingIo<FaultIo> {
 public:
  FaultIoImpl(std::unique_ptr<PacketIo> wrapped, const FaultConfig& config);

  void set_faults(const FaultConfig& config) override;
  const PacketIoCaps& caps() const override { return caps_; }
  Result<std::uint16_t> add_rail(const NetAddress& local) override;
  std::size_t receive(std::span<RxPacket> out) override;
  std::size_t reserve(std::span<TxPacket> out) override;
  void send(std::span<const TxPacket> packets) override;
  std::uint64_t released() const override;
  bool has_unsent() const override;
  void counters(CounterWriter& out) const override;

 private:
  struct Delayed {
    Time due{};
    std::uint64_t serial = 0;
    std::uint32_t slot = 0;
    // Inverted for the heap algorithms: the earliest is on top.
    bool operator<(const Delayed& other) const {
      return due != other.due ? due > other.due : serial > other.serial;
    }
  };
  struct Reordered {
    Time due{};
    std::uint64_t due_after = 0;  // packets passed
    std::uint32_t slot = 0;
  };
  struct LentSlot {
    std::uint64_t until = 0;  // inner packets released
    std::uint32_t slot = 0;
  };
  // To be handed to the inner provider: a packet of the caller's, or a copy of ours.
  struct Item {
    const TxPacket* packet = nullptr;
    std::uint32_t slot = 0;
    std::size_t serial = 0;  // of the caller's packet
  };

  void harm(const TxPacket& packet, Time now);
  bool is_in_blackhole(const TxPacket& packet, Time now) const;
  void hold_delayed(std::uint32_t slot, Time now);
  bool has_room();
  void flip_bits(std::uint32_t slot);
  void pass(const TxPacket& packet);
  void pass_slot(std::uint32_t slot);
  void flush_batch();
  std::size_t hand_over(std::size_t first);
  void keep_blocked(std::size_t first);
  void pump();
  void pump_blocked();
  void pass_due_reordered(Time now);
  void free_lent();
  void forget_released() const;

  PacketIoCaps caps_;
  FaultConfig config_;
  bool is_active_ = false;
  Time set_at_{};
  Rng rng_;

  std::vector<std::byte> headers_;
  std::size_t reserved_ = 0;
  HeldPackets held_{kSlots};
  std::vector<Delayed> delayed_;  // a heap
  std::uint64_t next_serial_ = 0;
  Ring<Reordered> reordered_{kSlots};
  Ring<std::uint32_t> blocked_{kSlots};  // slots the inner provider had no room for
  Ring<LentSlot> lent_{kSlots};          // slots the inner provider may still read
  std::array<Item, kBatch> batch_{};
  std::size_t batch_size_ = 0;
  std::array<TxPacket, kBatch> inner_packets_{};
  std::uint64_t passed_ = 0;
  std::uint64_t inner_sent_ = 0;

  // For each packet of the caller, in order: how many inner packets must have been released before
  // its payload is free. Emptied by released(), which has no other way to be up to date.
  mutable Ring<std::uint64_t> unreleased_{kMaxUnreleased};
  std::uint64_t sent_ = 0;

  std::uint64_t lost_ = 0;
  std::uint64_t duplicated_ = 0;
  std::uint64_t reordered_count_ = 0;
  std::uint64_t corrupted_ = 0;
  std::uint64_t delayed_count_ = 0;
  std::uint64_t blackholed_ = 0;
  std::uint64_t overflow_ = 0;
};

FaultIoImpl::FaultIoImpl(std::unique_ptr<PacketIo> wrapped, const FaultConfig& config)
    : ForwardingIo(std::move(wrapped)),
      caps_(inner().caps()),
      rng_(config.seed),
      headers_(kHeaders * kMaxHeaderBytes) {
  delayed_.reserve(kSlots);
  set_faults(config);
}

void FaultIoImpl::set_faults(const FaultConfig& config) {
  config_ = config;
  is_active_ = is_active(config);
  rng_ = Rng(config.seed);
  set_at_ = inner().now();
}

// A rail may change what the inner provider says of itself.
Result<std::uint16_t> FaultIoImpl::add_rail(const NetAddress& local) {
  auto rail = inner().add_rail(local);
  caps_ = inner().caps();
  return rail;
}

std::size_t FaultIoImpl::receive(std::span<RxPacket> out) {
  pump();
  return inner().receive(out);
}

// Every packet reserved could be held if the inner provider had no room by then: the promise.
std::size_t FaultIoImpl::reserve(std::span<TxPacket> out) {
  pump();
  reserved_ = 0;
  forget_released();
  if (!blocked_.is_empty()) return 0;
  const std::size_t count = std::min(
      {out.size(), kHeaders, held_.free_slots(), unreleased_.capacity() - unreleased_.size()});
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = TxPacket{};
    out[i].header = std::span(headers_).subspan(i * kMaxHeaderBytes, kMaxHeaderBytes);
  }
  reserved_ = count;
  return count;
}

void FaultIoImpl::send(std::span<const TxPacket> packets) {
  SPINDRIFT_CHECK(packets.size() <= reserved_);
  reserved_ = 0;
  const Time now = is_active_ ? inner().now() : Time{};
  for (const TxPacket& packet : packets) {
    unreleased_.push_back(0);
    ++sent_;
    const bool is_selected = is_active_ && config_.rails.contains(packet.rail) &&
                             config_.entropies.contains(packet.entropy);
    if (is_selected) {
      harm(packet, now);
    } else {
      pass(packet);
    }
    pass_due_reordered(now);
  }
  flush_batch();
}

void FaultIoImpl::harm(const TxPacket& packet, Time now) {
  if (is_in_blackhole(packet, now)) {
    ++blackholed_;
    return;
  }
  if (rng_.chance(config_.loss)) {
    ++lost_;
    return;
  }
  const bool is_corrupted = rng_.chance(config_.corrupt);
  const bool is_duplicated = rng_.chance(config_.duplicate);
  const bool is_reordered = rng_.chance(config_.reorder);
  const bool is_delayed = config_.delay > Duration::zero() || config_.jitter > Duration::zero();
  if (is_duplicated && has_room()) {
    ++duplicated_;
    const std::uint32_t slot = held_.copy(packet);
    if (is_delayed) {
      hold_delayed(slot, now);
    } else {
      pass_slot(slot);
    }
  }
  if (!is_corrupted && !is_reordered && !is_delayed) {
    pass(packet);
    return;
  }
  if (!has_room()) return;
  const std::uint32_t slot = held_.copy(packet);
  if (is_corrupted) flip_bits(slot);
  if (is_reordered) {
    ++reordered_count_;
    reordered_.push_back(Reordered{now + config_.reorder_time + config_.delay,
                                   passed_ + config_.reorder_packets, slot});
  } else if (is_delayed) {
    ++delayed_count_;
    hold_delayed(slot, now);
  } else {
    pass_slot(slot);
  }
}

bool FaultIoImpl::is_in_blackhole(const TxPacket& packet, Time now) const {
  const Duration age = now - set_at_;
  return std::any_of(config_.blackholes.begin(), config_.blackholes.end(),
                     [&](const Blackhole& hole) {
                       return hole.entropies.contains(packet.entropy) && age >= hole.start &&
                              age < hole.start + hole.length;
                     });
}

// Faults leave enough slots for a whole reservation that the inner provider has no room for. A
// packet without a slot is dropped.
bool FaultIoImpl::has_room() {
  if (held_.free_slots() > kHeaders + kBatch) return true;
  ++overflow_;
  return false;
}

void FaultIoImpl::hold_delayed(std::uint32_t slot, Time now) {
  Duration delay = config_.delay;
  if (config_.jitter > Duration::zero()) {
    const auto bound = static_cast<std::uint64_t>(config_.jitter.count()) + 1;
    delay += Duration(static_cast<std::int64_t>(rng_.below(bound)));
  }
  delayed_.push_back(Delayed{now + delay, next_serial_++, slot});
  std::push_heap(delayed_.begin(), delayed_.end());
}

void FaultIoImpl::flip_bits(std::uint32_t slot) {
  HeldPacket& packet = held_[slot];
  if (packet.bytes.empty()) return;
  ++corrupted_;
  // Distinct bits, so that no flip undoes another.
  const std::uint64_t bits = packet.bytes.size() * 8;
  const std::uint64_t flips = 1 + rng_.below(3);
  const std::uint64_t start = rng_.below(bits);
  for (std::uint64_t i = 0; i < flips; ++i) {
    const std::uint64_t bit = (start + i * 11) % bits;
    packet.bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  }
}

void FaultIoImpl::pass(const TxPacket& packet) {
  if (batch_size_ == kBatch) flush_batch();
  batch_[batch_size_++] = Item{&packet, 0, unreleased_.end_serial() - 1};
  ++passed_;
}

void FaultIoImpl::pass_slot(std::uint32_t slot) {
  if (batch_size_ == kBatch) flush_batch();
  batch_[batch_size_++] = Item{nullptr, slot, 0};
  ++passed_;
}

void FaultIoImpl::flush_batch() {
  std::size_t done = 0;
  if (blocked_.is_empty()) {
    while (done < batch_size_) {
      const std::size_t taken = hand_over(done);
      if (taken == 0) break;
      done += taken;
    }
  }
  keep_blocked(done);
  batch_size_ = 0;
}

// Sends what the inner provider has room for, from batch_[first]; returns how many.
std::size_t FaultIoImpl::hand_over(std::size_t first) {
  const std::size_t count = inner().reserve(std::span(inner_packets_).first(batch_size_ - first));
  for (std::size_t i = 0; i < count; ++i) {
    const Item& item = batch_[first + i];
    TxPacket& target = inner_packets_[i];
    const std::uint64_t until = inner_sent_ + i + 1;
    if (item.packet == nullptr) {
      held_.fill(target, item.slot);
      lent_.push_back(LentSlot{until, item.slot});
      continue;
    }
    const std::span<std::byte> header = target.header.first(item.packet->header.size());
    if (!header.empty()) std::memcpy(header.data(), item.packet->header.data(), header.size());
    target = *item.packet;
    target.header = header;
    unreleased_.at_serial(item.serial) = until;
  }
  if (count > 0) inner().send(std::span(inner_packets_).first(count));
  inner_sent_ += count;
  return count;
}

void FaultIoImpl::keep_blocked(std::size_t first) {
  for (std::size_t i = first; i < batch_size_; ++i) {
    const Item& item = batch_[i];
    blocked_.push_back(item.packet == nullptr ? item.slot : held_.copy(*item.packet));
  }
}

void FaultIoImpl::pump() {
  free_lent();
  if (!blocked_.is_empty()) pump_blocked();
  if (delayed_.empty() && reordered_.is_empty()) return;
  const Time now = inner().now();
  while (!delayed_.empty() && delayed_.front().due <= now) {
    const std::uint32_t slot = delayed_.front().slot;
    std::pop_heap(delayed_.begin(), delayed_.end());
    delayed_.pop_back();
    pass_slot(slot);
  }
  pass_due_reordered(now);
  flush_batch();
}

void FaultIoImpl::pump_blocked() {
  while (!blocked_.is_empty()) {
    batch_size_ = std::min(blocked_.size(), kBatch);
    for (std::size_t i = 0; i < batch_size_; ++i)
      batch_[i] = Item{nullptr, blocked_[i], 0};
    const std::size_t taken = hand_over(0);
    batch_size_ = 0;
    if (taken == 0) return;
    for (std::size_t i = 0; i < taken; ++i)
      blocked_.pop_front();
  }
}

void FaultIoImpl::pass_due_reordered(Time now) {
  while (!reordered_.is_empty() &&
         (reordered_.front().due_after <= passed_ || reordered_.front().due <= now)) {
    const std::uint32_t slot = reordered_.front().slot;
    reordered_.pop_front();
    pass_slot(slot);
  }
}

void FaultIoImpl::free_lent() {
  const std::uint64_t released = inner().released();
  while (!lent_.is_empty() && lent_.front().until <= released) {
    held_.free(lent_.front().slot);
    lent_.pop_front();
  }
}

void FaultIoImpl::forget_released() const {
  const std::uint64_t inner_released = inner().released();
  while (!unreleased_.is_empty() && unreleased_.front() <= inner_released) {
    unreleased_.pop_front();
  }
}

std::uint64_t FaultIoImpl::released() const {
  forget_released();
  return sent_ - unreleased_.size();
}

bool FaultIoImpl::has_unsent() const {
  return !delayed_.empty() || !reordered_.is_empty() || !blocked_.is_empty() ||
         inner().has_unsent();
}

void FaultIoImpl::counters(CounterWriter& out) const {
  inner().counters(out);
  out.counter("fault_lost_packets", lost_);
  out.counter("fault_duplicated_packets", duplicated_);
  out.counter("fault_reordered_packets", reordered_count_);
  out.counter("fault_corrupted_packets", corrupted_);
  out.counter("fault_delayed_packets", delayed_count_);
  out.counter("fault_blackholed_packets", blackholed_);
  out.counter("fault_overflow_packets", overflow_);
}

}  // namespace

std::unique_ptr<FaultIo> wrap_with_faults(std::unique_ptr<PacketIo> inner,
                                          const FaultConfig& config) {
  return std::make_unique<FaultIoImpl>(std::move(inner), config);
}

}  // namespace spindrift
