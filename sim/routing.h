#pragma once
// Equal-cost shortest paths. Which ports of a switch lead towards a NIC, and which of them a packet
// takes: by a hash of its 5-tuple that differs from switch to switch.
#include <cstdint>
#include <span>
#include <vector>

#include "sim/network_plan.h"

namespace spindrift::sim {

inline constexpr std::uint32_t kNoPort = 0xffffffff;

class Routing {
 public:
  Routing(const NetworkPlan& plan, std::uint64_t seed);

  // The switch that a NIC hangs on; the NIC's host itself when two hosts are joined directly.
  std::uint32_t edge_of(std::uint32_t nic) const { return edges_[nic].node; }
  // Egress port at `node`, a switch. kNoPort: it cannot be reached.
  std::uint32_t choose(std::uint32_t node, std::uint32_t nic, std::uint32_t edge,
                       std::uint32_t tuple_hash) const {
    if (node == edge) return edges_[nic].port;
    const Group group = groups_[std::size_t{rows_[node]} * columns_count_ + columns_[edge]];
    if (group.count == 1) return ports_[group.first];
    if (group.count == 0) return kNoPort;
    const std::uint64_t mixed = (tuple_hash ^ salts_[node]) * 0x9E3779B97F4A7C15ULL;
    const std::uint64_t hash = ((mixed ^ (mixed >> 32)) * 0xD6E8FEB86659FD93ULL) >> 32;
    return ports_[group.first + static_cast<std::uint32_t>((hash * group.count) >> 32)];
  }
  // Links on a shortest path between two NICs; 0: unreachable.
  std::uint32_t path_links(std::uint32_t from_nic, std::uint32_t to_nic) const;
  // One such path: the egress ports, from the NIC's on.
  std::vector<std::uint32_t> a_path(std::uint32_t from_nic, std::uint32_t to_nic) const;

 private:
  struct Group {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };
  struct Edge {
    std::uint32_t node = 0;
    std::uint32_t port = kNoPort;      // from the edge switch to the NIC
    std::uint32_t nic_port = kNoPort;  // from the NIC to the edge switch
  };
  struct Hop {
    std::uint32_t port = 0;
    std::uint32_t node = 0;
  };
  void find_groups(const std::vector<std::vector<Hop>>& neighbours, std::uint32_t edge);
  Group intern(std::span<const std::uint32_t> ports);

  std::vector<Edge> edges_;             // by NIC
  std::vector<std::uint32_t> rows_;     // by node
  std::vector<std::uint32_t> columns_;  // by node
  std::size_t columns_count_ = 0;
  std::vector<Group> groups_;
  std::vector<std::uint32_t> ports_;
  std::vector<std::uint32_t> far_ends_;  // node by port
  std::vector<std::uint64_t> salts_;     // by node
};

}  // namespace spindrift::sim
