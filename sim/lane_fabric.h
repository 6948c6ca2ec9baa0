#pragma once
// MessageFabric of a simulated host: reliable lanes over the simulated network, as queue pairs of
// an RDMA NIC are. Lane k of a connection leaves by the host's NIC k modulo its NICs, with a source
// port of its own, so that ECMP gives it one path. What a lane loses it sends again (lane.h); a
// lane that is given up hands its messages to the others, its reads are lost, and with the last one
// the connection ends.
// Nothing of it slows down for marks: what may be under way is bounded by the engine's congestion
// control and by the room for messages at the other side.
// A lane that was given up is tried again after as long as it took to give it up.
//
// Differs from real queue pairs: a READ is answered by a message of the other side, not by packets
// in the reader's numbers; messages are handed over in the order of posting over all lanes; room is
// told in packets, so that no "receiver not ready" comes up.
//
// lane_fabric.cc: the engine's calls; lane_handshake.cc: connections; lane_wire.cc: packets.
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "spindrift/message_fabric.h"

#include "sim/host_medium.h"
#include "sim/lane_connection.h"
#include "sim/lane_packet.h"
#include "sim/network.h"

namespace spindrift::sim {

class LaneFabric : public MessageFabric, public HostMedium {
 public:
  struct Shape {
    std::uint32_t first_nic = 0;
    std::uint32_t nics = 1;
    Rate link_rate{};
    std::uint16_t lanes = 1;  // of a connection, 1..kMaxPaths
    LaneSender::Shape lane{};
    std::uint32_t frame_overhead_bytes = 0;
    std::uint32_t min_frame_bytes = 0;
    std::uint32_t nic_queue_packets = 1;
    std::span<const NetworkPlan::Nic> all_nics{};  // of the whole network
  };
  LaneFabric(const Shape& shape, Network& network, const EventList& events);
  ~LaneFabric() override;

  // HostMedium
  void deliver(std::uint32_t nic, PacketId packet) override;
  void carry_payload(bool does) override { carries_payload_ = does; }
  bool take_is_stuck() override { return std::exchange(is_full_, false); }
  bool wants_room(std::uint32_t rail) const override {
    return !nics_[rail].acks.empty() || !nics_[rail].data.empty();
  }
  bool has_news() const override;
  Picoseconds next_due() const override { return next_due_; }
  void on_time() override;
  void on_room() override;

  // MessageFabric
  const FabricCaps& caps() const override { return caps_; }
  Time now() const override { return to_transport_time(events_.now()); }
  Result<std::uint16_t> add_address(std::string_view address) override;
  std::span<const std::string> addresses() const override { return addresses_; }
  Status check_address(std::string_view address) const override;
  Result<FabricPeer> connect(std::string_view address, std::span<const std::byte> hello,
                             std::uint16_t lanes) override;
  Status accept(FabricPeer peer, std::span<const std::byte> hello, std::uint16_t lanes) override;
  void refuse(FabricPeer peer, std::span<const std::byte> hello) override;
  void drop(FabricPeer peer) override;
  std::string describe_peer(FabricPeer peer) const override;
  Reach reach(FabricPeer peer) const override;
  std::size_t poll_events(std::span<FabricEvent> out) override;
  Status add_region(LocalKey region, std::span<std::byte> bytes) override;
  void remove_region(LocalKey region) override;
  RemoteSpan offer(FabricPeer peer, const Sge& piece) override;
  std::size_t post(std::span<const FabricOp> ops) override;
  std::size_t poll(std::span<FabricCompletion> out) override;
  void release(const FabricCompletion& message) override;
  std::string last_error(FabricPeer peer) const override;
  void set_status(FabricPeer peer, const FabricStatus& status) override;
  FabricStatus status(FabricPeer peer) const override;
  void append_wait_fds(std::vector<int>& out) const override;
  bool arm() override { return !has_news(); }
  std::string describe_lane(FabricPeer peer, std::uint16_t lane) const override;
  void counters(CounterWriter& out) const override;

 private:
  using Connection = LaneConnection;
  struct LaneRef {
    Connection* connection = nullptr;
    LaneEnd* lane = nullptr;
  };
  struct NicQueue {
    std::deque<LaneRef> acks{};
    std::deque<LaneRef> data{};
  };
  struct ReadDone {
    FabricPeer peer{};
    std::uint64_t tag = 0;
    std::uint16_t lane = 0;
    FabricCompletion::Fault fault = FabricCompletion::Fault::kNone;
  };
  struct LaneNews {
    FabricPeer peer{};
    std::uint16_t lane = 0;
    bool is_up = false;
  };

