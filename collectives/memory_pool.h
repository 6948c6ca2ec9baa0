#pragma once
// What the collectives keep registered: memory of their own, and the buffers of their user.
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "spindrift/endpoint.h"

namespace spindrift::collectives {

// Registered memory for messages that are added on arrival, and for partial results. Grows to the
// most that was ever needed at once; blocks are handed out by powers of two.
class MemoryPool final {
 public:
  explicit MemoryPool(Endpoint& endpoint) : endpoint_(endpoint) {}
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // Null: not in use.
  struct Block {
    MemoryRegion region{};
    std::uint32_t size_class = 0;
    std::byte* data() const { return region.bytes.data(); }
  };
  Result<Block> take(std::uint64_t bytes);
  void give_back(const Block& block) { free_[block.size_class].push_back(block); }

 private:
  Endpoint& endpoint_;
  std::array<std::vector<Block>, 64> free_{};  // by size class
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  std::vector<MemoryRegion> regions_;
};

// Registrations of user buffers, found again by address. The least recently used are given up
// beyond kMaxBuffers, but never one that a call still uses.
class BufferCache final {
 public:
  static constexpr std::size_t kMaxBuffers = 64;

  explicit BufferCache(Endpoint& endpoint) : endpoint_(endpoint) {}
  ~BufferCache() { clear(); }
  BufferCache(const BufferCache&) = delete;
  BufferCache& operator=(const BufferCache&) = delete;

  // A region that holds `bytes`, which are not none, with at least this access; in use until
  // released.
  Result<MemoryRegion> use(std::span<std::byte> bytes, Access access);
  void release(const MemoryRegion& region);
  // Gives up all that are not in use.
  void clear();

 private:
  struct Entry {
    MemoryRegion region{};
    Access access = Access::kLocalRead;
    std::uint64_t last_use = 0;
    std::uint32_t users = 0;
  };
  void give_up_oldest();

  Endpoint& endpoint_;
  std::vector<Entry> entries_;
  std::uint64_t uses_ = 0;
};

}  // namespace spindrift::collectives
