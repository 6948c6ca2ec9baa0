#include "providers/libfabric/ofi_memory.h"

#include <cerrno>

#include <rdma/fi_errno.h>

#include "transport/base/random.h"

namespace spindrift {
namespace {

// Keys of our choice are drawn; one that is taken already is drawn again.
constexpr int kDraws = 64;

Result<FiOwner<fid_mr>> register_at(const OfiDevice& device, std::span<std::byte> bytes,
                                    std::uint64_t access) {
  const OfiTraits& traits = device.traits();
  fid_mr* mr = nullptr;
  int code = -FI_ENOKEY;
  for (int draw = 0; draw < kDraws && (code == -FI_ENOKEY || code == -EEXIST); ++draw) {
    const std::uint64_t wanted = traits.chooses_keys ? 0 : random_u64() & traits.largest_key;
    code =
        fi_mr_reg(device.domain(), bytes.data(), bytes.size(), access, 0, wanted, 0, &mr, nullptr);
  }
  if (code != 0)
    return fi_refused("registering " + std::to_string(bytes.size()) + " bytes (fi_mr_reg)", code);
  FiOwner<fid_mr> owner(mr);
  if (traits.binds_to_endpoint) {
    code = fi_mr_bind(mr, &device.endpoint()->fid, 0);
    if (code == 0) code = fi_mr_enable(mr);
    if (code != 0) return fi_refused("fi_mr_enable", code);
  }
  return owner;
}

}  // namespace

Result<OfiRegistration> OfiMemory::register_own(std::span<std::byte> bytes,
                                                std::uint64_t access) const {
  OfiRegistration out;
  for (std::size_t i = 0; i < rails_->size(); ++i) {
    const OfiDevice& device = *(*rails_)[i].device;
    auto owner = register_at(device, bytes, access);
    if (!owner.ok()) return owner.error();
    OfiRegistration::Entry& entry = out.entries_[i];
    entry.mr = std::move(owner).value();
    if (device.traits().needs_local_keys) entry.descriptor = fi_mr_desc(entry.mr.get());
    entry.remote.key = fi_mr_key(entry.mr.get());
    if (device.traits().names_by_address)
      entry.remote.address = reinterpret_cast<std::uintptr_t>(bytes.data());
  }
  return out;
}

Status OfiMemory::register_region(Region& region) const {
  // Who neither reads nor wants its own memory registered has no use for it.
  if (!rails_->front().device->traits().can_read || region.bytes.empty()) return ok_status();
  auto made = register_own(region.bytes, FI_READ | FI_REMOTE_READ);
  if (!made.ok()) return made.error();
  region.registration = std::move(made).value();
  return ok_status();
}

Status OfiMemory::attach(const OfiRails& rails) {
  rails_ = &rails;
  for (auto& [key, region] : regions_)
    if (Status status = register_region(region); !status.ok()) return status;
  return ok_status();
}

Status OfiMemory::add_region(LocalKey key, std::span<std::byte> bytes) {
  Region region{.bytes = bytes};
  if (rails_ != nullptr)
    if (Status status = register_region(region); !status.ok()) return status;
  remove_region(key);
  region.generation = ++generations_;
  if (free_slots_.empty()) {
    region.slot = slots_++;
  } else {
    region.slot = free_slots_.back();
    free_slots_.pop_back();
  }
  regions_.emplace(key.value, std::move(region));
  return ok_status();
}

void OfiMemory::remove_region(LocalKey key) {
  const auto found = regions_.find(key.value);
  if (found == regions_.end()) return;
  free_slots_.push_back(found->second.slot);
  regions_.erase(found);
}

const OfiMemory::Region* OfiMemory::find(LocalKey key) const {
  const auto found = regions_.find(key.value);
  return found == regions_.end() ? nullptr : &found->second;
}

RemoteSpan OfiMemory::offer(const Sge& piece) const {
  const Region* const region = find(piece.region);
  if (region == nullptr) return {};
  const auto offset = static_cast<std::uint64_t>(piece.data - region->bytes.data());
  const OfiRemoteMemory& remote = region->registration.remote(0);
  return {.address = remote.address + offset, .key = remote.key, .bytes = piece.bytes};
}

void* OfiMemory::descriptor(LocalKey key, std::size_t rail) const {
  const Region* const region = find(key);
  return region == nullptr ? nullptr : region->registration.descriptor(rail);
}

}  // namespace spindrift
