#pragma once
// What the communicator keeps registered of its user's memory.
#include <cstdint>
#include <vector>

#include "spindrift/endpoint.h"

namespace spindrift::collectives {

// Registrations of user buffers, found again by address and length. Bounded.
class BufferCache final {
 public:
  static constexpr std::size_t kMaxBuffers = 64;

  explicit BufferCache(Endpoint& endpoint) : endpoint_(endpoint) {}
  ~BufferCache() { clear(); }
  BufferCache(const BufferCache&) = delete;
  BufferCache& operator=(const BufferCache&) = delete;

  // Nothing is registered for an empty buffer.
  Result<MemoryRegion> find(std::span<std::byte> bytes, Access access);
  void clear();

 private:
  struct Entry {
    MemoryRegion region{};
    Access access = Access::kLocalRead;
    std::uint64_t last_use = 0;
  };
  Endpoint& endpoint_;
  std::vector<Entry> entries_;
  std::uint64_t uses_ = 0;
};

}  // namespace spindrift::collectives
