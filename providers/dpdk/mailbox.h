#pragma once
// What a port holds for one endpoint: frames that came to another endpoint's queue, and what the
// network said of packets sent. Internal to providers/dpdk.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include <rte_mbuf.h>
#include <rte_ring.h>

#include "spindrift/provider.h"
#include "spindrift/result.h"

#include "providers/dpdk/eal.h"
#include "providers/dpdk/spin_lock.h"

namespace spindrift {

class Mailbox {
 public:
  static constexpr unsigned kFrames = 1024;
  Mailbox() = default;
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;
  ~Mailbox() {
    std::array<rte_mbuf*, 64> left{};
    for (std::size_t n = take(left); n != 0; n = take(left))
      rte_pktmbuf_free_bulk(left.data(), static_cast<unsigned>(n));
    const ControlThreadsFirst beside_control_threads;
    rte_ring_free(ring_);
  }
  Status open(const char* name) {
    const ControlThreadsFirst beside_control_threads;
    ring_ = rte_ring_create(name, kFrames, SOCKET_ID_ANY, RING_F_SC_DEQ);
    if (ring_ != nullptr) return ok_status();
    return Error(ErrorCode::kNoMemory,
                 "DPDK has no memory for a ring of 1024 frames; give it more, "
                 "SPINDRIFT_DPDK_EAL=\"-m 512\"");
  }

  // Any thread. False when it is full: the frame is still the caller's.
  bool put(rte_mbuf* frame) { return rte_ring_enqueue(ring_, frame) == 0; }
  // The owner.
  std::size_t take(std::span<rte_mbuf*> out) {
    if (ring_ == nullptr) return 0;
    return rte_ring_sc_dequeue_burst(ring_, reinterpret_cast<void**>(out.data()),
                                     static_cast<unsigned>(out.size()), nullptr);
  }

  // Any thread; what finds no room is lost, as ICMP is.
  void report(const IoError& error) {
    const std::lock_guard guard(lock_);
    const std::size_t count = error_count_.load(std::memory_order_relaxed);
    if (count == errors_.size()) return;
    errors_[count] = error;
    error_count_.store(count + 1, std::memory_order_release);
  }
  std::size_t take_errors(std::span<IoError> out) {
    if (error_count_.load(std::memory_order_acquire) == 0) return 0;
    const std::lock_guard guard(lock_);
    std::size_t count = error_count_.load(std::memory_order_relaxed);
    std::size_t taken = 0;
    while (count > 0 && taken < out.size())
      out[taken++] = errors_[--count];
    error_count_.store(count, std::memory_order_release);
    return taken;
  }

 private:
  rte_ring* ring_ = nullptr;
  SpinLock lock_;
  std::array<IoError, 16> errors_{};
  std::atomic<std::size_t> error_count_{0};
};

}  // namespace spindrift
