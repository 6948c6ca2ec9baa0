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

// Each of the first ranks of a host, as many as the smallest host has, owns a part of the blocks of
// every host.
class HostParts final {
 public:
  explicit HostParts(const PlanRequest& request)
      : hosts_(request),
        rank_(request.rank),
        host_(hosts_.host_of(request.rank)),
        near_(hosts_.ranks(host_)),
        owners_(hosts_.fewest()),
        place_(hosts_.place_of(request.rank)) {}

  std::uint32_t rank() const { return rank_; }
  std::uint32_t hosts() const { return hosts_.count(); }
  std::uint32_t host() const { return host_; }
  // The rank of another host that owns the same part.
  std::uint32_t like_on(std::uint32_t host) const { return hosts_.ranks(host)[place_]; }
  // The ranks of this host; the first owners() of them own a part each.
  const std::vector<std::uint32_t>& near() const { return near_; }
  std::uint32_t owners() const { return owners_; }
  std::uint32_t place() const { return place_; }
  std::uint32_t place_of(std::uint32_t rank) const { return hosts_.place_of(rank); }
  bool is_owner() const { return place_ < owners_; }
  // `steps` hosts before this one in the ring.
  std::uint32_t back(std::uint32_t steps) const {
    return (host_ + 2 * hosts_.count() - steps) % hosts_.count();
  }
  std::uint32_t next() const { return like_on((host_ + 1) % hosts()); }
  std::uint32_t previous() const { return like_on(back(1)); }
  // Part `owner` of the blocks of a host.
  std::vector<std::uint32_t> part(std::uint32_t host, std::uint32_t owner) const {
    std::vector<std::uint32_t> blocks;
    const std::vector<std::uint32_t>& ranks = hosts_.ranks(host);
    for (std::size_t i = owner; i < ranks.size(); i += owners_)
      blocks.push_back(ranks[i]);
    return blocks;
  }
  // All blocks that the owner has something to do with, ascending.
  std::vector<std::uint32_t> all_of(std::uint32_t owner) const {
    std::vector<std::uint32_t> blocks;
    for (std::uint32_t host = 0; host < hosts(); ++host) {
      const std::vector<std::uint32_t> some = part(host, owner);
      blocks.insert(blocks.end(), some.begin(), some.end());
    }
    std::sort(blocks.begin(), blocks.end());
    return blocks;
  }

 private:
  const Hosts hosts_;
  const std::uint32_t rank_;
  const std::uint32_t host_;
  const std::vector<std::uint32_t>& near_;
  const std::uint32_t owners_;
  const std::uint32_t place_;
};

// One rank of each host, on the root's the root itself: hosts are counted from the root's on.
class Leaders final {
 public:
  explicit Leaders(const PlanRequest& request)
      : hosts_(request),
        root_(request.root),
        root_host_(hosts_.host_of(request.root)),
        number_((hosts_.host_of(request.rank) + hosts_.count() - root_host_) % hosts_.count()),
        near_(hosts_.ranks(hosts_.host_of(request.rank))) {}

  std::uint32_t hosts() const { return hosts_.count(); }
  // Of this host; 0 is the root's.
  std::uint32_t number() const { return number_; }
  bool is_root_host() const { return number_ == 0; }
  std::uint32_t of(std::uint32_t number) const {
    const std::uint32_t host = (number + root_host_) % hosts_.count();
    return host == root_host_ ? root_ : hosts_.ranks(host).front();
  }
  std::uint32_t own() const { return of(number_); }
  const std::vector<std::uint32_t>& near() const { return near_; }

 private:
  const Hosts hosts_;
  const std::uint32_t root_;
  const std::uint32_t root_host_;
  const std::uint32_t number_;
  const std::vector<std::uint32_t>& near_;
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
