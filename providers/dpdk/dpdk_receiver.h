#pragma once
// The receive path: frames from the queues and from the mailbox, lent to the endpoint where they
// lie. Internal to providers/dpdk.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "spindrift/provider.h"

#include "providers/dpdk/dpdk_rail.h"
#include "providers/dpdk/frame_parse.h"

namespace spindrift {

class DpdkReceiver {
 public:
  explicit DpdkReceiver(std::size_t ports);
  ~DpdkReceiver();
  DpdkReceiver(const DpdkReceiver&) = delete;
  DpdkReceiver& operator=(const DpdkReceiver&) = delete;

  struct Look {
    std::span<const std::unique_ptr<PortUse>> uses{};
    std::span<const DpdkRail> rails{};
    Time now{};  // the arrival of what is found, unless its device stamps it
  };
  std::size_t receive(const Look& look, std::span<RxPacket> out);
  void release(std::span<const RxPacket> packets);
  // Reads the clocks of the devices that stamp packets; to be called every few milliseconds.
  void read_clocks(std::span<const std::unique_ptr<PortUse>> uses, Time now);
  void counters(CounterWriter& out) const;

 private:
  // As many as a call takes from a device: what came is acknowledged before more is looked at, so
  // that senders with a short window go on while the rest is taken in.
  static constexpr std::size_t kBurst = 32;
  // Frames of others that are passed over in search of ours.
  static constexpr std::size_t kMostOthers = 256;
  struct Burst {
    std::span<rte_mbuf*> frames{};
    PortUse* use = nullptr;
    std::span<const DpdkRail> rails{};
    const RxClock* clock = nullptr;
    Time arrival{};
  };
  std::size_t take(std::size_t index, PortUse& use, std::span<rte_mbuf*> frames);
  std::size_t take_in(const Burst& burst, std::span<RxPacket> out);
  const DpdkRail* rail_of(const Burst& burst, const ParsedFrame& parsed) const;
  std::uint32_t hold(rte_mbuf* frame);
  bool is_damaged(const rte_mbuf& frame, const ParsedFrame& parsed);
  rte_mbuf* single(rte_mbuf* frame);

  // At work; kept, so that no turn has to clear it.
  std::array<rte_mbuf*, kBurst> frames_{};
  // Frames lent out, by RxPacket::buffer.
  std::vector<rte_mbuf*> held_;
  std::vector<std::uint32_t> free_;
  // Which other queue of a port is looked at next, while its own has nothing.
  std::vector<std::uint16_t> next_queue_;

  std::vector<RxClock> clocks_;  // by port

  std::uint64_t packets_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t bad_checksums_ = 0;
  std::uint64_t scattered_ = 0;
  std::uint64_t stamped_ = 0;
};

}  // namespace spindrift
