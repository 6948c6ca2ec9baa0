#pragma once
// Registered regions: keys, bounds, rights, epochs. Every packet that names remote memory and every
// local scatter/gather entry is checked here.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "spindrift/memory.h"

#include "transport/base/check.h"
#include "transport/wire/ses.h"

namespace spindrift {

class MemoryTable {
 public:
  // Index in the low bits of both keys; a remote key has 43 random bits above it, a local key an
  // epoch.
  static constexpr std::uint32_t kIndexBits = 20;
  // Of remote keys: the memory is a device's, and whoever writes there has to offer the bytes.
  static constexpr std::uint64_t kDeviceBit = 1ULL << 63U;

  explicit MemoryTable(std::uint32_t max_regions);

  // `random` supplies the unguessable part of the key (43 bits are used).
  Result<MemoryRegion> add(std::span<std::byte> bytes, Access access,
                           const RegisterOptions& options, std::uint64_t random);
  // `released`: transmissions up to this one are no longer read by the provider. While it still
  // reads the region for a peer's READs, or for a connection that was released, the remote key dies
  // and the rest waits: kUnavailable.
  Status remove(const MemoryRegion& region, std::uint64_t released);

  // Local work. `needs_write`: the region must grant kLocalWrite.
  struct Cover {
    bool is_whole = false;  // the piece lies in the region its key names
    bool is_line_ordered = false;
    bool is_device = false;  // the processor must not touch it
  };
  [[nodiscard]] Cover cover(const Sge& sge, bool needs_write) const {
    const Region* region = find_local(sge.region);
    if (region == nullptr) return {};
    if (needs_write && !has_access(region->access, Access::kLocalWrite)) return {};
    const auto begin = reinterpret_cast<std::uintptr_t>(sge.data);
    const auto base = reinterpret_cast<std::uintptr_t>(region->data);
    return {.is_whole = begin >= base && sge.bytes <= region->bytes &&
                        begin - base <= region->bytes - sge.bytes,
            .is_line_ordered = region->is_line_ordered,
            .is_device = region->is_device};
  }
  // Work in progress names the region.
  void hold(LocalKey key) {
    SPINDRIFT_DCHECK(find_local(key) != nullptr);
    ++regions_[key.value & kIndexMask].holds;
  }
  void drop(LocalKey key) {
    Region& region = regions_[key.value & kIndexMask];
    SPINDRIFT_CHECK(region.holds > 0);
    --region.holds;
  }

  // Payload of this transmission lies in the region: nobody holds it, but it must stay.
  void read_by(LocalKey key, std::uint64_t transmission) {
    read_by(key.value & kIndexMask, transmission);
  }
  void read_by_remote_key(std::uint64_t key, std::uint64_t transmission) {
    read_by(key & kIndexMask, transmission);
  }

  struct Target {
    wire::ReturnCode code = wire::ReturnCode::kOk;
    bool is_line_ordered = false;
    bool is_device = false;     // the processor must not touch it
    std::byte* data = nullptr;  // only when kOk
    LocalKey region{};          // the same
  };
  // Bytes [offset, offset + length) of the region `key` names, for the right `wanted`.
  [[nodiscard]] Target find(std::uint64_t key, std::uint64_t offset, std::uint64_t length,
                            Access wanted) const {
    const std::uint64_t index = key & kIndexMask;
    if (index >= regions_.size() || regions_[index].key != key || key == 0)
      return {.code = wire::ReturnCode::kBadKey};
    const Region& region = regions_[index];
    if (!has_access(region.access, wanted)) return {.code = wire::ReturnCode::kPermission};
    if (offset > region.bytes || length > region.bytes - offset)
      return {.code = wire::ReturnCode::kOutOfRange};
    return {.code = wire::ReturnCode::kOk,
            .is_line_ordered = region.is_line_ordered,
            .is_device = region.is_device,
            .data = region.data + offset,
            .region = LocalKey{local_key(region, index)}};
  }
  std::uint32_t size() const { return count_; }

 private:
  static constexpr std::uint32_t kIndexMask = (1U << kIndexBits) - 1;
  struct Region {
    std::byte* data = nullptr;
    std::uint64_t bytes = 0;
    std::uint64_t key = 0;  // zero: free
    std::uint64_t last_transmission = 0;
    std::uint32_t epoch = 0;
    std::uint32_t holds = 0;
    Access access = Access::kLocalRead;
    bool is_line_ordered = false;
    bool is_device = false;
  };
  void read_by(std::uint64_t index, std::uint64_t transmission) {
    regions_[index].last_transmission = std::max(regions_[index].last_transmission, transmission);
  }
  const Region* find_local(LocalKey key) const {
    const std::uint32_t index = key.value & kIndexMask;
    if (index >= regions_.size()) return nullptr;
    const Region& region = regions_[index];
    if (region.key == 0 || local_key(region, index) != key.value) return nullptr;
    return &region;
  }
  static std::uint32_t local_key(const Region& region, std::uint64_t index) {
    return (region.epoch << kIndexBits) | static_cast<std::uint32_t>(index);
  }

  std::uint32_t max_regions_;
  std::uint32_t count_ = 0;
  std::vector<Region> regions_;
  std::vector<std::uint32_t> free_;
};

}  // namespace spindrift
