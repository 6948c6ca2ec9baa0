#include "providers/libfabric/ofi_buffers.h"

#include <algorithm>

namespace spindrift {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kStride = (kOfiBufferBytes + kLine - 1) / kLine * kLine;

}  // namespace

OfiBufferPool::~OfiBufferPool() {
  for (Slab& slab : slabs_)
    slab.registration.reset();
}

void OfiBufferPool::unregister() {
  for (Slab& slab : slabs_)
    if (slab.registration) slab.registration->release();
}

Status OfiBufferPool::add(std::size_t count, const OfiRails& rails) {
  if (count == 0) return ok_status();
  Slab slab;
  const std::size_t bytes = count * kStride;
  Result<Pages> pages = Pages::map(bytes);
  if (!pages.ok())
    return Error(ErrorCode::kNoMemory, "for the messages of a peer: " + pages.error().message());
  slab.pages = std::move(pages).value();
  slabs_.push_back(std::move(slab));
  Slab& kept = slabs_.back();
  const bool needs_keys = std::any_of(rails.begin(), rails.end(), [](const OfiRail& rail) {
    return rail.device->traits().needs_local_keys;
  });
  if (needs_keys) {
    auto made = memory_.register_own(kept.pages.bytes(), access_);
    if (!made.ok()) {
      slabs_.pop_back();
      return made.error();
    }
    kept.registration = std::make_unique<OfiRegistration>(std::move(made).value());
  }
  kept.buffers = std::make_unique<OfiBuffer[]>(count);
  free_.reserve(total_ + count);
  for (std::size_t i = 0; i < count; ++i) {
    OfiBuffer& buffer = kept.buffers[i];
    buffer.kind = kind_;
    buffer.bytes = kept.pages.data() + i * kStride;
    buffer.registration = kept.registration.get();
    free_.push_back(&buffer);
  }
  total_ += count;
  return ok_status();
}

}  // namespace spindrift
