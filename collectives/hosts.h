#pragma once
// Which ranks share a host, as hierarchical plans need it.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/plan.h"

namespace spindrift::collectives {

// The ranks of each host, ascending; hosts in order of appearance.
class Hosts final {
 public:
  explicit Hosts(const PlanRequest& request) : numbers_(request.topology.hosts) {
    for (std::uint32_t rank = 0; rank < numbers_.size(); ++rank) {
      if (numbers_[rank] >= ranks_.size()) ranks_.resize(numbers_[rank] + 1);
      ranks_[numbers_[rank]].push_back(rank);
    }
  }

  std::uint32_t count() const { return static_cast<std::uint32_t>(ranks_.size()); }
  std::uint32_t host_of(std::uint32_t rank) const { return numbers_[rank]; }
  const std::vector<std::uint32_t>& ranks(std::uint32_t host) const { return ranks_[host]; }
  std::uint32_t place_of(std::uint32_t rank) const {
    const std::vector<std::uint32_t>& near = ranks_[numbers_[rank]];
    return static_cast<std::uint32_t>(std::find(near.begin(), near.end(), rank) - near.begin());
  }
  std::uint32_t fewest() const {
    std::size_t fewest = numbers_.size();
    for (const std::vector<std::uint32_t>& ranks : ranks_)
      fewest = std::min(fewest, ranks.size());
    return static_cast<std::uint32_t>(fewest);
  }

 private:
  const std::vector<std::uint32_t>& numbers_;
  std::vector<std::vector<std::uint32_t>> ranks_;
};

// Of all hierarchical algorithms.
inline std::string why_not_hierarchical(const PlanRequest& request) {
  if (request.topology.hosts.empty()) return "nobody knows which ranks share a host";
  const Hosts hosts(request);
  if (hosts.count() == 1) return "all ranks are on one host";
  if (hosts.count() == request.ranks) return "every rank has a host of its own";
  return {};
}

}  // namespace spindrift::collectives
