#pragma once
// PacketIo: unreliable datagrams in bursts. UDP sockets, DPDK ports, verbs UD, the simulator and
// the in-memory pair implement it; wrappers (faults, captures) implement it over another one. Not
// thread-safe: one thread at a time, the one that runs the endpoint.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "spindrift/address.h"
#include "spindrift/result.h"
#include "spindrift/stats.h"
#include "spindrift/telemetry.h"
#include "spindrift/types.h"
#include "spindrift/work.h"

namespace spindrift {

enum class Ecn : std::uint8_t { kNotEct = 0, kEct1 = 1, kEct0 = 2, kCe = 3 };

struct RxPacket {
  std::span<const std::byte> bytes{};  // UDP payload; valid until release()
  Time arrival{};
  NetAddress source{};
  std::uint16_t rail = 0;  // local rail it arrived on
  Ecn ecn = Ecn::kNotEct;
  std::uint8_t dscp = 0;
  // A switch cut the payload off: `bytes` are what it left, shorter than what was sent.
  bool is_trimmed = false;
  bool is_trimmed_last_hop = false;  // ... the switch that this host hangs on
  // Last packet of the super-packet the provider took in as one (GRO); always true elsewhere.
  bool ends_burst = true;
  std::uint32_t buffer = 0;  // the provider's own
  // Where the provider echoes telemetry: of an acknowledgement, what the packet with its ACK_PSN
  // met on its way. Valid until release().
  std::span<const HopTelemetry> telemetry{};
};

// A packet may gather this many pieces of user memory.
inline constexpr std::size_t kMaxPieces = kMaxSge + 1;
// Room for protocol headers that every provider offers in TxPacket::header.
inline constexpr std::size_t kMaxHeaderBytes = 128;

struct TxPacket {
  // Provider memory, kMaxHeaderBytes long when reserved. The engine fills a prefix and shrinks the
  // span to it.
  std::span<std::byte> header{};
  // Sent after the header, in place: must stay unchanged until released() has passed this packet.
  std::array<std::span<const std::byte>, kMaxPieces> payload{};
  std::array<std::byte, 4> trailer{};  // sent last (CRC)
  const NetAddress* to = nullptr;      // valid until send() returns
  std::uint16_t rail = 0;              // local rail to leave from
  std::uint16_t entropy = 0;           // 0..caps().entropies - 1: what the network hashes paths on
  std::uint8_t payload_pieces = 0;
  std::uint8_t trailer_bytes = 0;  // 0 or 4
  Ecn ecn = Ecn::kEct0;
  std::uint8_t dscp = 0;

  std::size_t total_bytes() const {
    std::size_t sum = header.size() + trailer_bytes;
    for (std::size_t i = 0; i < payload_pieces; ++i)
      sum += payload[i].size();
    return sum;
  }
};

struct PacketIoCaps {
  std::string name;                     // the scheme of its addresses, "udp"; wrappers keep it
  std::uint32_t max_packet_bytes = 0;   // largest UDP payload the provider can carry at all
  std::uint32_t max_burst_bytes = 0;    // consecutive equal packets of one path that leave as one
                                        // super-packet (GSO); 0: no such gain
  std::uint16_t max_burst_packets = 1;  // packets in one super-packet
  // What a packet takes on the link beyond its UDP payload: UDP, IPv4, Ethernet with preamble and
  // gap.
  std::uint32_t frame_overhead_bytes = 66;
  std::uint16_t batch = 32;                // packets per receive/reserve call that pay off
  std::uint16_t entropies = 1;             // distinct entropy values, 1..kMaxPaths
  std::uint64_t receive_buffer_bytes = 0;  // what may be in flight towards us; 0: unknown
  Rate link_rate{};                        // zero: unknown
  // What two idle hosts add to an RTT in batching and scheduling: delays below it say nothing about
  // the network. Zero for hardware.
  Duration host_latency{};
  bool has_ecn = false;
  bool echoes_telemetry = false;  // RxPacket::telemetry
  bool has_rx_timestamp = false;
  bool copies_on_send = false;  // released() follows send() at once
};

// Something the network said about packets already sent (ICMP), or a device about its link.
struct IoError {
  // kLinkDown, kLinkUp: of the device that `rail` leaves by; nothing else is set.
  enum class Kind : std::uint8_t {
    kPortUnreachable,
    kHostUnreachable,
    kTooBig,
    kLinkDown,
    kLinkUp
  };
  Kind kind = Kind::kPortUnreachable;
  NetAddress to{};
  std::uint16_t rail = 0;
  std::uint16_t entropy = 0;
  std::uint32_t max_packet_bytes = 0;  // kTooBig: what fits now
};

class PacketIo {
 public:
  virtual ~PacketIo() = default;
  [[nodiscard]] virtual const PacketIoCaps& caps() const = 0;

