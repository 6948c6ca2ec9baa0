#include "providers/libfabric/ofi_memory.h"

#include <cerrno>

#include <rdma/fi_errno.h>

#include "transport/base/random.h"

namespace spindrift {
namespace {

// Keys of our choice are drawn; one that is taken already is drawn again.
constexpr int kDraws = 64;

}  // namespace

Result<FiOwner<fid_mr>> OfiMemory::register_own(std::span<std::byte> bytes, std::uint64_t access) {
  const OfiTraits& traits = device_->traits();
  fid_mr* mr = nullptr;
  int code = -FI_ENOKEY;
  for (int draw = 0; draw < kDraws && (code == -FI_ENOKEY || code == -EEXIST); ++draw) {
    const std::uint64_t wanted = traits.chooses_keys ? 0 : random_u64() & traits.largest_key;
    code = fi_mr_reg(device_->domain(), bytes.data(), bytes.size(), access, 0, wanted, 0, &mr,
                     nullptr);
  }
  if (code != 0)
    return fi_refused("registering " + std::to_string(bytes.size()) + " bytes (fi_mr_reg)", code);
  FiOwner<fid_mr> owner(mr);
  if (traits.binds_to_endpoint) {
    code = fi_mr_bind(mr, &device_->endpoint()->fid, 0);
    if (code == 0) code = fi_mr_enable(mr);
    if (code != 0) return fi_refused("fi_mr_enable", code);
  }
  return owner;
}

std::uint64_t OfiMemory::remote_address(const void* bytes) const {
  return device_->traits().names_by_address ? reinterpret_cast<std::uintptr_t>(bytes) : 0;
}

Status OfiMemory::register_region(Region& region) {
  const OfiTraits& traits = device_->traits();
  // Who neither reads nor wants its own memory registered has no use for it.
  if (!traits.can_read || region.bytes.empty()) return ok_status();
  auto owner = register_own(region.bytes, FI_READ | FI_REMOTE_READ);
  if (!owner.ok()) return owner.error();
  region.mr = std::move(owner).value();
  region.descriptor = traits.needs_local_keys ? fi_mr_desc(region.mr.get()) : nullptr;
  region.key = fi_mr_key(region.mr.get());
  return ok_status();
}

Status OfiMemory::attach(OfiDevice& device) {
  device_ = &device;
  for (auto& [key, region] : regions_)
    if (const Status status = register_region(region); !status.ok()) return status;
  return ok_status();
}

Status OfiMemory::add_region(LocalKey key, std::span<std::byte> bytes) {
  Region region{.bytes = bytes};
  if (device_ != nullptr)
    if (const Status status = register_region(region); !status.ok()) return status;
  regions_.insert_or_assign(key.value, std::move(region));
  return ok_status();
}

void OfiMemory::remove_region(LocalKey key) {
  regions_.erase(key.value);
}

RemoteSpan OfiMemory::offer(const Sge& piece) const {
  const auto found = regions_.find(piece.region.value);
  if (found == regions_.end()) return {};
  const Region& region = found->second;
  const auto offset = static_cast<std::uint64_t>(piece.data - region.bytes.data());
  return {.address = remote_address(region.bytes.data()) + offset,
          .key = region.key,
          .bytes = piece.bytes};
}

void* OfiMemory::descriptor(LocalKey key) const {
  const auto found = regions_.find(key.value);
  return found == regions_.end() ? nullptr : found->second.descriptor;
}

}  // namespace spindrift
