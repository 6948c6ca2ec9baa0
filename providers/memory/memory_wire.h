#pragma once
// The packets under way between the hosts of a MemoryNetwork, and who is where. Internal to
// providers/memory.
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "providers/memory/memory_network.h"

namespace spindrift {

class MemoryHost;

struct MemorySlot {
  enum class Kind : std::uint8_t { kPacket, kError };
  Kind kind = Kind::kPacket;
  std::size_t from_host = 0;
  std::size_t to_host = 0;
  std::uint16_t to_rail = 0;
  std::uint64_t send_serial = 0;  // of the sending host
  std::uint64_t burst = 0;
  std::uint32_t bytes = 0;
  Time arrival{};
  NetAddress source{};
  Ecn ecn = Ecn::kNotEct;
  std::uint8_t dscp = 0;
  // Payload still in the sender's memory (hosts that do not copy on send): pieces and trailer
  // follow the header's bytes already in `data`.
  bool is_gathered = true;
  std::uint32_t header_bytes = 0;
  std::uint8_t payload_pieces = 0;
  std::uint8_t trailer_bytes = 0;
  std::array<std::span<const std::byte>, kMaxPieces> payload{};
  std::array<std::byte, 4> trailer{};
  IoError error{};
  std::unique_ptr<std::byte[]> data{};  // max_packet_bytes of the network
};

struct MemorySend {
  const TxPacket* packet = nullptr;
  std::size_t host = 0;
  NetAddress source{};
  std::uint64_t burst = 0;
  std::uint64_t serial = 0;  // of the sending host
  bool is_copied = true;
};

class MemoryWire {
 public:
  explicit MemoryWire(const MemoryNetworkConfig& config);

  const MemoryNetworkConfig& config() const { return config_; }
  Time now() const { return now_; }
  Time next_event() const;
  void advance_to(Time now);
  void deliver_due() { deliver_until(now_); }

  // Hosts.
  std::size_t add_host(MemoryHost* host);
  void remove_host(std::size_t host);
  // False when another rail has this address and port.
  bool add_rail(const NetAddress& address, std::size_t host, std::uint16_t rail);
  void add_address(const NetAddress& address, std::size_t host);
  bool has_rail(const NetAddress& address) const { return rails_.contains(address); }

  // Packets. True when the packet went under way: its slot then reports to the host on delivery.
  bool transmit(const MemorySend& send);
  MemorySlot& slot(std::uint32_t index) { return *slots_[index]; }
  void free_slot(std::uint32_t index) { free_slots_.push_back(index); }

  // What the test controls.
  void set_path_down(std::uint16_t rail, std::uint16_t entropy, bool is_down);
  void unplug(std::size_t host, MemoryNetwork::Unplugged how);
  void plug_in(std::size_t host);
  void say_link(std::size_t host, std::uint16_t rail, bool is_up);
  void set_path_max_packet_bytes(std::uint32_t bytes) { path_max_packet_bytes_ = bytes; }
  void set_one_way_delay(Duration delay) { config_.one_way_delay = delay; }
  MemoryNetworkStats& stats() { return stats_; }

 private:
  enum class Presence : std::uint8_t { kPresent, kSilent, kRefuses };
  struct HostEntry {
    MemoryHost* host = nullptr;
    Presence presence = Presence::kPresent;
  };
  struct Port {
    std::size_t host = 0;
    std::uint16_t rail = 0;
    Time link_free{};
  };
  struct Event {
    Time at{};
    std::uint64_t serial = 0;
    std::uint32_t slot = 0;
    // Inverted for the heap algorithms: the earliest is on top.
    bool operator<(const Event& other) const {
      return at != other.at ? at > other.at : serial > other.serial;
    }
  };

  void deliver_until(Time now);
  void deliver(std::uint32_t index);
  void schedule(Time at, std::uint32_t index);
  std::uint32_t take_slot();
  void send_error(std::size_t host, const TxPacket& packet, IoError::Kind kind);
  bool may_travel(std::size_t host, const TxPacket& packet);
  // Nothing when the queue was full, else when the packet leaves the link.
  bool pass_queue(Port& port, std::size_t bytes, Time& arrival, Ecn& ecn);
  void fill(MemorySlot& slot, const TxPacket& packet, bool is_copied) const;

  MemoryNetworkConfig config_;
  std::uint32_t path_max_packet_bytes_ = 0;
  Time now_{};
  std::vector<HostEntry> hosts_;
  std::map<NetAddress, Port> rails_;                // address and port
  std::map<NetAddress, std::size_t> addresses_;     // port 0
  std::vector<std::bitset<kMaxPaths>> paths_down_;  // by rail
  std::vector<std::unique_ptr<MemorySlot>> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::vector<Event> events_;  // a heap
  std::uint64_t next_serial_ = 0;
  MemoryNetworkStats stats_{};
};

}  // namespace spindrift