  // The provider's clock: monotonic for real ones, the test's or simulator's for others.
  [[nodiscard]] virtual Time now() const = 0;

  // Rails. A rail is a local address with a receive port; packets leave a rail by any of
  // caps().entropies source ports. Set-up calls: they may allocate and call the kernel.
  // Port 0 picks a free port. The result is the rail's index.
  [[nodiscard]] virtual Result<std::uint16_t> add_rail(const NetAddress& local) = 0;
  [[nodiscard]] virtual std::span<const NetAddress> rails() const = 0;
  // Every local address that a wildcard address stands for.
  [[nodiscard]] virtual std::vector<NetAddress> expand(const NetAddress& wildcard) const = 0;
  // The local address the host would use to reach `remote` (port 0).
  [[nodiscard]] virtual Result<NetAddress> source_for(const NetAddress& remote) const = 0;
  // Largest UDP payload that leaves this rail for `remote` without fragmentation.
  [[nodiscard]] virtual std::uint32_t max_packet_bytes(std::uint16_t rail,
                                                       const NetAddress& remote) const = 0;
  // Opens entropies 0..count-1 on a rail, before the first send there with them.
  [[nodiscard]] virtual Status open_entropies(std::uint16_t rail, std::uint16_t count) = 0;

  // Fills a prefix of `out` with packets received; never blocks. Each one is released once. Zero
  // says that none were there; fewer than asked for that the next ones may wait for the next call.
  [[nodiscard]] virtual std::size_t receive(std::span<RxPacket> out) = 0;
  virtual void release(std::span<const RxPacket> packets) = 0;

  // Reserves header buffers. The count returned is a promise that the next send() takes that many;
  // a reservation not used is given up by the next reserve().
  [[nodiscard]] virtual std::size_t reserve(std::span<TxPacket> out) = 0;
  // Packets of the last reservation, in its order (a prefix of it).
  virtual void send(std::span<const TxPacket> packets) = 0;
  // How many packets, counted over the provider's life in send order, no longer reference
  // their payload.
  [[nodiscard]] virtual std::uint64_t released() const = 0;

  [[nodiscard]] virtual std::size_t poll_errors(std::span<IoError> out) = 0;

  // File descriptors that become readable when receive() or poll_errors() would return something.
  // Empty for providers without (in memory, simulator).
  virtual void append_wait_fds(std::vector<int>& out) const = 0;
  // True while packets accepted by send() wait for the kernel; progress must be called again soon.
  [[nodiscard]] virtual bool has_unsent() const = 0;

  virtual void counters(CounterWriter& out) const = 0;
};

class MessageFabric;

// How a provider enters the registry. `url.scheme` chose it; options are its own. It moves
// datagrams (`open`) or is reliable by itself (`open_fabric`); or both, and the address says which.
struct ProviderInfo {
  std::string_view name;
  std::string_view summary;
  Result<std::unique_ptr<PacketIo>> (*open)(const Url& url) = nullptr;
  // ok, or why this host cannot use it and what to do about it.
  Status (*probe)() = nullptr;
  Result<std::unique_ptr<MessageFabric>> (*open_fabric)(const Url& url) = nullptr;
};

}  // namespace spindrift
