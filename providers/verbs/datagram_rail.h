#pragma once
// One local address of datagrams: a UD queue pair with its buffers, and the UDP socket of the same
// address where others ask for it. Internal to providers/verbs.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <infiniband/verbs.h>

#include "spindrift/address.h"
#include "spindrift/result.h"

#include "providers/verbs/datagram_card.h"
#include "providers/verbs/registered_memory.h"
#include "providers/verbs/verbs_port.h"
#include "transport/base/unique_fd.h"

namespace spindrift {

// A packet on its way out: provider memory, header first.
struct DatagramSlot {
  std::byte* bytes = nullptr;
  std::uint32_t length = 0;
};

class DatagramRail {
 public:
  static constexpr std::uint32_t kSends = 256;
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
  // Of ours, for questions and answers.
  DatagramCard card() const;

  // Packets that may be posted; the id comes back from take_sent() when they have left.
  std::size_t room() const { return kSends - under_way_; }
  struct Outgoing {
    ibv_ah* to = nullptr;
    std::uint32_t queue_pair = 0;
    std::uint32_t key = 0;
    std::uint32_t slot = 0;
    DatagramSlot bytes{};
  };
  // One doorbell.
  void post(std::span<const Outgoing> packets);
  // Slots that are free again.
  void take_sent(std::vector<std::uint32_t>& slots);

  // A prefix of `out`. Finding none, it sees to it that channel() becomes readable with the next.
  std::size_t poll(std::span<ibv_wc> out);
  std::span<const std::byte> buffer(std::uint32_t number) const {
    return in_.bytes().subspan(std::size_t{number} * buffer_bytes_, buffer_bytes_);
  }
  void give_back(std::uint32_t buffer);

 private:
  Status open_socket(NetAddress& address);
  Status open_queue_pair(const VerbsOptions& options);
  Status set_state(ibv_qp_attr& to, int mask, const char* step);
  void post_buffers();
  bool arm();

  VerbsPort* port_ = nullptr;
  std::size_t port_index_ = 0;
  UniqueFd socket_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* sent_ = nullptr;
  ibv_cq* received_ = nullptr;
  ibv_qp* pair_ = nullptr;
  GidBytes gid_{};
  std::uint8_t gid_index_ = 0;
  bool is_ipv4_ = true;
  bool is_armed_ = false;
  std::uint32_t key_ = 0;
  std::uint32_t out_key_ = 0;
  std::uint32_t buffer_bytes_ = 0;
  OwnPages in_;
  Registrations in_keys_;
  std::vector<std::uint32_t> idle_;  // buffers
  std::uint32_t under_way_ = 0;
  std::uint32_t since_signal_ = 0;
  std::vector<std::uint32_t> order_;  // slots as they were posted
  std::uint64_t posted_ = 0;
  std::uint64_t ended_ = 0;
};

}  // namespace spindrift
