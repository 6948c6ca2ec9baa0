#pragma once
// PacketIo of a simulated host: what its endpoint sends goes into the network, what the network
// delivers waits for receive(). Rail k is the host's k-th NIC; host h's NIC is named by the address
// 10.x.y.z that spells the NIC's number. Time is the event list's.
//
// A NIC takes a packet only when little waits at it (nic_queue_packets): the endpoint decides what
// leaves next at the moment it can leave, and its round-trip times hold no queue of its own.
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "spindrift/provider.h"

#include "sim/host_medium.h"
#include "sim/network.h"
#include "sim/telemetry.h"

namespace spindrift::sim {

NetAddress address_of_nic(std::uint32_t nic);
// What ECMP hashes: destination port and protocol are the same for all.
std::uint32_t tuple_hash(std::uint32_t source, std::uint32_t destination, std::uint16_t entropy);
// Of a packet as it is now: trimming leaves both protocol headers.
std::uint32_t udp_payload_bytes(const Packet& packet);

class SimIo final : public PacketIo, public HostMedium {
 public:
  struct Shape {
    std::uint32_t first_nic = 0;
    std::uint32_t nics = 1;
    Rate link_rate{};
    std::uint32_t max_packet_bytes = 0;
    std::uint32_t frame_overhead_bytes = 0;
    std::uint32_t min_frame_bytes = 0;
    std::uint32_t nic_queue_packets = 1;
    std::uint8_t control_dscp = 46;
    bool has_telemetry = false;
    // Of the whole network, where it has telemetry: a host is known by any of its NICs.
    std::span<const NetworkPlan::Nic> all_nics{};
  };
  SimIo(const Shape& shape, Network& network, const EventList& events);

  // HostMedium
  void deliver(std::uint32_t nic, PacketId packet) override;
  void carry_payload(bool does) override { carries_payload_ = does; }
  bool take_is_stuck() override { return was_stuck_ = std::exchange(wants_room_, false); }
  bool wants_room(std::uint32_t /*rail*/) const override { return was_stuck_; }
  bool has_news() const override { return false; }  // a turn takes all that has come
  Picoseconds next_due() const override { return kEndOfTime; }
  void on_time() override {}
  void on_room() override {}

  const PacketIoCaps& caps() const override { return caps_; }
  Time now() const override { return to_transport_time(events_.now()); }
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
  std::uint64_t released() const override { return sent_; }
  std::size_t poll_errors(std::span<IoError> out) override;
  void append_wait_fds(std::vector<int>& out) const override;
  bool has_unsent() const override { return false; }
  void counters(CounterWriter& out) const override;

 private:
  static constexpr std::size_t kHeaders = 64;

  void send_one(const TxPacket& packet);
  void store(PacketId id, const TxPacket& packet);
  void keep_telemetry(PacketId id);
  void echo_telemetry(PacketId id, const TxPacket& packet);

  Shape shape_;
  Network& network_;
  const EventList& events_;
  PacketIoCaps caps_;
  TelemetryMemory met_;
  std::vector<NetAddress> rails_;
  std::vector<std::byte> headers_;
  std::vector<PacketId> arrived_;
  std::size_t arrived_at_ = 0;
  bool carries_payload_ = true;
  bool wants_room_ = false;
  bool was_stuck_ = false;
  std::uint64_t sent_ = 0;
  std::uint64_t sent_bytes_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t received_bytes_ = 0;
};

}  // namespace spindrift::sim
