#include "collectives/memory_pool.h"

#include <algorithm>
#include <bit>

namespace spindrift::collectives {

Result<RegionSet> register_with_all(const Endpoints& endpoints, std::span<std::byte> bytes,
                                    Access access) {
  RegionSet set{.bytes = bytes, .regions = {}};
  for (std::size_t i = 0; i < endpoints.size(); ++i) {
    const Result<MemoryRegion> region = endpoints[i]->register_memory(bytes, access);
    if (!region.ok()) {
      if (i > 0) (void)endpoints[0]->deregister_memory(set.regions[0]);
      return region.error();
    }
    set.regions[i] = region.value();
  }
  return set;
}

Status deregister_with_all(const Endpoints& endpoints, const RegionSet& set) {
  Status status = ok_status();
  for (std::size_t i = 0; i < endpoints.size(); ++i) {
    Status one = endpoints[i]->deregister_memory(set.regions[i]);
    if (!one.ok()) status = std::move(one);
  }
  return status;
}

MemoryPool::~MemoryPool() {
  // Refused only while work names it, and then the endpoint keeps a dead key: nothing to do.
  for (const RegionSet& set : sets_)
    (void)deregister_with_all(endpoints_, set);
}

Result<MemoryPool::Block> MemoryPool::take(std::uint64_t bytes) {
  // Blocks begin at lines of the cache.
  const std::size_t length = std::bit_ceil(std::max<std::uint64_t>(bytes, 64));
  const auto size_class = static_cast<std::uint32_t>(std::countr_zero(length));
  std::vector<Block>& free = free_[size_class];
  if (!free.empty()) {
    const Block block = free.back();
    free.pop_back();
    return block;
  }
  if (Status status = make_room(length); !status.ok()) return status.error();
  // Each under keys of its own: a peer may write what it was granted, and nothing beside it.
  const Result<RegionSet> set = register_with_all(endpoints_, left_.first(length),
                                                  Access::kLocalWrite | Access::kRemoteWrite);
  if (!set.ok()) return set.error();
  left_ = left_.subspan(length);
  sets_.push_back(set.value());
  return Block{.set = set.value(), .size_class = size_class};
}

Status MemoryPool::make_room(std::size_t bytes) {
  if (bytes <= left_.size()) return ok_status();
  Result<Pages> pages = Pages::map(std::max(bytes, Pages::kHugeBytes));
  if (!pages.ok()) return pages.error();
  memory_.push_back(std::move(pages).value());
  left_ = memory_.back().bytes();
  return ok_status();
}

Result<RegionSet> BufferCache::use(std::span<std::byte> bytes, Access access) {
  ++uses_;
  for (Entry& entry : entries_) {
    const std::span<std::byte> held = entry.set.bytes;
    if (bytes.data() < held.data() || bytes.data() + bytes.size() > held.data() + held.size() ||
        !has_access(entry.access, access)) {
      continue;
    }
    entry.last_use = uses_;
    ++entry.users;
    return entry.set;
  }
  if (entries_.size() >= kMaxBuffers) give_up_oldest();
  Result<RegionSet> set = register_with_all(endpoints_, bytes, access);
  if (set.ok()) {
    entries_.push_back({.set = set.value(), .access = access, .last_use = uses_, .users = 1});
  }
  return set;
}

void BufferCache::give_up_oldest() {
  auto oldest = entries_.end();
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->users == 0 && (oldest == entries_.end() || entry->last_use < oldest->last_use)) {
      oldest = entry;
    }
  }
  if (oldest == entries_.end()) return;
  if (deregister_with_all(endpoints_, oldest->set).ok()) entries_.erase(oldest);
}

void BufferCache::release(const RegionSet& set) {
  for (Entry& entry : entries_) {
    if (entry.set.regions[0].local == set.regions[0].local && entry.users > 0) {
      --entry.users;
      return;
    }
  }
}

void BufferCache::clear() {
  std::erase_if(entries_, [this](const Entry& entry) {
    if (entry.users > 0) return false;
    (void)deregister_with_all(endpoints_, entry.set);
    return true;
  });
}

}  // namespace spindrift::collectives
