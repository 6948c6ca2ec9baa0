#include "providers/verbs/registered_memory.h"

#include <cerrno>
#include <utility>

#include <sys/mman.h>

#include "providers/verbs/verbs_trouble.h"

namespace spindrift {

Registrations::~Registrations() {
  for (ibv_mr* const one : of_port_)
    static_cast<void>(ibv_dereg_mr(one));
}

Result<Registrations> Registrations::make(const VerbsPorts& ports, std::span<std::byte> bytes,
                                          unsigned access, int dmabuf_fd) {
  Registrations out;
  for (const auto& port : ports) {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
    ibv_mr* const made = dmabuf_fd == kHostMemory
                             ? ibv_reg_mr(port->domain(), bytes.data(), bytes.size(), access)
                             : ibv_reg_dmabuf_mr(port->domain(), 0, bytes.size(), address,
                                                 dmabuf_fd, static_cast<int>(access));
    if (made == nullptr)
      return explain_registration(bytes.size(), errno, port->describe(), dmabuf_fd != kHostMemory);
    out.of_port_.push_back(made);
  }
  return out;
}

Result<Pages> map_own_pages(std::size_t bytes) {
  Result<Pages> pages = Pages::map(bytes);
  if (pages.ok())
    static_cast<void>(::madvise(pages.value().data(), pages.value().size(), MADV_DONTFORK));
  return pages;
}

Status RegionTable::add(const VerbsPorts& ports, LocalKey key, std::span<std::byte> bytes,
                        unsigned access, int dmabuf_fd) {
  if (bytes.empty()) return ok_status();  // nothing of it can be named
  auto made = Registrations::make(ports, bytes, access, dmabuf_fd);
  // Memory that may not be written can still be sent from.
  if (!made.ok())
    if (auto again = Registrations::make(ports, bytes, IBV_ACCESS_REMOTE_READ, dmabuf_fd);
        again.ok())
      made = std::move(again);
  if (!made.ok()) return made.error();
  regions_[key.value] = Region{.bytes = bytes, .registrations = std::move(made).value()};
  return ok_status();
}

const RegionTable::Region* RegionTable::find(const Sge& piece) const {
  const auto found = regions_.find(piece.region.value);
  if (found == regions_.end()) return nullptr;
  const std::span<std::byte> bytes = found->second.bytes;
  const bool is_inside = piece.data >= bytes.data() && piece.bytes <= bytes.size() &&
                         piece.data + piece.bytes <= bytes.data() + bytes.size();
  return is_inside ? &found->second : nullptr;
}

std::uint64_t RegionTable::offered_key(const Region& region, std::size_t ports) const {
  std::uint64_t out = 0;
  for (std::size_t port = 0; port < ports; ++port)
    out |= std::uint64_t{region.registrations.remote_key(port)} << (32 * port);
  return out;
}

}  // namespace spindrift
