#pragma once
// One local address of packets: its queue pairs with their buffers, and the UDP socket of the same
// address where others ask for them. UD: one queue pair for all neighbors. UC: several for each,
// which take buffers from one shared receive queue. Internal to providers/verbs.
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include <infiniband/verbs.h>

#include "spindrift/address.h"
#include "spindrift/result.h"

#include "providers/verbs/datagram_card.h"
#include "providers/verbs/datagram_lane.h"
#include "providers/verbs/registered_memory.h"
#include "providers/verbs/verbs_port.h"
#include "transport/base/unique_fd.h"

namespace spindrift {

class DatagramRail {
 public:
  static constexpr std::uint32_t kReceives = 1024;

  DatagramRail() = default;
  DatagramRail(const DatagramRail&) = delete;
  DatagramRail& operator=(const DatagramRail&) = delete;
  ~DatagramRail();
  // `address` becomes that of the rail: port 0 picks a free one. `out`: the memory of slots.
  Status open(const VerbsPorts& ports, std::size_t port, const VerbsOptions& options,
              NetAddress& address, const Registrations& out);

  const VerbsPort& port() const { return *port_; }
  std::size_t port_index() const { return port_index_; }
  int socket() const { return socket_.get(); }
  int channel() const { return channel_->fd; }
  std::uint8_t gid_index() const { return gid_index_; }
  bool is_ipv4() const { return is_ipv4_; }
  // Queue pairs per neighbor; 0: one for all (UD).
  std::uint32_t lanes() const { return lanes_; }
  // Of ours, for questions and answers; UC: with the lanes that the neighbor has.
  DatagramCard card() const;

  // UC: not connected yet.
  Result<std::unique_ptr<DatagramLane>> make_lane();
  // What was under way is forgotten.
  void end_lane(std::unique_ptr<DatagramLane> lane);
  DatagramLane& shared_lane() { return *shared_; }  // UD

  using Outgoing = OutgoingDatagram;
  // A doorbell for each lane among them.
  void post(std::span<const Outgoing> packets) const;
  // Slots that are free again.
  void take_sent(std::vector<std::uint32_t>& slots);
  // Connects a lane of UC, or connects it anew.
  Status connect(DatagramLane& lane, const DatagramLane::Peer& peer) {
    return lane.connect(peer, freed_);
  }

  // A prefix of `out`. Finding none, it sees to it that channel() becomes readable with the next.
  std::size_t poll(std::span<ibv_wc> out);
  std::span<const std::byte> buffer(std::uint32_t number) const {
    return in_.bytes().subspan(std::size_t{number} * buffer_bytes_, buffer_bytes_);
  }
  void give_back(std::uint32_t buffer);

 private:
  Status open_socket(NetAddress& address);
  Status open_queues();
  Status open_shared_lane();
  Status open_shared_buffers();
  void post_buffers();
  bool arm();

  VerbsPort* port_ = nullptr;
  const VerbsOptions* options_ = nullptr;
  std::size_t port_index_ = 0;
  UniqueFd socket_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* sent_ = nullptr;
  ibv_cq* received_ = nullptr;
  std::unique_ptr<DatagramLane> shared_;  // UD
  ibv_srq* buffers_ = nullptr;            // UC
  GidBytes gid_{};
  std::uint8_t gid_index_ = 0;
  bool is_ipv4_ = true;
  bool is_armed_ = false;
  std::uint32_t key_ = 0;
  std::uint32_t out_key_ = 0;
  std::uint32_t buffer_bytes_ = 0;
  Pages in_;
  Registrations in_keys_;
  std::vector<std::uint32_t> idle_;  // buffers
  std::uint32_t lanes_ = 0;
  std::uint32_t lanes_made_ = 0;
  std::unordered_map<std::uint32_t, DatagramLane*> lane_of_;  // by the number in completions
  std::vector<std::uint32_t> freed_;  // slots of lanes that ended or were connected anew
};

}  // namespace spindrift
