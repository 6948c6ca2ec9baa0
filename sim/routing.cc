#include "sim/routing.h"

#include <algorithm>
#include <limits>

#include "transport/base/rng.h"

namespace spindrift::sim {
namespace {

constexpr std::uint32_t kFar = std::numeric_limits<std::uint32_t>::max();

}  // namespace

Routing::Routing(const NetworkPlan& plan, std::uint64_t seed)
    : rows_(plan.nodes.size()), columns_(plan.nodes.size(), kFar) {
  Rng rng(seed);
  for (std::size_t i = 0; i < plan.nodes.size(); ++i)
    salts_.push_back(rng.next());
  std::vector<std::vector<Hop>> neighbours(plan.nodes.size());
  for (std::uint32_t i = 0; i < plan.links.size(); ++i) {
    const NetworkPlan::Link& link = plan.links[i];
    far_ends_.push_back(link.b);
    far_ends_.push_back(link.a);
    if (!plan.nodes[link.a].is_switch || !plan.nodes[link.b].is_switch) continue;
    neighbours[link.a].push_back({.port = 2 * i, .node = link.b});
    neighbours[link.b].push_back({.port = 2 * i + 1, .node = link.a});
  }
  std::vector<std::uint32_t> edge_nodes;
  for (const NetworkPlan::Nic& nic : plan.nics) {
    const std::uint32_t node = plan.far_end(nic.port);
    edges_.push_back({.node = node, .port = nic.port ^ 1U, .nic_port = nic.port});
    if (columns_[node] != kFar) continue;
    columns_[node] = static_cast<std::uint32_t>(edge_nodes.size());
    edge_nodes.push_back(node);
  }
  columns_count_ = edge_nodes.size();
  for (std::uint32_t node = 0; node < plan.nodes.size(); ++node)
    rows_[node] = node < plan.hosts ? 0 : node - plan.hosts;
  groups_.resize((plan.nodes.size() - plan.hosts) * columns_count_);
  if (plan.nodes.size() == plan.hosts) return;  // no switches
  for (const std::uint32_t node : edge_nodes)
    find_groups(neighbours, node);
}

// Breadth first from the edge switch: a neighbour one step nearer to it is a next hop.
void Routing::find_groups(const std::vector<std::vector<Hop>>& neighbours, std::uint32_t edge) {
  std::vector<std::uint32_t> distance(neighbours.size(), kFar);
  std::vector<std::uint32_t> order{edge};
  distance[edge] = 0;
  std::vector<std::uint32_t> ports;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::uint32_t node = order[i];
    ports.clear();
    for (const Hop& hop : neighbours[node]) {
      if (distance[hop.node] == kFar) {
        distance[hop.node] = distance[node] + 1;
        order.push_back(hop.node);
      }
      if (distance[hop.node] + 1 == distance[node]) ports.push_back(hop.port);
    }
    if (node != edge)
      groups_[std::size_t{rows_[node]} * columns_count_ + columns_[edge]] = intern(ports);
  }
}

// Switches of one tier often share a list; the last one made is the likeliest.
Routing::Group Routing::intern(std::span<const std::uint32_t> ports) {
  const auto found = std::search(ports_.size() > 4096 ? ports_.end() - 4096 : ports_.begin(),
                                 ports_.end(), ports.begin(), ports.end());
  const auto first = static_cast<std::uint32_t>(found - ports_.begin());
  if (found == ports_.end()) ports_.insert(ports_.end(), ports.begin(), ports.end());
  return {.first = first, .count = static_cast<std::uint32_t>(ports.size())};
}

std::vector<std::uint32_t> Routing::a_path(std::uint32_t from_nic, std::uint32_t to_nic) const {
  const Edge& to = edges_[to_nic];
  std::vector<std::uint32_t> path{edges_[from_nic].nic_port};
  if (path.back() == to.port) return path;  // joined directly
  std::uint32_t node = far_ends_[path.back()];
  while (path.size() <= far_ends_.size()) {
    const std::uint32_t port = choose(node, to_nic, to.node, 0);
    if (port == kNoPort) return {};
    path.push_back(port);
    if (port == to.port) return path;
    node = far_ends_[port];
  }
  return {};
}

std::uint32_t Routing::path_links(std::uint32_t from_nic, std::uint32_t to_nic) const {
  return static_cast<std::uint32_t>(a_path(from_nic, to_nic).size());
}

}  // namespace spindrift::sim
