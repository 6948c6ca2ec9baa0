#pragma once
// The send path: headers are written by the engine into the packets that the device sends, payload
// is put behind them. Internal to providers/dpdk.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "spindrift/provider.h"

#include "providers/dpdk/dma_memory.h"
#include "providers/dpdk/dpdk_rail.h"
#include "providers/dpdk/frame_build.h"
#include "providers/dpdk/payload_tails.h"
#include "transport/base/ring.h"

namespace spindrift {

class DpdkSender {
 public:
  explicit DpdkSender(std::size_t ports);
  ~DpdkSender();
  DpdkSender(const DpdkSender&) = delete;
  DpdkSender& operator=(const DpdkSender&) = delete;
  // Packets for frames of the longest MTU of the devices.
  Status open(std::span<const DeviceOptions> devices,
              std::span<const std::unique_ptr<PortUse>> uses);
  // No packet references its payload when it is gone.
  void close(std::span<const std::unique_ptr<PortUse>> uses);

  // Memory that devices read by themselves. Before that, all is copied where they would.
  void set_dma_regions(const DmaRegions* regions) { dma_regions_ = regions; }

  std::size_t reserve(std::span<const std::unique_ptr<PortUse>> uses, std::span<TxPacket> out);
  void send(std::span<const std::unique_ptr<PortUse>> uses, std::span<const DpdkRail> rails,
            std::span<const TxPacket> packets);
  // Tries again with what the devices did not take.
  void flush(std::span<const std::unique_ptr<PortUse>> uses);
  bool has_unsent() const { return unsent_ != 0; }
  std::uint64_t released(std::span<const std::unique_ptr<PortUse>> uses) const;
  std::size_t take_errors(std::span<IoError> out);
  void counters(CounterWriter& out) const;

 private:
  // As many as may be reserved at a time.
  static constexpr std::size_t kMaxPackets = 256;
  static constexpr std::size_t kWays = 256;
  static constexpr std::size_t kMaxUnread = 1024;

  // How packets get to one address from one rail.
  struct Way {
    NetAddress to{};
    std::uint16_t rail = 0xffff;
    bool is_known = false;  // otherwise its neighbour is being asked for
    bool is_local = false;  // an address of the port itself
    bool has_route = false;
    UdpChecksum checksum = UdpChecksum::kNone;
    PayloadReach reach = PayloadReach::kPacket;
    std::uint32_t max_packet_bytes = 0;
    std::uint64_t generation = 0;
    NetAddress next_hop{};
    FrameHeaders headers{};
  };
  // Packets that a device may still read payload of.
  struct Unread {
    std::uint64_t sent_before = 0;  // packets that were sent before the first of them
    std::uint64_t segments = 0;     // that its queue had taken with the last of them
  };
  // Frames that wait for a device.
  struct Queue {
    std::array<rte_mbuf*, kMaxPackets> frames{};
    std::size_t count = 0;
    std::size_t next = 0;
    Time stuck_since = kNever;
    std::uint64_t segments = 0;  // taken by the device so far
    bool has_unread = false;     // among what waits
    // Emptied by released(), which has no other way to be up to date.
    mutable Ring<Unread> unread{kMaxUnread};
  };

  bool fill_stash(std::size_t wanted);
  Way& way_of(std::span<const DpdkRail> rails, const TxPacket& packet);
  void look_up(Way& way, const DpdkRail& rail);
  void build(const Way& way, const DpdkRail& rail, const TxPacket& packet, rte_mbuf* frame);
  bool may_stay_in_place(const Way& way, const TxPacket& packet) const;
  void lose(const TxPacket& packet, IoError::Kind kind, std::uint32_t max_packet_bytes);
  void send_apart(const Way& way, const DpdkRail& rail, rte_mbuf* frame);
  void flush_queue(PortUse& use, Queue& queue);
  // Also counts the pieces of what the device took.
  static std::size_t transmit_counted(PortUse& use, Queue& queue, std::span<rte_mbuf*> waiting);
  void finish(Queue& queue) const;

  rte_mempool* pool_ = nullptr;
  PayloadTails tails_;
  const DmaRegions* dma_regions_ = nullptr;
  std::array<rte_mbuf*, kMaxPackets> stash_{};
  std::size_t stashed_ = 0;
  std::size_t reserved_ = 0;
  std::vector<Way> ways_;
  Way* last_way_ = nullptr;
  std::vector<Queue> queues_;  // by port
  std::size_t unsent_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t sent_before_last_ = 0;  // the last send()
  std::array<IoError, 16> errors_{};
  std::size_t error_count_ = 0;

  std::uint64_t packets_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t in_place_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t would_block_ = 0;
  std::uint64_t no_mbuf_ = 0;
};

}  // namespace spindrift
