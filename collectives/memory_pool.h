#pragma once
// What the collectives keep registered: memory of their own, and the buffers of their user.
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "spindrift/endpoint.h"

#include "transport/base/pages.h"

namespace spindrift::collectives {

// Memory that each of the (one or two) endpoints knows under keys of its own.
inline constexpr std::size_t kMaxEndpoints = 2;
using Endpoints = std::vector<Endpoint*>;
struct RegionSet {
  std::span<std::byte> bytes{};
  std::array<MemoryRegion, kMaxEndpoints> regions{};  // by number of the endpoint
};
Result<RegionSet> register_with_all(const Endpoints& endpoints, std::span<std::byte> bytes,
                                    Access access);
// Refused (kUnavailable) while work of any endpoint names the memory.
Status deregister_with_all(const Endpoints& endpoints, const RegionSet& set);

// Registered memory for messages that are added on arrival, and for partial results. Grows to the
// most that was ever needed at once; blocks are handed out by powers of two.
class MemoryPool final {
 public:
  explicit MemoryPool(Endpoints endpoints) : endpoints_(std::move(endpoints)) {}
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  struct Block {
    RegionSet set{};
    std::uint32_t size_class = 0;
    std::byte* data() const { return set.bytes.data(); }
  };
  Result<Block> take(std::uint64_t bytes);
  void give_back(const Block& block) { free_[block.size_class].push_back(block); }

 private:
  Status make_room(std::size_t bytes);

  const Endpoints endpoints_;
  std::array<std::vector<Block>, 64> free_{};  // by size class
  std::vector<Pages> memory_;
  std::span<std::byte> left_;  // of the last of them
  std::vector<RegionSet> sets_;
};

// Registrations of user buffers, found again by address. The least recently used are given up
// beyond kMaxBuffers, but never one that a call still uses.
class BufferCache final {
 public:
  static constexpr std::size_t kMaxBuffers = 64;

  explicit BufferCache(Endpoints endpoints) : endpoints_(std::move(endpoints)) {}
  ~BufferCache() { clear(); }
  BufferCache(const BufferCache&) = delete;
  BufferCache& operator=(const BufferCache&) = delete;

  // A region that holds `bytes`, which are not none, with at least this access; in use until
  // released.
  Result<RegionSet> use(std::span<std::byte> bytes, Access access);
  void release(const RegionSet& set);
  // Gives up all that are not in use.
  void clear();

 private:
  struct Entry {
    RegionSet set{};
    Access access = Access::kLocalRead;
    std::uint64_t last_use = 0;
    std::uint32_t users = 0;
  };
  void give_up_oldest();

  const Endpoints endpoints_;
  std::vector<Entry> entries_;
  std::uint64_t uses_ = 0;
};

}  // namespace spindrift::collectives
