// The engine's calls that are no traffic.
#include "providers/libfabric/ofi_fabric.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "providers/libfabric/ofi_host.h"
#include "providers/monotonic_clock.h"

namespace spindrift {
namespace {

constexpr std::size_t kReadsAtOnce = 256;
constexpr std::uint32_t kLargestRead = 1U << 20U;
// One operation of libfabric costs far more than the engine's own part of it.
constexpr std::uint32_t kReadChunk = 256U << 10U;
constexpr std::uint32_t kMostHeld = 32;
constexpr int kLooksBeforeSleep = 4;
constexpr std::uint64_t kTimerMark = (1ULL << 32) - 2;
// The last messages of connections that were ended just before.
constexpr Duration kFarewellsTake = std::chrono::milliseconds(200);

}  // namespace

OfiFabric::OfiFabric(const OfiOptions& options)
    : options_(options),
      receive_pool_(memory_, FI_RECV, OfiOperation::Kind::kReceive),
      send_pool_(memory_, FI_SEND, OfiOperation::Kind::kSend),
      read_records_(std::make_unique<OfiRead[]>(kReadsAtOnce)),
      reads_done_(kReadsAtOnce),
      shuffle_(options.shuffle_seed) {
  caps_.name = "ofi";
  caps_.max_peers = 65535;
  caps_.max_payload_bytes = kOfiPayloadBytes;
  caps_.max_read_bytes = kLargestRead;
  caps_.read_from_bytes = options.read_from;
  caps_.read_chunk_bytes = kReadChunk;
  caps_.max_read_remote = 1;
  caps_.max_held = kMostHeld;
  // A domain has one way to a peer, which may be many: who sprays does it below.
  caps_.max_lanes = static_cast<std::uint16_t>(std::max<std::size_t>(options.domains.size(), 1));
  for (std::size_t i = 0; i < kReadsAtOnce; ++i) {
    read_records_[i].kind = OfiOperation::Kind::kRead;
    free_reads_.push_back(&read_records_[i]);
  }
}

OfiFabric::~OfiFabric() {
  for (const auto& peer : peers_)
    if (peer && peer->phase != OfiPeer::Phase::kLeaving) leave(*peer);
  const Time limit = now() + kFarewellsTake;
  while (!rails_.empty() && leaving_ != 0 && broken_.empty() && now() < limit)
    take_completions();
  const bool is_bound = std::any_of(rails_.begin(), rails_.end(), [](const OfiRail& rail) {
    return rail.device->traits().binds_to_endpoint;
  });
  if (is_bound) {
    receive_pool_.unregister();
    send_pool_.unregister();
  }
  for (const OfiRail& rail : rails_)
    rail.device->close_endpoints();
}

Status OfiFabric::open() {
  epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  timer_ = UniqueFd(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!epoll_.is_open() || !timer_.is_open())
    return Error(ErrorCode::kIo,
                 "descriptors to sleep on (RLIMIT_NOFILE too low? see ulimit -n): " +
                     std::system_category().message(errno));
  if (Status watched = watch(timer_.get(), kTimerMark, false); !watched.ok()) return watched;
  // Who says what it wants hears at once when there is no such thing.
  std::vector<std::string> domains = options_.domains;
  if (domains.empty()) domains.emplace_back();
  for (const std::string& domain : domains) {
    const auto offer = find_offer({.provider = options_.provider, .domain = domain});
    if (!offer.ok()) return offer.error();
    if (!traits_of(*offer.value()).can_read) caps_.max_read_bytes = 0;
  }
  return ok_status();
}

Time OfiFabric::now() const {
  return monotonic_now();
}

Status OfiFabric::check_address(std::string_view text) const {
  const auto address = parse_ofi_address(text);
  if (!address.ok()) return address.error();
  if (!address.value().host)
    return Error(ErrorCode::kInvalidArgument,
                 "ofi://" + std::string(text) + " has no IP; write ofi://PROVIDER@IP:PORT");
  return check_provider(address.value(), text);
}

Result<std::uint16_t> OfiFabric::add_address(std::string_view text) {
  const auto address = parse_ofi_address(text);
  if (!address.ok()) return address.error();
  if (const Status fits = check_provider(address.value(), text); !fits.ok()) return fits.error();
  // Any: a free port, on the network that the provider uses.
  NetAddress host = address.value().host.value_or(NetAddress{.family = 4});
  const NetAddress source = host.is_wildcard() ? NetAddress{} : host;
  if (const Status opened = open_rails(address.value(), source); !opened.ok())
    return opened.error();
  auto socket = listen_tcp(host);
  if (!socket.ok()) return socket.error();
  const auto index = static_cast<std::uint16_t>(listeners_.size());
  if (const Status watched = watch(socket.value().get(), (1ULL << 32) | index, false);
      !watched.ok())
    return watched.error();
  host.port = bound_address(socket.value().get()).port;
  if (host.is_wildcard()) {
    NetAddress named = first_device().own_address();
    if (!named.is_set()) named = any_own_address(host.family);
    named.port = host.port;
    host = named;
  }
  listeners_.push_back({.socket = std::move(socket).value()});
  names_.push_back(first_device().provider() + "@" + host.to_string());
  return index;
}

std::string OfiFabric::describe_lane(FabricPeer id, std::uint16_t number) const {
  const OfiPeer& peer = *peers_[id.value];
  std::string out = "lane " + std::to_string(number);
  if (number >= rails_.size()) return out;
  const OfiDevice& device = *rails_[number].device;
  out += " (libfabric " + device.provider() + ", domain " + device.domain_name();
  if (number < peer.lanes.size() && !peer.lanes[number].trouble.empty())
    out += ", down: " + peer.lanes[number].trouble;
  return out + ")";
}

RemoteSpan OfiFabric::offer(FabricPeer id, const Sge& piece) {
  OfiPeer& peer = *peers_[id.value];
  if (!peer.has_several_lanes()) return memory_.offer(piece);
  const OfiMemory::Region* const region = memory_.find(piece.region);
  if (region == nullptr || !tell_region(peer, *region)) return {};
  return {.address = static_cast<std::uint64_t>(piece.data - region->bytes.data()),
          .key = region->slot | std::uint64_t{region->generation} << 32,
          .bytes = piece.bytes};
}

std::size_t OfiFabric::post(std::span<const FabricOp> ops) {
  std::size_t taken = 0;
  OfiPeer* reader = nullptr;
  const auto look_at_gates = [this, &reader] {
    for (OfiLane& lane : reader->lanes)
      if (first_device().traits().reads_in_order) look_at_gate(*reader, lane);
  };
  for (const FabricOp& op : ops) {
    OfiPeer& peer = *peers_[op.peer.value];
    const bool is_read = op.kind == FabricOp::Kind::kRead;
    const auto begin = [&] { return is_read ? read(peer, op) : send(peer, op); };
    // What has come meanwhile may have brought room.
    if (!begin() && (take_completions() == 0 || !begin())) break;
    ++taken;
    if (!is_read) continue;
    if (reader != nullptr && reader != &peer) look_at_gates();
    reader = &peer;
  }
  if (reader != nullptr) look_at_gates();
  return taken;
}

// Whether libfabric has nothing for us. Looked at more than once: what a provider does while it is
// asked may wake its descriptor with nothing behind it.
bool OfiFabric::is_quiet(OfiRail& rail) {
  OfiDevice& device = *rail.device;
  for (int look = 0; look < kLooksBeforeSleep; ++look) {
    if (take_completions(rail) != 0) return false;
    if (device.wait_fd() < 0) return true;
    if (!device.may_sleep()) return false;
    if (!device.is_woken()) return true;
  }
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, device.wait_fd(), nullptr);
  device.forget_wait_fd();
  return true;
}