  // lane_fabric.cc
  bool post_send(Connection& c, const FabricOp& op);
  bool post_read(Connection& c, const FabricOp& op);
  std::size_t poll_connection(Connection& c, std::span<FabricCompletion> out);
  Connection& of(FabricPeer peer) { return *peers_[peer.value]; }
  const Connection& of(FabricPeer peer) const { return *peers_[peer.value]; }
  void push(Connection& c, LaneEnd& lane, LaneMessage message);
  void push_control(Connection& c, LaneMessageKind kind, std::span<const std::byte> payload);
  LaneEnd& lane_for(Connection& c, std::uint16_t asked);
  void show(Connection& c);

  // lane_handshake.cc
  Result<std::uint32_t> nic_of_text(std::string_view address) const;
  Result<Connection*> new_connection(std::uint32_t remote_host);
  void forget(Connection& c);
  void detach(Connection& c);
  void lose(Connection& c, std::string cause);
  void remove_detached();
  void on_call(Connection& c, const LaneMessage& message);
  void on_answer(Connection& c, LaneMessage& message);
  std::string name_of(std::uint32_t host) const;

  // lane_wire.cc
  void pump();
  bool has_room(std::uint32_t nic, bool is_control) const;
  void send_data(LaneRef from);
  void send_ack(LaneRef from);
  void send(const LaneRef& from, LaneHeader header, std::uint32_t frame_bytes,
            std::span<const std::byte> payload);
  void put_to_work(Connection& c, LaneEnd& lane);
  void owe_ack(Connection& c, LaneEnd& lane);
  std::uint32_t nic_of(const Connection& c, const LaneEnd& lane) const {
    return lane.number == kControlLane ? c.control_nic : lane.number % shape_.nics;
  }
  Connection* find(const LaneHeader& header, const Packet& packet);
  void on_data(Connection& c, LaneEnd& lane, const LaneHeader& header, const std::byte* bytes);
  void on_message(Connection& c, LaneMessage message);
  void take_in_order(Connection& c, LaneMessage message);
  void take_status(Connection& c, LaneMessage& message);
  void apply_status(Connection& c);
  void answer_read(Connection& c, const LaneMessage& request);
  void finish_read(Connection& c, const LaneMessage& answer);
  void fail_lane(Connection& c, LaneEnd& lane);
  void lose_reads(Connection& c, std::uint16_t lane);
  void try_lane(Connection& c, LaneEnd& lane);
  void restore_lane(Connection& c, LaneEnd& lane);
  void tell_lane(const Connection& c, const LaneEnd& lane);
  void note_deadline(Picoseconds at) { next_due_ = std::min(next_due_, at); }

  Shape shape_;
  Network& network_;
  const EventList& events_;
  FabricCaps caps_;
  std::uint32_t own_host_ = 0;
  std::vector<std::uint32_t> host_nics_;  // by host: its first NIC; and one past the last
  std::vector<std::string> addresses_;
  std::vector<std::uint32_t> address_nics_;
  std::vector<std::unique_ptr<Connection>> connections_;  // by id
  std::vector<std::uint32_t> free_ids_;
  std::vector<Connection*> peers_;  // by FabricPeer
  std::vector<std::uint32_t> free_peers_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> called_;  // (host, its id): ours
  std::map<std::uint32_t, std::span<std::byte>> regions_;                    // by LocalKey
  std::deque<FabricEvent> events_out_;
  std::deque<ReadDone> reads_done_;
  std::deque<LaneNews> lane_news_;
  std::vector<NicQueue> nics_;
  Picoseconds next_due_ = kEndOfTime;
  std::uint32_t gone_untold_ = 0;
  bool has_detached_ = false;
  bool carries_payload_ = true;
  bool is_full_ = false;
  std::uint64_t packets_ = 0;
  std::uint64_t naks_ = 0;
  std::uint64_t timeouts_ = 0;
  std::uint64_t lanes_failed_ = 0;
  std::uint64_t lanes_restored_ = 0;
  std::uint64_t resent_before_ = 0;  // by connections that are no more
  std::uint32_t made_ = 0;           // connections, ever
};

}  // namespace spindrift::sim
