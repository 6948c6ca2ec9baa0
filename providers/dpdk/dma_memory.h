#pragma once
// Memory of the program that a device reads by itself, through the IOMMU: whole pages, mapped where
// they are. One table for the process, because a page is mapped for a device once. Internal to
// providers/dpdk.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <rte_dev.h>

#include "spindrift/memory.h"

namespace spindrift {

// Pages that hold some bytes.
struct PageRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  auto operator<=>(const PageRange&) const = default;
  std::size_t bytes() const { return end - begin; }
};
PageRange pages_of(std::span<const std::byte> bytes);

// Whether `device` can read these pages now; then unmap_for_dma() gives them up. The same pages may
// be asked for again, as often as one likes. Pages of which only some are mapped are refused, and
// so is what the IOMMU, or DPDK's table of such memory, has no room for.
bool map_for_dma(const PageRange& pages, rte_device* device);
void unmap_for_dma(const PageRange& pages, rte_device* device);

// The registered memory of an endpoint that all of its devices read.
class DmaRegions {
 public:
  explicit DmaRegions(std::vector<rte_device*> devices) : devices_(std::move(devices)) {}
  ~DmaRegions();
  DmaRegions(const DmaRegions&) = delete;
  DmaRegions& operator=(const DmaRegions&) = delete;

  void add(LocalKey region, std::span<std::byte> bytes);
  void remove(LocalKey region);
  bool contains(std::span<const std::byte> bytes) const {
    const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
    for (const Region& one : regions_)
      if (begin >= one.pages.begin && begin + bytes.size() <= one.pages.end) return true;
    return false;
  }

 private:
  struct Region {
    LocalKey key{};
    PageRange pages{};
  };
  std::vector<rte_device*> devices_;
  std::vector<Region> regions_;
};

}  // namespace spindrift
