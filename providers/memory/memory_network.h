#pragma once
// An in-memory network for tests: hosts that implement PacketIo, and virtual time that the test
// sets. No sockets, no clock, no randomness: the same calls give the same history. Faults (loss,
// corruption, reordering) are not here: wrap a host with providers/wrap/fault_io.h.
//
//   sender --- one-way delay ---> [queue of the receiving rail] --- link rate ---> receive buffer
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "spindrift/provider.h"

namespace spindrift {

class MemoryWire;

struct MemoryNetworkConfig {
  Duration one_way_delay = std::chrono::microseconds(5);
  // Of the link into each rail. Zero: infinitely fast, no queue.
  Rate link_rate{};
  std::uint64_t queue_bytes = 1U << 20U;  // packets that do not fit are dropped
  std::uint64_t mark_bytes = kNoLimit;    // ECT packets that meet a longer queue leave with CE
  std::uint32_t max_packet_bytes = 8972;  // UDP payload of MTU 9000, IPv4; 1..65507
  bool reports_too_big = false;           // packets above the path's limit return kTooBig
};

struct MemoryHostConfig {
  // Local addresses (the port is ignored). add_rail accepts these alone.
  std::vector<NetAddress> addresses{};
  std::string name = "memory";
  std::uint16_t entropies = 256;  // 1..kMaxPaths
  std::uint16_t batch = 32;
  // Above 1, packets sent together on one path arrive as one burst (RxPacket::ends_burst), as with
  // GSO and GRO.
  std::uint16_t max_burst_packets = 1;
  std::uint32_t max_burst_bytes = 0;
  std::uint64_t receive_buffer_bytes = 64U << 20U;  // payload that may wait for receive()
  bool has_ecn = true;
  // False: payload is read from the sender's memory only when the packet is delivered, and
  // released() passes it then, so that a sender that touches its buffer too early corrupts data.
  bool copies_on_send = true;
  std::uint16_t transmit_slots = 1024;  // packets not yet released, when not copies_on_send
};

struct MemoryNetworkStats {
  std::uint64_t delivered_packets = 0;
  std::uint64_t marked_packets = 0;
  std::uint64_t queue_drops = 0;
  std::uint64_t path_down_drops = 0;
  std::uint64_t unplugged_drops = 0;
  std::uint64_t unknown_address_drops = 0;
  std::uint64_t too_big_drops = 0;
  std::uint64_t receive_buffer_drops = 0;
};

class MemoryNetwork {
 public:
  enum class Unplugged : std::uint8_t {
    kSilent,   // the host died: packets vanish
    kRefuses,  // the host lives, the process does not: senders get kPortUnreachable
  };

  explicit MemoryNetwork(const MemoryNetworkConfig& config);
  ~MemoryNetwork();
  MemoryNetwork(const MemoryNetwork&) = delete;
  MemoryNetwork& operator=(const MemoryNetwork&) = delete;

  // Hosts are numbered 0, 1, ... in the order of these calls. The network must outlive them. A
  // destroyed host behaves like one unplugged with kRefuses, until another takes its addresses.
  std::unique_ptr<PacketIo> add_host(const MemoryHostConfig& config);

  Time now() const;
  // When the next packet or error arrives; kNever when nothing is under way.
  Time next_event() const;
  // Never backwards. Everything due is delivered, in the order of its time.
  void advance_to(Time now);

  // Packets that any host sends from this rail with this entropy vanish.
  void set_path_down(std::uint16_t rail, std::uint16_t entropy, bool is_down);
  void unplug(std::size_t host, Unplugged how = Unplugged::kSilent);
  void plug_in(std::size_t host);
  // The host's device says so of its link; what the network carries does not change.
  void say_link(std::size_t host, std::uint16_t rail, bool is_up);
  // The network, not the hosts' interfaces, drops packets above this from now on.
  void set_path_max_packet_bytes(std::uint32_t bytes);
  // Packets already under way keep theirs.
  void set_one_way_delay(Duration delay);

  const MemoryNetworkStats& stats() const;

 private:
  std::unique_ptr<MemoryWire> wire_;
};

}  // namespace spindrift
