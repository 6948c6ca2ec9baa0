#pragma once
// Memory as libfabric wants it registered: the user's regions, and our own. Part of the module
// libspindrift-ofi.so.
#include <map>
#include <span>
#include <unordered_map>

#include "spindrift/memory.h"
#include "spindrift/message_fabric.h"
#include "spindrift/result.h"

#include "providers/libfabric/ofi_device.h"

namespace spindrift {

class OfiMemory {
 public:
  // Before this, regions are only noted; now they are registered, too.
  Status attach(OfiDevice& device);
  Status add_region(LocalKey region, std::span<std::byte> bytes);
  void remove_region(LocalKey region);
  // What the peer has to name; the region of `piece` is known.
  RemoteSpan offer(const Sge& piece) const;
  // For the `desc` of operations; null where none is needed.
  void* descriptor(LocalKey region) const;

  // Memory of our own, registered for as long as what is returned lives.
  Result<FiOwner<fid_mr>> register_own(std::span<std::byte> bytes, std::uint64_t access);
  // How the peer names the first byte of what was registered so.
  std::uint64_t remote_address(const void* bytes) const;

 private:
  struct Region {
    std::span<std::byte> bytes{};
    FiOwner<fid_mr> mr{};
    void* descriptor = nullptr;
    std::uint64_t key = 0;
  };
  Status register_region(Region& region);

  OfiDevice* device_ = nullptr;
  std::unordered_map<std::uint32_t, Region> regions_;
};

}  // namespace spindrift
