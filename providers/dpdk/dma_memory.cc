// Experimental in DPDK 22.11, and unchanged since: rte_dev_dma_map.
#define ALLOW_EXPERIMENTAL_API
#include "providers/dpdk/dma_memory.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include <rte_memory.h>
#include <unistd.h>

namespace spindrift {
namespace {

struct Mapping {
  PageRange pages{};
  rte_device* device = nullptr;
  unsigned users = 0;
};

struct Table {
  std::mutex mutex;
  std::vector<Mapping> mappings;
};

// As long as DPDK runs, which is as long as the process.
Table& table() {
  static auto* const one = new Table;
  return *one;
}

// Less is copied as fast as it is looked up, and mappings are few.
constexpr std::size_t kSmallest = 64U << 10U;

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

void* start(const PageRange& pages) {
  return reinterpret_cast<void*>(pages.begin);  // NOLINT(performance-no-int-to-ptr)
}

bool is_known_to_dpdk(const std::vector<Mapping>& mappings, const PageRange& pages) {
  return std::any_of(mappings.begin(), mappings.end(),
                     [&](const Mapping& one) { return one.pages == pages; });
}

}  // namespace

PageRange pages_of(std::span<const std::byte> bytes) {
  const std::size_t page = page_bytes();
  const auto first = reinterpret_cast<std::uintptr_t>(bytes.data());
  return {.begin = first / page * page, .end = (first + bytes.size() + page - 1) / page * page};
}

bool map_for_dma(const PageRange& pages, rte_device* device) {
  Table& all = table();
  const std::lock_guard guard(all.mutex);
  for (Mapping& one : all.mappings) {
    if (one.pages == pages && one.device == device) {
      ++one.users;
      return true;
    }
    if (one.pages != pages && one.pages.begin < pages.end && pages.begin < one.pages.end)
      return false;
  }
  const bool is_known = is_known_to_dpdk(all.mappings, pages);
  if (!is_known && rte_extmem_register(start(pages), pages.bytes(), nullptr, 0, page_bytes()) != 0)
    return false;
  if (rte_dev_dma_map(device, start(pages), pages.begin, pages.bytes()) == 0) {
    all.mappings.push_back({pages, device, 1});
    return true;
  }
  if (!is_known) static_cast<void>(rte_extmem_unregister(start(pages), pages.bytes()));
  return false;
}

void unmap_for_dma(const PageRange& pages, rte_device* device) {
  Table& all = table();
  const std::lock_guard guard(all.mutex);
  const auto found =
      std::find_if(all.mappings.begin(), all.mappings.end(),
                   [&](const Mapping& one) { return one.pages == pages && one.device == device; });
  if (found == all.mappings.end() || --found->users != 0) return;
  static_cast<void>(rte_dev_dma_unmap(device, start(pages), pages.begin, pages.bytes()));
  all.mappings.erase(found);
  if (!is_known_to_dpdk(all.mappings, pages))
    static_cast<void>(rte_extmem_unregister(start(pages), pages.bytes()));
}

DmaRegions::~DmaRegions() {
  while (!regions_.empty())
    remove(regions_.back().key);
}

void DmaRegions::add(LocalKey region, std::span<std::byte> bytes) {
  if (devices_.empty() || bytes.size() < kSmallest) return;
  const PageRange pages = pages_of(bytes);
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (map_for_dma(pages, devices_[i])) continue;
    while (i > 0)
      unmap_for_dma(pages, devices_[--i]);
    return;
  }
  regions_.push_back({region, pages});
}

void DmaRegions::remove(LocalKey region) {
  const auto found = std::find_if(regions_.begin(), regions_.end(),
                                  [&](const Region& one) { return one.key == region; });
  if (found == regions_.end()) return;
  for (rte_device* device : devices_)
    unmap_for_dma(found->pages, device);
  regions_.erase(found);
}

}  // namespace spindrift
