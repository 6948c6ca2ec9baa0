#pragma once
// Memory as libfabric wants it registered, with every rail: the user's regions, and our own. Part
// of the module libspindrift-ofi.so.
#include <array>
#include <span>
#include <unordered_map>
#include <vector>

#include "spindrift/memory.h"
#include "spindrift/message_fabric.h"
#include "spindrift/result.h"

#include "providers/libfabric/ofi_rail.h"

namespace spindrift {

// How a peer reads what is registered, by one rail.
struct OfiRemoteMemory {
  std::uint64_t address = 0;  // of its first byte
  std::uint64_t key = 0;
};

// Memory registered with every rail that there is.
class OfiRegistration {
 public:
  // For the `desc` of operations; null where none is needed.
  void* descriptor(std::size_t rail) const { return entries_[rail].descriptor; }
  const OfiRemoteMemory& remote(std::size_t rail) const { return entries_[rail].remote; }
  void release() { entries_ = {}; }

 private:
  friend class OfiMemory;
  struct Entry {
    FiOwner<fid_mr> mr{};
    void* descriptor = nullptr;
    OfiRemoteMemory remote{};
  };
  std::array<Entry, kMostOfiRails> entries_{};
};

class OfiMemory {
 public:
  struct Region {
    std::span<std::byte> bytes{};
    OfiRegistration registration{};
    // Names it to peers over several rails: no two that exist have the same slot, and none that
    // ever existed the same of both.
    std::uint32_t slot = 0;
    std::uint32_t generation = 0;
  };

  // Before this, regions are only noted; now they are registered, too.
  Status attach(const OfiRails& rails);
  void detach() { rails_ = nullptr; }
  Status add_region(LocalKey region, std::span<std::byte> bytes);
  void remove_region(LocalKey region);
  // Null: there is none.
  const Region* find(LocalKey region) const;
  // What the peer has to name, over the first rail; the region of `piece` is known.
  RemoteSpan offer(const Sge& piece) const;
  void* descriptor(LocalKey region, std::size_t rail) const;

  // Memory of our own, registered for as long as what is returned lives.
  Result<OfiRegistration> register_own(std::span<std::byte> bytes, std::uint64_t access) const;

 private:
  Status register_region(Region& region) const;

  const OfiRails* rails_ = nullptr;
  std::unordered_map<std::uint32_t, Region> regions_;
  std::vector<std::uint32_t> free_slots_;
  std::uint32_t slots_ = 0;
  std::uint32_t generations_ = 0;
};

}  // namespace spindrift
