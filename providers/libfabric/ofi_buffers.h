#pragma once
// What is under way between us and libfabric: buffers into which messages arrive, buffers from
// which they leave. Part of the module libspindrift-ofi.so.
#include <cstdint>
#include <memory>
#include <vector>

#include <rdma/fabric.h>
#include <sys/mman.h>

#include "providers/libfabric/ofi_memory.h"
#include "providers/libfabric/ofi_message.h"

namespace spindrift {

struct OfiPeer;

// What the context of an operation points to. `context` is libfabric's while the operation lasts.
struct OfiOperation {
  enum class Kind : std::uint8_t { kReceive, kSend, kRead, kGate };
  fi_context2 context{};
  Kind kind = Kind::kReceive;
};

// Room for one message, on its way in or out.
struct OfiBuffer : OfiOperation {
  std::byte* bytes = nullptr;
  void* descriptor = nullptr;
  std::uint32_t filled = 0;  // of a message that has arrived
  OfiPeer* peer = nullptr;   // it goes to
};

// Buffers that lie in a few large pieces of registered memory, kept for ever.
class OfiBufferPool {
 public:
  // `access` as of fi_mr_reg.
  OfiBufferPool(OfiMemory& memory, std::uint64_t access, OfiOperation::Kind kind)
      : memory_(memory), access_(access), kind_(kind) {}
  OfiBufferPool(const OfiBufferPool&) = delete;
  OfiBufferPool& operator=(const OfiBufferPool&) = delete;
  ~OfiBufferPool();

  Status add(std::size_t count, const OfiDevice& device);
  // Before the endpoint that it is bound to is closed; the memory stays.
  void unregister();
  std::size_t total() const { return total_; }
  std::size_t free() const { return free_.size(); }
  OfiBuffer* take() {
    if (free_.empty()) return nullptr;
    OfiBuffer* const one = free_.back();
    free_.pop_back();
    return one;
  }
  void give_back(OfiBuffer* buffer) { free_.push_back(buffer); }

 private:
  struct Slab {
    std::span<std::byte> bytes{};
    FiOwner<fid_mr> mr{};
    std::unique_ptr<OfiBuffer[]> buffers{};
  };
  OfiMemory& memory_;
  std::uint64_t access_;
  OfiOperation::Kind kind_;
  std::vector<Slab> slabs_;
  std::vector<OfiBuffer*> free_;
  std::size_t total_ = 0;
};

}  // namespace spindrift
