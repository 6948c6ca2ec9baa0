#pragma once
// A device with its IP addresses: who of this process has which UDP port there, which neighbour has
// which Ethernet address, and what is answered without anybody asking the endpoints (ARP, neighbour
// discovery, echo). Shared by the endpoints of the process; all of this is off the hot path and
// behind one lock. Internal to providers/dpdk.
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "spindrift/provider.h"

#include "providers/dpdk/control_frames.h"
#include "providers/dpdk/mailbox.h"
#include "providers/dpdk/neighbors.h"
#include "providers/dpdk/port_device.h"

namespace spindrift {

class Port {
 public:
  // Source ports of one rail: its entropies.
  static constexpr std::uint16_t kEntropyPorts = 256;

  // The device, opened by this call or by another endpoint of the process; give it back by
  // release(). The second time the options must be the same; of the addresses some will do.
  static Result<Port*> acquire(const DeviceOptions& options);
  void release();

  PortDevice& device() { return *device_; }
  const DeviceOptions& options() const { return options_; }
  std::uint16_t next_queue();

  // A UDP port (0: any free one) and kEntropyPorts source ports of one of our addresses.
  struct Claim {
    NetAddress address{};
    std::uint16_t first_entropy_port = 0;
  };
  // What comes to `queue` is looked at by the owner first.
  struct Claimant {
    Mailbox* mailbox = nullptr;
    std::uint16_t rail = 0;
    std::uint16_t queue = 0;
  };
  Result<Claim> claim(const NetAddress& local, const Claimant& claimant);
  void give_up_claims(const Mailbox& owner);

  bool has_address(const NetAddress& address) const;
  // Where a packet for `remote` goes first, and our address on the way; nothing: no route.
  struct Route {
    NetAddress next_hop{};
    NetAddress source{};
  };
  std::optional<Route> route(const NetAddress& remote) const;
  // What lies behind this number has changed: ways must be looked up anew.
  std::uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  std::optional<MacAddress> resolve(const NetAddress& next_hop, Time now);
  MacAddress mac() const { return mac_; }
  // Takes a frame whose receiver is still looked for; false when there are too many of them.
  bool hold(const NetAddress& next_hop, std::uint16_t queue, rte_mbuf* frame);
  // Bytes of IP that pass on the way to `remote`.
  std::uint32_t path_mtu(const NetAddress& remote) const;

  // A frame that is not a UDP packet of the caller's: of another endpoint (it is handed over), to
  // be answered, or nobody's. Takes the frame.
  void take_in(rte_mbuf* frame, FrameVerdict verdict, const ParsedFrame& parsed, Time now);
  // What is due by time; to be called every few milliseconds.
  void maintain(Time now);

  void counters(CounterWriter& out) const;

 private:
  struct Owner {
    NetAddress address{};  // with its port
    std::uint16_t first_entropy_port = 0;
    Claimant who{};
    rte_flow* steering = nullptr;
  };
  struct Held {
    NetAddress next_hop{};
    rte_mbuf* frame = nullptr;
    std::uint16_t queue = 0;
  };
  struct PathMtu {
    NetAddress remote{};
    std::uint32_t bytes = 0;
  };

  Port(const DeviceOptions& options, std::unique_ptr<PortDevice> device);
  ~Port();
  bool is_free(const NetAddress& address, std::uint32_t port) const;
  bool is_free_block(const NetAddress& address, std::uint32_t first, std::uint32_t port) const;
  const Owner* owner_of(const NetAddress& destination) const;
  LocalStation station(const NetAddress& address) const;
  void announce();
  void on_link(bool is_up);
  void reset_device(Time now);
  void send(const ControlFrame& frame);
  void on_neighbor_message(const NeighborMessage& message, const ParsedFrame& parsed, Time now);
  void on_icmp(const ParsedFrame& parsed);
  void on_nobodys_packet(const ParsedFrame& parsed, Time now);
  void send_held(const NetAddress& next_hop, const MacAddress& mac);
  void on_neighbor_gone(const NetAddress& address);
  void note_path_mtu(const NetAddress& remote, std::uint32_t bytes);

  const DeviceOptions options_;
  const std::unique_ptr<PortDevice> device_;
  const MacAddress mac_;
  rte_mempool* control_pool_ = nullptr;
  unsigned users_ = 0;  // the registry's lock

  mutable std::mutex mutex_;
  std::vector<Owner> owners_;
  NeighborTable neighbors_;
  std::vector<Held> held_;
  std::vector<PathMtu> path_mtus_;
  std::uint16_t queues_given_ = 0;
  // Where the search for a free port and for free source ports goes on: what is late for one
  // endpoint should not meet the next.
  std::uint32_t next_port_ = 0;
  std::uint32_t next_block_ = 0;
  bool was_up_ = false;
  Time next_refresh_{};
  Time next_unreachable_{};
  Time next_reset_{};
  std::atomic<std::uint64_t> generation_{1};

  std::uint64_t handed_over_ = 0;
  std::uint64_t hand_over_drops_ = 0;
  std::uint64_t not_ours_ = 0;
  std::uint64_t malformed_ = 0;
  std::uint64_t fragments_ = 0;
  std::uint64_t neighbors_gone_ = 0;
  std::uint64_t held_drops_ = 0;
  std::uint64_t control_sent_ = 0;
  std::uint64_t link_changes_ = 0;
  std::uint64_t resets_ = 0;
  std::uint64_t resets_failed_ = 0;
};

}  // namespace spindrift
