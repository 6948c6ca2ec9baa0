#pragma once
// A host of a MemoryNetwork. Internal to providers/memory.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "providers/memory/memory_network.h"
#include "providers/memory/memory_wire.h"
#include "transport/base/ring.h"

namespace spindrift {

class MemoryHost final : public PacketIo {
 public:
  MemoryHost(MemoryWire& wire, const MemoryHostConfig& config);
  ~MemoryHost() override;
  MemoryHost(const MemoryHost&) = delete;
  MemoryHost& operator=(const MemoryHost&) = delete;

  const PacketIoCaps& caps() const override { return caps_; }
  Time now() const override { return wire_.now(); }
  Result<std::uint16_t> add_rail(const NetAddress& local) override;
  std::span<const NetAddress> rails() const override { return rails_; }
  std::vector<NetAddress> expand(const NetAddress& wildcard) const override;
  Result<NetAddress> source_for(const NetAddress& remote) const override;
  std::uint32_t max_packet_bytes(std::uint16_t rail, const NetAddress& remote) const override;
  Status open_entropies(std::uint16_t rail, std::uint16_t count) override;
  std::size_t receive(std::span<RxPacket> out) override;
  void release(std::span<const RxPacket> packets) override;
  std::size_t reserve(std::span<TxPacket> out) override;
  void send(std::span<const TxPacket> packets) override;
  std::uint64_t released() const override { return released_; }
  std::size_t poll_errors(std::span<IoError> out) override;
  void append_wait_fds(std::vector<int>& out) const override;
  bool has_unsent() const override { return false; }
  void counters(CounterWriter& out) const override;

  // From the wire.
  void on_delivered(std::uint32_t slot);  // a packet for this host
  void on_error(const IoError& error);
  void on_gone(std::uint64_t send_serial);  // a packet of this host needs its payload no more

 private:
  static constexpr std::size_t kHeaders = 256;
  static constexpr std::size_t kErrors = 64;

  bool continues_burst(const TxPacket& packet, std::size_t bytes) const;

  MemoryWire& wire_;
  MemoryHostConfig config_;
  PacketIoCaps caps_;
  std::size_t index_ = 0;
  std::vector<NetAddress> rails_;
  std::vector<std::uint16_t> open_entropies_;  // by rail

  std::vector<std::byte> headers_;
  std::size_t reserved_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t released_ = 0;
  std::vector<bool> is_gone_;  // by send serial modulo its size
  struct Burst {
    NetAddress to{};
    std::uint64_t id = 0;
    std::uint64_t total_bytes = 0;
    std::size_t packet_bytes = 0;
    std::size_t packets = 0;
    std::uint16_t rail = 0;
    std::uint16_t entropy = 0;
    std::uint8_t dscp = 0;
    Ecn ecn = Ecn::kNotEct;
  } burst_;

  std::vector<std::uint32_t> arrived_;  // slots; a queue with its head at arrived_head_
  std::size_t arrived_head_ = 0;
  std::uint64_t waiting_bytes_ = 0;
  std::uint64_t lent_ = 0;  // packets received and not yet released
  Ring<IoError> errors_;

  std::uint64_t tx_bytes_ = 0;
  std::uint64_t rx_packets_ = 0;
  std::uint64_t rx_bytes_ = 0;
  std::uint64_t rx_overflow_packets_ = 0;
  std::uint64_t tx_oversized_packets_ = 0;
  std::uint64_t lost_errors_ = 0;
};

}  // namespace spindrift
