#include "transport/memory_table.h"

#include "absl/strings/str_cat.h"

namespace spindrift {
namespace {

constexpr std::uint32_t kLastEpoch = (1U << (32 - MemoryTable::kIndexBits)) - 1;

Status check_device(Access access, const RegisterOptions& options) {
  if (options.dmabuf_fd < 0)
    return Error(ErrorCode::kInvalidArgument,
                 "device memory (dma-buf) is registered by its descriptor: set dmabuf_fd");
  if (has_access(access, Access::kRemoteAtomic) || options.is_line_ordered)
    return Error(ErrorCode::kUnsupported,
                 "device memory (dma-buf) can be neither line-ordered nor the target of atomics: "
                 "both are done by the processor, which does not touch it. Register it without");
  return ok_status();
}

}  // namespace

MemoryTable::MemoryTable(std::uint32_t max_regions) : max_regions_(max_regions) {}

Result<MemoryRegion> MemoryTable::add(std::span<std::byte> bytes, Access access,
                                      const RegisterOptions& options, std::uint64_t random) {
  const bool is_device = options.type == MemoryType::kDmaBuf;
  if (is_device)
    if (const Status fit = check_device(access, options); !fit.ok()) return fit.error();
  if (bytes.data() == nullptr && !bytes.empty())
    return Error(ErrorCode::kInvalidArgument, "the region to register has no address");
  if (count_ == max_regions_)
    return Error(ErrorCode::kNoMemory, absl::StrCat("all ", max_regions_,
                                                    " memory regions are in use; deregister some "
                                                    "or raise EndpointConfig::max_regions"));
  std::uint32_t index = 0;
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else if (regions_.size() <= kIndexMask) {
    index = static_cast<std::uint32_t>(regions_.size());
    regions_.emplace_back();
  } else {
    return Error(ErrorCode::kNoMemory,
                 "this endpoint has used up all of its region keys (4 billion registrations); open "
                 "another");
  }
  Region& region = regions_[index];
  region.data = bytes.data();
  region.bytes = bytes.size();
  region.access = access;
  region.is_line_ordered = options.is_line_ordered;
  region.is_device = is_device;
  region.holds = 0;
  region.last_transmission = 0;
  ++region.epoch;
  region.key = ((random << kIndexBits) & ~kDeviceBit) | (is_device ? kDeviceBit : 0) | index;
  if ((region.key >> kIndexBits) == 0) region.key |= 1ULL << kIndexBits;  // never zero: free
  ++count_;
  MemoryRegion out;
  out.bytes = bytes;
  out.local.value = (region.epoch << kIndexBits) | index;
  out.remote = RemoteRegion{.key = region.key, .bytes = bytes.size(), .base = 0, .rights = access};
  return out;
}

Status MemoryTable::remove(const MemoryRegion& region, std::uint64_t released) {
  const Region* found = find_local(region.local);
  if (found == nullptr)
    return Error(ErrorCode::kNotFound, "this region is not registered, or no longer");
  if (found->holds != 0)
    return Error(ErrorCode::kUnavailable,
                 absl::StrCat("the region is named by ", found->holds,
                              " pieces of work that have not completed; poll their completions or "
                              "abort the connection first"));
  const std::uint32_t index = region.local.value & kIndexMask;
  if (found->last_transmission > released) {
    // A key that names another index is found by nobody.
    regions_[index].key = (1ULL << kIndexBits) | (index ^ 1U);
    regions_[index].bytes = 0;
    return Error(ErrorCode::kUnavailable,
                 "the provider still reads from the region, for a READ of a peer or a connection "
                 "that was released. Its keys are dead already; call progress() and deregister it "
                 "again, and leave the memory alone until then");
  }
  regions_[index].key = 0;
  regions_[index].data = nullptr;
  // A key must never name another region: an index whose epochs are used up rests for ever.
  if (regions_[index].epoch < kLastEpoch) free_.push_back(index);
  --count_;
  return ok_status();
}

}  // namespace spindrift
