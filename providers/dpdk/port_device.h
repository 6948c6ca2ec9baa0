#pragma once
// A DPDK device as far as DPDK itself goes: found, configured, started, closed, with its queues and
// pools. Knows nothing of addresses. Internal to providers/dpdk.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_mbuf.h>

#include "spindrift/address.h"
#include "spindrift/result.h"
#include "spindrift/types.h"

#include "providers/dpdk/device_options.h"
#include "providers/dpdk/mac_address.h"
#include "providers/dpdk/rx_clock.h"
#include "providers/dpdk/spin_lock.h"

namespace spindrift {

// From where a device can send payload.
enum class PayloadReach : std::uint8_t {
  kPacket,    // out of packets alone: payload is copied into them
  kAnywhere,  // from any memory: its driver has read it when transmit() returns
  kMapped,    // from memory that is mapped for it, which it reads later
};

class PortDevice {
 public:
  static Result<std::unique_ptr<PortDevice>> open(const DeviceOptions& options);
  ~PortDevice();
  PortDevice(const PortDevice&) = delete;
  PortDevice& operator=(const PortDevice&) = delete;

  std::uint16_t id() const { return id_; }
  int socket() const { return rte_eth_dev_socket_id(id_); }
  MacAddress mac() const;
  std::uint16_t queues() const { return static_cast<std::uint16_t>(receive_queues_.size()); }
  bool is_up() const;
  Rate link_rate() const;
  // That a queue holds for who does not look.
  std::uint32_t waiting_packets() const { return waiting_packets_; }
  bool computes_checksums() const { return computes_checksums_; }
  bool checks_checksums() const { return checks_checksums_; }
  const std::string& driver() const { return driver_; }
  // Where packets say when they arrived, if the device stamps them.
  const RxTimestampField& rx_timestamps() const { return rx_timestamps_; }
  PayloadReach payload_reach() const { return payload_reach_; }
  rte_device* dma_device() const;
  // memif: DPDK 22.11 keeps the descriptor of each server that was closed, closes memory of its own
  // with a zero-copy client, and has been seen to end the process when both ends of a link close.
  bool must_stay_open() const { return must_stay_open_; }

  // Zero when another thread is at the queue.
  std::size_t receive(std::uint16_t queue, std::span<rte_mbuf*> out);
  // How many the queue took; the others are still the caller's.
  std::size_t transmit(std::uint16_t queue, std::span<rte_mbuf*> frames);
  // kMapped: whether the device has read all of a packet behind which `segments` more pieces of
  // packets were put into the queue.
  bool has_sent(std::uint16_t queue, std::uint64_t segments) const;
  // The device says that it must be reset (a virtual function whose card was), and this does it:
  // what lies in its queues is lost. While it fails, nothing is received and nothing is taken.
  bool wants_reset() const { return wants_reset_.load(std::memory_order_relaxed); }
  Status reset(const DeviceOptions& options);

  // A rule by which UDP packets to this address and port come to this queue; null where the device
  // can do no such thing. A reset takes all of them away.
  rte_flow* steer(const NetAddress& to, std::uint16_t queue) const;
  void stop_steering(rte_flow* rule) const;

  struct Totals {
    std::uint64_t missed = 0;  // frames for which a queue had no room
    std::uint64_t errors = 0;
    std::uint64_t no_mbuf = 0;
  };
  Totals totals() const;

 private:
  // Receiver and sender may be two threads.
  struct alignas(64) ReceiveQueue {
    SpinLock lock;
    rte_mempool* pool = nullptr;
  };
  struct alignas(64) TransmitQueue {
    SpinLock lock;
  };
  PortDevice() = default;
  Status find(const DeviceOptions& options);
  Status configure(const DeviceOptions& options);
  Status set_up_queues(const DeviceOptions& options);
  Status start(const DeviceOptions& options);
  Status set_mac(const DeviceOptions& options) const;
  void close() const;
  static int on_reset_event(std::uint16_t port, rte_eth_event_type event, void* device, void* more);

  std::uint16_t id_ = RTE_MAX_ETHPORTS;
  bool is_ours_ = false;  // plugged in by us
  bool is_started_ = false;
  std::atomic<bool> wants_reset_{false};
  bool computes_checksums_ = false;
  bool checks_checksums_ = false;
  bool must_stay_open_ = false;
  PayloadReach payload_reach_ = PayloadReach::kPacket;
  RxTimestampField rx_timestamps_{};
  std::uint32_t waiting_packets_ = 0;
  std::uint16_t transmit_descriptors_ = 0;
  std::string driver_;
  std::vector<ReceiveQueue> receive_queues_;
  std::vector<TransmitQueue> transmit_queues_;
};

}  // namespace spindrift
