#pragma once
// What is under way between us and libfabric: buffers into which messages arrive, buffers from
// which they leave. Part of the module libspindrift-ofi.so.
#include <cstdint>
#include <memory>
#include <vector>

#include <rdma/fabric.h>

#include "spindrift/types.h"

#include "providers/libfabric/ofi_memory.h"
#include "providers/libfabric/ofi_message.h"
#include "transport/base/pages.h"

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
  const OfiRegistration* registration = nullptr;  // null: libfabric needs none
  std::uint32_t filled = 0;                       // of a message
  std::uint8_t rail = 0;      // that it was handed to; of one that leaves: the peer's lane
  bool is_under_way = false;  // on its way out: libfabric has it
  bool is_kept = false;       // ... it is in its peer's list of those that may have to go again
  OfiPeer* peer = nullptr;    // it goes to
  std::uint32_t number = 0;   // is_kept: of the message
  Time sent{};                // is_kept: last

  void* descriptor() const {
    return registration == nullptr ? nullptr : registration->descriptor(rail);
  }
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

  Status add(std::size_t count, const OfiRails& rails);
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
    Pages pages{};
    std::unique_ptr<OfiRegistration> registration{};
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