bool OfiFabric::is_quiet() {
  return std::all_of(rails_.begin(), rails_.end(),
                     [this](OfiRail& rail) { return is_quiet(rail); });
}

// False: there is something to do now. What wakes nobody by itself is looked at after a while.
bool OfiFabric::arm() {
  turns_to_look_ = 1;
  look_at_sockets();
  turns_to_look_ = 1;  // who wakes up looks again
  if (broken_.empty() && !is_quiet()) return false;
  if (!events_.empty() || !reads_done_.is_empty() || !ready_.empty() || !late_.empty())
    return false;
  const bool is_unwoken =
      broken_.empty() && std::any_of(rails_.begin(), rails_.end(), [](const OfiRail& rail) {
        return rail.device->wait_fd() < 0;
      });
  const bool has_kept = std::any_of(peers_.begin(), peers_.end(),
                                    [](const auto& peer) { return peer && !peer->kept.empty(); });
  const bool needs_look = gone_untold_ != 0 || leaving_ != 0 || !owing_.empty() ||
                          free_reads_.size() != kReadsAtOnce || troubles_ != 0 || has_kept ||
                          is_unwoken;
  itimerspec when{};
  if (needs_look) {
    when.it_value.tv_sec = options_.poll_us / 1'000'000;
    when.it_value.tv_nsec = static_cast<long>(options_.poll_us % 1'000'000) * 1000;
  }
  ::timerfd_settime(timer_.get(), 0, &when, nullptr);
  return true;
}

void OfiFabric::counters(CounterWriter& out) const {
  out.counter("ofi_messages_sent", messages_sent_);
  out.counter("ofi_messages_received", messages_received_);
  out.counter("ofi_shown", shown_);
  out.counter("ofi_reads", reads_);
  out.counter("ofi_read_bytes", read_bytes_);
  out.counter("ofi_readers_renewed", readers_renewed_);
  out.counter("ofi_lanes_lost", lanes_lost_);
  out.counter("ofi_lanes_mended", lanes_mended_);
  out.counter("ofi_messages_sent_again", sent_again_);
  out.counter("ofi_messages_repeated", repeated_);
  out.counter("ofi_no_room", refusals_);
  out.counter("ofi_stale", stale_);
  out.counter("ofi_nonsense", nonsense_);
}

Result<std::unique_ptr<MessageFabric>> open_ofi(const OfiOptions& options) {
  auto fabric = std::make_unique<OfiFabric>(options);
  if (const Status opened = fabric->open(); !opened.ok()) return opened.error();
  return std::unique_ptr<MessageFabric>(std::move(fabric));
}

Status probe_ofi() {
  const auto offer = find_offer({});
  if (!offer.ok()) return offer.error();
  return ok_status();
}

}  // namespace spindrift
