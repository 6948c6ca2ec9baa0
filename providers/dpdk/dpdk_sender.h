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

#include "providers/dpdk/dpdk_rail.h"
#include "providers/dpdk/frame_build.h"

namespace spindrift {

class DpdkSender {
 public:
  explicit DpdkSender(std::size_t ports);
  ~DpdkSender();
  DpdkSender(const DpdkSender&) = delete;
  DpdkSender& operator=(const DpdkSender&) = delete;
  // Packets for frames of the longest MTU of the devices.
  Status open(std::span<const DeviceOptions> devices, int socket);

  std::size_t reserve(std::span<const std::unique_ptr<PortUse>> uses, std::span<TxPacket> out);
  void send(std::span<const std::unique_ptr<PortUse>> uses, std::span<const DpdkRail> rails,
            std::span<const TxPacket> packets);
  // Tries again with what the devices did not take.
  void flush(std::span<const std::unique_ptr<PortUse>> uses);
  bool has_unsent() const { return unsent_ != 0; }
  std::uint64_t released() const { return sent_; }
  std::size_t take_errors(std::span<IoError> out);
  void counters(CounterWriter& out) const;

 private:
  // As many as may be reserved at a time.
  static constexpr std::size_t kMaxPackets = 256;
  static constexpr std::size_t kWays = 256;

  // How packets get to one address from one rail.
  struct Way {
    NetAddress to{};
    std::uint16_t rail = 0xffff;
    bool is_known = false;  // otherwise its neighbour is being asked for
    bool is_local = false;  // an address of the port itself
    bool has_route = false;
    UdpChecksum checksum = UdpChecksum::kNone;
    std::uint32_t max_packet_bytes = 0;
    std::uint64_t generation = 0;
    NetAddress next_hop{};
    FrameHeaders headers{};
  };
  // Frames that wait for a device.
  struct Queue {
    std::array<rte_mbuf*, kMaxPackets> frames{};
    std::size_t count = 0;
    std::size_t next = 0;
    Time stuck_since = kNever;
  };

  bool fill_stash(std::size_t wanted);
  Way& way_of(std::span<const DpdkRail> rails, const TxPacket& packet);
  void look_up(Way& way, const DpdkRail& rail);
  void build(const Way& way, const DpdkRail& rail, const TxPacket& packet, rte_mbuf* frame);
  void lose(const TxPacket& packet, IoError::Kind kind, std::uint32_t max_packet_bytes);
  void send_apart(const Way& way, const DpdkRail& rail, rte_mbuf* frame);
  void flush_queue(PortUse& use, Queue& queue);

  rte_mempool* pool_ = nullptr;
  std::array<rte_mbuf*, kMaxPackets> stash_{};
  std::size_t stashed_ = 0;
  std::size_t reserved_ = 0;
  std::vector<Way> ways_;
  Way* last_way_ = nullptr;
  std::vector<Queue> queues_;  // by port
  std::size_t unsent_ = 0;
  std::uint64_t sent_ = 0;
  std::array<IoError, 16> errors_{};
  std::size_t error_count_ = 0;

  std::uint64_t packets_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t would_block_ = 0;
  std::uint64_t no_mbuf_ = 0;
};

}  // namespace spindrift
