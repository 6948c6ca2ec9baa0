// The rails of a libfabric fabric, and what each peer is given of them.
#include <algorithm>
#include <utility>

#include "providers/libfabric/ofi_host.h"

namespace spindrift {
namespace {

constexpr std::uint64_t kDeviceMark = (1ULL << 32) - 1;  // in what epoll says
constexpr std::size_t kGatesAtOnce = 64;

// What is called "verbs" is offered as "verbs;ofi_rxm". Those that connect compare what was
// offered.
bool may_be_same(const std::string& one, const std::string& other) {
  return one == other || one.starts_with(other + ";") || other.starts_with(one + ";");
}

}  // namespace

Status OfiFabric::open_rail(const OfiWish& wish, OfiRails& opened) const {
  auto made = OfiDevice::open(wish);
  if (!made.ok()) return made.error();
  const OfiDevice& device = *made.value();
  const std::string who = "libfabric provider " + device.provider();
  if (device.traits().max_message < kOfiBufferBytes)
    return Error(ErrorCode::kUnsupported,
                 who + " carries messages of " + std::to_string(device.traits().max_message) +
                     " bytes; " + std::to_string(kOfiBufferBytes) + " are needed");
  if (options_.domains.size() > 1 && !device.traits().can_read)
    return Error(ErrorCode::kUnsupported,
                 who +
                     " reads no memory of peers, and so cannot tell whether a rail lives; name one "
                     "domain");
  opened.push_back({.device = std::move(made).value()});
  return ok_status();
}

// The first address that listens or is called decides which of libfabric's offers it is, unless
// the endpoint's own address did.
Status OfiFabric::open_rails(const OfiAddress& address, const NetAddress& source) {
  if (!rails_.empty()) return ok_status();
  OfiWish wish{.provider = options_.provider, .source = source, .family = source.family};
  if (wish.provider.empty()) wish.provider = address.provider;
  OfiRails opened;
  std::vector<std::string> domains = options_.domains;
  if (domains.empty()) domains.emplace_back();
  for (const std::string& domain : domains) {
    wish.domain = domain;
    if (Status status = open_rail(wish, opened); !status.ok()) return status;
    wish.provider = opened.front().device->provider();
  }
  for (const OfiRail& rail : opened) {
    const int fd = rail.device->wait_fd();
    if (fd >= 0)
      if (Status watched = watch(fd, kDeviceMark, false); !watched.ok()) return watched;
    const OfiTraits& traits = rail.device->traits();
    if (!traits.can_read) caps_.max_read_bytes = 0;
    caps_.max_read_local = std::min(
        caps_.max_read_local, static_cast<std::uint16_t>(std::min(traits.max_local, kMaxSge)));
    const auto remote = static_cast<std::uint16_t>(std::min(traits.max_remote, kMaxSge));
    caps_.max_read_remote =
        &rail == &opened.front() ? remote : std::min(caps_.max_read_remote, remote);
  }
  rails_ = std::move(opened);
  Status attached = memory_.attach(rails_);
  if (!attached.ok()) {
    memory_.detach();
    rails_.clear();
  }
  return attached;
}

Status OfiFabric::check_provider(const OfiAddress& address, std::string_view text) const {
  const std::string ours = rails_.empty() ? options_.provider : first_device().provider();
  if (address.provider.empty() || ours.empty() || may_be_same(address.provider, ours))
    return ok_status();
  return Error(ErrorCode::kInvalidArgument, "ofi://" + std::string(text) +
                                                ": this endpoint uses libfabric's provider " +
                                                ours + ", which reaches only its like");
}

// Room for its messages, and what they are kept in.
Status OfiFabric::grant_room(OfiPeer& peer) {
  const std::size_t wanted = options_.buffers + kShownRoom;
  // At each rail: it may send all that it has room for by any.
  const std::size_t needed = (receives_granted_ + wanted) * rails_.size();
  if (needed > receive_pool_.total())
    if (Status added = receive_pool_.add(needed - receive_pool_.total(), rails_); !added.ok())
      return added;
  receives_granted_ += wanted;
  peer.has_grant = true;
  peer.arrivals.emplace(options_.buffers);
  fill_receive_queues();
  if (!broken_.empty()) return Error(ErrorCode::kIo, broken_);
  return first_device().traits().can_read ? take_gate(peer) : ok_status();
}

Status OfiFabric::take_gate(OfiPeer& peer) {
  if (free_gates_.empty()) {
    GateSlab slab;
    slab.cells = std::make_unique<OfiGateCell[]>(kGatesAtOnce);
    const std::span cells(slab.cells.get(), kGatesAtOnce);
    auto made = memory_.register_own(std::as_writable_bytes(cells), FI_READ | FI_REMOTE_READ);
    if (!made.ok()) return made.error();
    slab.registration = std::move(made).value();
    for (std::uint32_t i = 0; i < kGatesAtOnce; ++i)
      free_gates_.push_back({.slab = static_cast<std::uint32_t>(gates_.size()), .cell = i});
    gates_.push_back(std::move(slab));
  }
  peer.gate_place = free_gates_.back();
  free_gates_.pop_back();
  GateSlab& slab = gates_[peer.gate_place.slab];
  peer.gate = &slab.cells[peer.gate_place.cell];
  *peer.gate = {.own = {.name = peer.own_name}};
  return ok_status();
}

}  // namespace spindrift
