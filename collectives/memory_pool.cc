#include "collectives/memory_pool.h"

#include <algorithm>
#include <bit>

namespace spindrift::collectives {

MemoryPool::~MemoryPool() {
  for (const MemoryRegion& region : regions_) {
    // Refused only while work names it, and then the endpoint keeps a dead key: nothing to do.
    (void)endpoint_.deregister_memory(region);
  }
}

Result<MemoryPool::Block> MemoryPool::take(std::uint64_t bytes) {
  const auto size_class = static_cast<std::uint32_t>(std::bit_width(std::bit_ceil(bytes)) - 1);
  std::vector<Block>& free = free_[size_class];
  if (!free.empty()) {
    const Block block = free.back();
    free.pop_back();
    return block;
  }
  const std::size_t length = std::size_t{1} << size_class;
  // Not cleared: every byte is written before it is read.
  std::unique_ptr<std::byte[]> memory(new std::byte[length]);
  const Result<MemoryRegion> region =
      endpoint_.register_memory({memory.get(), length}, Access::kLocalWrite | Access::kRemoteWrite);
  if (!region.ok()) return region.error();
  memory_.push_back(std::move(memory));
  regions_.push_back(region.value());
  return Block{.region = region.value(), .size_class = size_class};
}

Result<MemoryRegion> BufferCache::use(std::span<std::byte> bytes, Access access) {
  ++uses_;
  for (Entry& entry : entries_) {
    const std::span<std::byte> held = entry.region.bytes;
    if (bytes.data() < held.data() || bytes.data() + bytes.size() > held.data() + held.size() ||
        !has_access(entry.access, access)) {
      continue;
    }
    entry.last_use = uses_;
    ++entry.users;
    return entry.region;
  }
  if (entries_.size() >= kMaxBuffers) give_up_oldest();
  Result<MemoryRegion> region = endpoint_.register_memory(bytes, access);
  if (region.ok()) {
    entries_.push_back({.region = region.value(), .access = access, .last_use = uses_, .users = 1});
  }
  return region;
}

void BufferCache::give_up_oldest() {
  auto oldest = entries_.end();
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->users == 0 && (oldest == entries_.end() || entry->last_use < oldest->last_use)) {
      oldest = entry;
    }
  }
  if (oldest == entries_.end()) return;
  if (endpoint_.deregister_memory(oldest->region).ok()) entries_.erase(oldest);
}

void BufferCache::release(const MemoryRegion& region) {
  for (Entry& entry : entries_) {
    if (entry.region.local == region.local && entry.users > 0) {
      --entry.users;
      return;
    }
  }
}

void BufferCache::clear() {
  std::erase_if(entries_, [this](const Entry& entry) {
    if (entry.users > 0) return false;
    (void)endpoint_.deregister_memory(entry.region);
    return true;
  });
}

}  // namespace spindrift::collectives
