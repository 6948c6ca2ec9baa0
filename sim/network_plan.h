#pragma once
// A network on paper: nodes, links, NICs. Topologies write it, the network is built from it.
#include <cstdint>
#include <string>
#include <vector>

#include "sim/scenario.h"

namespace spindrift::sim {

// Of data at one port.
struct PortLimits {
  std::uint64_t queue_bytes = 0;
  std::uint64_t kmin_bytes = 0;
  std::uint64_t kmax_bytes = 0;
};

struct NetworkPlan {
  struct Node {
    std::string name{};
    bool is_switch = false;
  };
  // Both directions.
  struct Link {
    std::uint32_t a = 0;  // nodes
    std::uint32_t b = 0;
    LinkSpec spec{};
    Picoseconds latency_a = 0;  // of the switch, for what arrives at a
    Picoseconds latency_b = 0;
    std::uint64_t queue_a = 0;  // data bytes that a's port holds; 0: SwitchSpec::queue_bytes
    std::uint64_t queue_b = 0;
  };
  // Ports are directions of links: port 2 l leaves end a of link l, port 2 l + 1 its end b.
  struct Nic {
    std::uint32_t host = 0;
    std::uint32_t port = 0;  // out of it
  };
  std::vector<Node> nodes{};  // hosts first: host i is node i
  std::uint32_t hosts = 0;
  std::vector<Link> links{};
  std::vector<Nic> nics{};  // ordered by host; the k-th of a host is its rail k

  std::uint32_t near_end(std::uint32_t port) const {
    return port % 2 == 0 ? links[port / 2].a : links[port / 2].b;
  }
  std::uint32_t far_end(std::uint32_t port) const { return near_end(port ^ 1U); }

  std::uint32_t add_switch(std::string name) {
    nodes.push_back({.name = std::move(name), .is_switch = true});
    return static_cast<std::uint32_t>(nodes.size() - 1);
  }
  std::uint32_t connect(std::uint32_t a, std::uint32_t b, const LinkSpec& spec,
                        Picoseconds switch_latency) {
    links.push_back({.a = a,
                     .b = b,
                     .spec = spec,
                     .latency_a = nodes[a].is_switch ? switch_latency : 0,
                     .latency_b = nodes[b].is_switch ? switch_latency : 0});
    return static_cast<std::uint32_t>(links.size() - 1);
  }
};

}  // namespace spindrift::sim
