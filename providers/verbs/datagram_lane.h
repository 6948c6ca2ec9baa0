#pragma once
// A queue pair that packets leave by, with the slots of those that have not left yet. UD: one for
// all neighbors, each packet says where it goes. UC: connected to one of a neighbor's, and so a
// path of its own; what comes is a whole packet or nothing. Internal to providers/verbs.
#include <cstdint>
#include <span>
#include <vector>

#include <infiniband/verbs.h>

#include "spindrift/result.h"

#include "providers/verbs/gid_choice.h"
#include "providers/verbs/verbs_port.h"

namespace spindrift {

class DatagramLane;

// A packet on its way out: provider memory, header first.
struct DatagramSlot {
  std::byte* bytes = nullptr;
  std::uint32_t length = 0;
};
struct OutgoingDatagram {
  DatagramLane* by = nullptr;
  std::uint16_t entropy = 0;
  std::uint8_t traffic_class = 0;
  ibv_ah* to = nullptr;          // UD: the way
  std::uint32_t queue_pair = 0;  // UD: there
  std::uint32_t key = 0;         // ... and what it wants to see
  std::uint32_t slot = 0;
  DatagramSlot bytes{};
};

class DatagramLane {
 public:
  static constexpr std::uint32_t kSends = 256;
  static constexpr std::size_t kChain = 32;  // packets of one doorbell

  struct Needs {
    ibv_qp_type type = IBV_QPT_UD;
    ibv_cq* sent = nullptr;
    ibv_cq* received = nullptr;
    ibv_srq* buffers = nullptr;  // UC
    std::uint32_t receives = 0;  // UD
    std::uint32_t key = 0;       // UD: that packets to it must carry
    std::uint32_t number = 0;    // in completions
  };
  // The other end of UC.
  struct Peer {
    GidBytes gid{};
    std::uint16_t lid = 0;
    std::uint32_t queue_pair = 0;
    std::uint32_t mtu = 1024;
    std::uint32_t flow_label = 0;
    std::uint8_t gid_index = 0;  // ours
  };

  DatagramLane() = default;
  DatagramLane(const DatagramLane&) = delete;
  DatagramLane& operator=(const DatagramLane&) = delete;
  ~DatagramLane();
  // UD: ready. UC: ready to be connected.
  Status make(const VerbsPort& port, const VerbsOptions& options, const Needs& needs);
  // UC. Also what was connected or has failed: what was under way is forgotten, and its slots are
  // appended.
  Status connect(const Peer& peer, std::vector<std::uint32_t>& slots);

  ibv_qp* pair() const { return pair_; }
  std::uint32_t queue_pair() const { return pair_->qp_num; }
  std::uint32_t number() const { return needs_.number; }
  bool has_failed() const { return has_failed_; }
  // The device said so.
  void fail() { has_failed_ = true; }

  // Up to kChain packets, one doorbell.
  void post(std::span<const OutgoingDatagram* const> packets, std::uint32_t local_key);
  // All up to the one with that id have left.
  void on_sent(std::uint64_t id, std::vector<std::uint32_t>& slots);
  static std::uint32_t number_of(std::uint64_t id) { return static_cast<std::uint32_t>(id >> 32); }
  // Of what has not left; nothing of it comes back any more.
  void forget_under_way(std::vector<std::uint32_t>& slots);

 private:
  Status set_state(ibv_qp_attr& to, int mask, const char* step);
  Status initialise();

  ibv_qp* pair_ = nullptr;
  const VerbsPort* port_ = nullptr;
  const VerbsOptions* options_ = nullptr;
  Needs needs_{};
  bool has_failed_ = false;
  std::uint32_t since_signal_ = 0;
  std::vector<std::uint32_t> order_;  // slots as they were posted
  std::uint32_t posted_ = 0;
  std::uint32_t ended_ = 0;
};

}  // namespace spindrift
