#pragma once
// Memory that devices may reach: the user's regions, and blocks of our own. Each is registered with
// every port of the endpoint. Internal to providers/verbs.
#include <cstddef>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include <infiniband/verbs.h>

#include "spindrift/memory.h"
#include "spindrift/message_fabric.h"

#include "providers/verbs/verbs_greeting.h"
#include "providers/verbs/verbs_port.h"
#include "transport/base/pages.h"

namespace spindrift {

using VerbsPorts = std::vector<std::unique_ptr<VerbsPort>>;

// Instead of the descriptor of a dma-buf.
inline constexpr int kHostMemory = -1;

// One registration per port.
class Registrations {
 public:
  Registrations() = default;
  Registrations(Registrations&& other) noexcept : of_port_(std::move(other.of_port_)) {
    other.of_port_.clear();
  }
  Registrations& operator=(Registrations&& other) noexcept {
    of_port_.swap(other.of_port_);
    return *this;
  }
  Registrations(const Registrations&) = delete;
  Registrations& operator=(const Registrations&) = delete;
  ~Registrations();
  // `access`: IBV_ACCESS_*. `dmabuf_fd`: of device memory, from its beginning; kHostMemory: of
  // none.
  static Result<Registrations> make(const VerbsPorts& ports, std::span<std::byte> bytes,
                                    unsigned access, int dmabuf_fd = kHostMemory);
  std::uint32_t local_key(std::size_t port) const { return of_port_[port]->lkey; }
  std::uint32_t remote_key(std::size_t port) const { return of_port_[port]->rkey; }

 private:
  std::vector<ibv_mr*> of_port_;
};

// Zeroed pages that no child of fork() shares.
Result<Pages> map_own_pages(std::size_t bytes);

// The regions that the engine has named.
class RegionTable {
 public:
  struct Region {
    std::span<std::byte> bytes;
    Registrations registrations;
  };
  Status add(const VerbsPorts& ports, LocalKey key, std::span<std::byte> bytes, unsigned access,
             int dmabuf_fd = kHostMemory);
  void remove(LocalKey key) { regions_.erase(key.value); }
  // Null: no such region, or `piece` leaves it.
  const Region* find(const Sge& piece) const;
  // What peers have to name: one key per port, 32 bits each.
  std::uint64_t offered_key(const Region& region, std::size_t ports) const;
  std::size_t size() const { return regions_.size(); }

 private:
  std::unordered_map<std::uint32_t, Region> regions_;
};

inline std::uint32_t key_for_port(std::uint64_t offered, std::size_t port) {
  return static_cast<std::uint32_t>(offered >> (32 * port));
}

}  // namespace spindrift
