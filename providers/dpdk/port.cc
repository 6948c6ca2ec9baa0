#include "providers/dpdk/port.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "providers/dpdk/eal.h"
#include "providers/dpdk/pools.h"

namespace spindrift {
namespace {

constexpr std::uint16_t kFirstFreePort = 32768;
constexpr std::uint16_t kFirstEntropyPort = 49152;
constexpr std::size_t kMaxHeld = 256;
constexpr std::size_t kMaxPathMtus = 256;
// Ways are looked up again this often at least, so that the table knows which neighbours are in
// use.
constexpr Duration kRefresh = std::chrono::seconds(1);
constexpr Duration kUnreachablePace = std::chrono::microseconds(500);
// A device that asked for a reset and did not come back is tried again this often.
constexpr Duration kResetPace = std::chrono::milliseconds(100);

struct Registry {
  std::mutex mutex;
  std::vector<Port*> ports;
};

// One per process, as DPDK's devices are; never destroyed, like DPDK.
Registry& registry() {
  static auto* const one = new Registry;
  return *one;
}

// Whether a device opened with `first` serves who asks for `second`.
bool serves(const DeviceOptions& first, const DeviceOptions& second) {
  const bool has_all =
      std::all_of(second.nets.begin(), second.nets.end(), [&](const LocalNet& wanted) {
        return std::any_of(first.nets.begin(), first.nets.end(), [&](const LocalNet& net) {
          return net.address.is_same_host(wanted.address) && net.prefix_bits == wanted.prefix_bits;
        });
      });
  return has_all && first.arguments == second.arguments && first.vlan == second.vlan &&
         first.mtu == second.mtu && first.mac == second.mac && first.gateways == second.gateways;
}

IoError to_io_error(const NetworkError& error) {
  IoError out;
  out.to = error.destination;
  out.kind = error.kind == NetworkError::Kind::kTooBig            ? IoError::Kind::kTooBig
             : error.kind == NetworkError::Kind::kPortUnreachable ? IoError::Kind::kPortUnreachable
                                                                  : IoError::Kind::kHostUnreachable;
  return out;
}

}  // namespace

Result<Port*> Port::acquire(const DeviceOptions& options) {
  // Also refuses a forked process the devices of its parent.
  const Status started = start_eal(options.device);
  if (!started.ok()) return started.error();
  Registry& all = registry();
  const std::lock_guard guard(all.mutex);
  for (Port* port : all.ports) {
    if (port->options_.device != options.device) continue;
    if (!serves(port->options_, options))
      return Error(ErrorCode::kInvalidArgument,
                   "dpdk device " + options.device +
                       " is open in this process with other options: endpoints that share a "
                       "device give the same gateway, vlan, mtu, mac and args, and no ip that the "
                       "first one did not give");
    ++port->users_;
    return port;
  }
  auto device = PortDevice::open(options);
  if (!device.ok()) return device.error();
  auto* port = new Port(options, std::move(device).value());
  if (port->control_pool_ == nullptr) {
    delete port;
    return Error(ErrorCode::kNoMemory, "DPDK has no memory for the packets of " + options.device +
                                           ": give it more, SPINDRIFT_DPDK_EAL=\"-m 1024\"");
  }
  port->users_ = 1;
  all.ports.push_back(port);
  return port;
}

void Port::release() {
  Registry& all = registry();
  const std::lock_guard guard(all.mutex);
  if (--users_ != 0 || device_->must_stay_open()) return;
  std::erase(all.ports, this);
  delete this;
}

Port::Port(const DeviceOptions& options, std::unique_ptr<PortDevice> device)
    : options_(options),
      device_(std::move(device)),
      mac_(options.mac.is_zero() ? device_->mac() : options.mac),
      neighbors_({.reachable = std::chrono::milliseconds(options.neighbor_ms)}) {
  DeviceOptions small = options;
  small.mbufs = 512;
  small.mtu = 1500;
  control_pool_ = take_pool(pool_wish(small, device_->socket()));
  for (const StaticNeighbor& one : options.neighbors)
    neighbors_.set_static(one.address, one.mac);
}

Port::~Port() {
  if (!is_eal_usable()) return;
  for (const Held& one : held_)
    rte_pktmbuf_free(one.frame);
  give_back_pool(control_pool_);
}

std::uint16_t Port::next_queue() {
  const std::lock_guard guard(mutex_);
  return static_cast<std::uint16_t>(queues_given_++ % device_->queues());
}

bool Port::is_free(const NetAddress& address, std::uint32_t port) const {
  return std::none_of(owners_.begin(), owners_.end(), [&](const Owner& owner) {
    const bool is_entropy =
        port >= owner.first_entropy_port && port - owner.first_entropy_port < kEntropyPorts;
    return owner.address.is_same_host(address) && (owner.address.port == port || is_entropy);
  });
}

// Source ports from `first` on, for a rail that receives on `port`.
bool Port::is_free_block(const NetAddress& address, std::uint32_t first, std::uint32_t port) const {
  const auto holds = [first](std::uint32_t one) {
    return one >= first && one < first + kEntropyPorts;
  };
  if (holds(port)) return false;
  return std::none_of(owners_.begin(), owners_.end(), [&](const Owner& owner) {
    return owner.address.is_same_host(address) &&
           (owner.first_entropy_port == first || holds(owner.address.port));
  });
}

Result<Port::Claim> Port::claim(const NetAddress& local, const Claimant& claimant) {
  static constexpr std::uint32_t kFreePorts = kFirstEntropyPort - kFirstFreePort;
  static constexpr std::uint32_t kBlocks = (65536 - kFirstEntropyPort) / kEntropyPorts;
  const std::lock_guard guard(mutex_);
  if (!has_address(local))
    return Error(ErrorCode::kInvalidArgument, local.to_string() + " is no address of " +
                                                  options_.device +
                                                  "; its addresses are those of the option ip");
  Claim claim{.address = local};
  for (std::uint32_t i = 0; i < kFreePorts && claim.address.port == 0; ++i) {
    const std::uint32_t port = kFirstFreePort + next_port_++ % kFreePorts;
    if (is_free(local, port)) claim.address.port = static_cast<std::uint16_t>(port);
  }
  if (claim.address.port == 0)
    return Error(ErrorCode::kUnavailable, "no UDP port of " + local.to_string() + " is free");
  if (!is_free(local, claim.address.port))
    return Error(ErrorCode::kUnavailable, "UDP port " + std::to_string(claim.address.port) +
                                              " of " + local.to_string() +
                                              " is taken in this process; choose another");
  for (std::uint32_t i = 0; i < kBlocks; ++i) {
    const std::uint32_t first = kFirstEntropyPort + next_block_++ % kBlocks * kEntropyPorts;
    if (!is_free_block(local, first, claim.address.port)) continue;
    claim.first_entropy_port = static_cast<std::uint16_t>(first);
    owners_.push_back({claim.address, claim.first_entropy_port, claimant,
                       device_->steer(claim.address, claimant.queue)});
    return claim;
  }
  return Error(ErrorCode::kUnavailable, "all source ports of " + local.to_string() +
                                            " are taken: " + std::to_string(kBlocks) +
                                            " rails are the most");
}

void Port::give_up_claims(const Mailbox& owner) {
  const std::lock_guard guard(mutex_);
  for (const Owner& one : owners_)
    if (one.who.mailbox == &owner && is_eal_usable()) device_->stop_steering(one.steering);
  std::erase_if(owners_, [&](const Owner& one) { return one.who.mailbox == &owner; });
}

bool Port::has_address(const NetAddress& address) const {
  return std::any_of(options_.nets.begin(), options_.nets.end(),
                     [&](const LocalNet& net) { return net.address.is_same_host(address); });
}

std::optional<Port::Route> Port::route(const NetAddress& remote) const {
  for (const LocalNet& net : options_.nets)
    if (net.contains(remote)) return Route{.next_hop = remote, .source = net.address};
  for (const NetAddress& gateway : options_.gateways) {
    if (gateway.family != remote.family) continue;
    for (const LocalNet& net : options_.nets)
      if (net.contains(gateway)) return Route{.next_hop = gateway, .source = net.address};
  }
  return std::nullopt;
}

std::optional<MacAddress> Port::resolve(const NetAddress& next_hop, Time now) {
  const std::lock_guard guard(mutex_);
  const MacAddress* mac = neighbors_.use(next_hop, now);
  if (mac == nullptr) return std::nullopt;
  return *mac;
}

bool Port::hold(const NetAddress& next_hop, std::uint16_t queue, rte_mbuf* frame) {
  const std::lock_guard guard(mutex_);
  if (held_.size() >= kMaxHeld) {
    ++held_drops_;
    return false;
  }
  held_.push_back({next_hop, frame, queue});
  return true;
}

std::uint32_t Port::path_mtu(const NetAddress& remote) const {
  const std::lock_guard guard(mutex_);
  for (const PathMtu& one : path_mtus_)
    if (one.remote.is_same_host(remote)) return std::min(one.bytes, options_.mtu);
  return options_.mtu;
}

void Port::note_path_mtu(const NetAddress& remote, std::uint32_t bytes) {
  for (PathMtu& one : path_mtus_)
    if (one.remote.is_same_host(remote)) {
      one.bytes = std::min(one.bytes, bytes);
      return;
    }
  if (path_mtus_.size() >= kMaxPathMtus) path_mtus_.erase(path_mtus_.begin());
  path_mtus_.push_back({remote, bytes});
}

const Port::Owner* Port::owner_of(const NetAddress& destination) const {
  for (const Owner& owner : owners_) {
    const bool is_entropy = destination.port >= owner.first_entropy_port &&
                            destination.port - owner.first_entropy_port < kEntropyPorts;
    if (owner.address.is_same_host(destination) &&
        (owner.address.port == destination.port || is_entropy))
      return &owner;
  }
  return nullptr;
}

LocalStation Port::station(const NetAddress& address) const {
  return {.mac = mac_, .address = address, .vlan = static_cast<std::uint16_t>(options_.vlan)};
}

void Port::send(const ControlFrame& frame) {
  rte_mbuf* mbuf = rte_pktmbuf_alloc(control_pool_);
  if (mbuf == nullptr) return;
  char* at = rte_pktmbuf_append(mbuf, static_cast<std::uint16_t>(frame.size));
  if (at != nullptr) std::memcpy(at, frame.bytes.data(), frame.size);
  if (at == nullptr || device_->transmit(0, {&mbuf, 1}) == 0) {
    rte_pktmbuf_free(mbuf);
    return;
  }
  ++control_sent_;
}

void Port::announce() {
  for (const LocalNet& net : options_.nets)
    send(build_announcement(station(net.address)));
}

void Port::take_in(rte_mbuf* frame, FrameVerdict verdict, const ParsedFrame& parsed, Time now) {
  const std::lock_guard guard(mutex_);
  const bool is_in_vlan = verdict == FrameVerdict::kMalformed || parsed.vlan == options_.vlan;
  if (!is_in_vlan) verdict = FrameVerdict::kOther;
  switch (verdict) {
    case FrameVerdict::kUdp: {
      const Owner* owner = owner_of(parsed.destination());
      if (owner == nullptr) {
        on_nobodys_packet(parsed, now);
        break;
      }
      if (owner->who.mailbox->put(frame)) {
        ++handed_over_;
        return;
      }
      ++hand_over_drops_;
      break;
    }
    case FrameVerdict::kArp:
    case FrameVerdict::kIcmp: {
      const auto message = parse_neighbor_message(verdict, parsed);
      if (message)
        on_neighbor_message(*message, parsed, now);
      else if (verdict == FrameVerdict::kIcmp)
        on_icmp(parsed);
      else
        ++not_ours_;
      break;
    }
    case FrameVerdict::kOther:
      ++not_ours_;
      break;
    case FrameVerdict::kFragment:
      ++fragments_;
      break;
    case FrameVerdict::kMalformed:
      ++malformed_;
      break;
  }
  rte_pktmbuf_free(frame);
}

void Port::on_neighbor_message(const NeighborMessage& message, const ParsedFrame& /*parsed*/,
                               Time now) {
  const bool is_for_us = message.is_question && has_address(message.target);
  // Two stations with one address: the other one is not to be believed.
  if (message.sender.is_set() && !has_address(message.sender) && message.sender_mac != mac_) {
    const std::uint64_t before = neighbors_.generation();
    neighbors_.learn({.address = message.sender,
                      .mac = message.sender_mac,
                      .is_new_welcome = is_for_us,
                      .is_confirmed = message.is_solicited},
                     now);
    send_held(message.sender, message.sender_mac);
    if (before != neighbors_.generation()) generation_.fetch_add(1, std::memory_order_release);
  }
  if (is_for_us) send(build_answer(station(message.target), message));
}

// Frames wait for a neighbour that is asked for; whoever says its address sends them off.
void Port::send_held(const NetAddress& next_hop, const MacAddress& mac) {
  bool has_sent = false;
  for (Held& one : held_) {
    if (!one.next_hop.is_same_host(next_hop)) continue;
    std::memcpy(rte_pktmbuf_mtod(one.frame, std::byte*), mac.bytes.data(), 6);
    if (device_->transmit(one.queue, {&one.frame, 1}) == 0) rte_pktmbuf_free(one.frame);
    one.frame = nullptr;
    has_sent = true;
  }
  if (!has_sent) return;
  std::erase_if(held_, [](const Held& one) { return one.frame == nullptr; });
  generation_.fetch_add(1, std::memory_order_release);
}

void Port::on_icmp(const ParsedFrame& parsed) {
  const NetAddress destination = parsed.destination();
  const bool is_ours = has_address(destination);
  if (is_ours) {
    if (const auto reply = build_echo_reply(station(destination), parsed)) {
      send(*reply);
      return;
    }
  }
  const auto error = is_ours ? parse_network_error(parsed) : std::nullopt;
  if (!error || !has_address(error->source)) {
    ++not_ours_;
    return;
  }
  const Owner* owner = owner_of(error->source);
  if (owner == nullptr) return;
  IoError out = to_io_error(*error);
  out.rail = owner->who.rail;
  out.entropy = static_cast<std::uint16_t>(error->source.port >= owner->first_entropy_port
                                               ? error->source.port - owner->first_entropy_port
                                               : 0);
  if (out.kind == IoError::Kind::kTooBig) {
    const std::uint32_t headers = ip_udp_bytes(error->destination.family);
    // Who says nothing, or nonsense, gets what must pass everywhere.
    const std::uint32_t mtu = std::max(error->mtu, error->destination.family == 6 ? 1280U : 576U);
    note_path_mtu(error->destination, mtu);
    out.max_packet_bytes = mtu - headers;
  }
  owner->who.mailbox->report(out);
}

void Port::on_nobodys_packet(const ParsedFrame& parsed, Time now) {
  const NetAddress destination = parsed.destination();
  ++not_ours_;
  if (!has_address(destination) || parsed.source_mac().is_group() || now < next_unreachable_)
    return;
  next_unreachable_ = now + kUnreachablePace;
  send(build_port_unreachable(station(destination), parsed));
}

void Port::on_neighbor_gone(const NetAddress& address) {
  ++neighbors_gone_;
  for (Held& one : held_) {
    if (!one.next_hop.is_same_host(address)) continue;
    rte_pktmbuf_free(one.frame);
    one.frame = nullptr;
    ++held_drops_;
  }
  std::erase_if(held_, [](const Held& one) { return one.frame == nullptr; });
}

void Port::on_link(bool is_up) {
  ++link_changes_;
  was_up_ = is_up;
  if (is_up) announce();
  if (link_changes_ == 1) return;  // nobody has been told that it was down
  for (const Owner& owner : owners_) {
    IoError event;
    event.kind = is_up ? IoError::Kind::kLinkUp : IoError::Kind::kLinkDown;
    event.rail = owner.who.rail;
    owner.who.mailbox->report(event);
  }
}

void Port::reset_device(Time now) {
  next_reset_ = now + kResetPace;
  if (!device_->reset(options_).ok()) {
    ++resets_failed_;
    return;
  }
  ++resets_;
  for (Owner& owner : owners_)
    owner.steering = device_->steer(owner.address, owner.who.queue);
}

void Port::maintain(Time now) {
  const std::unique_lock guard(mutex_, std::try_to_lock);
  if (!guard.owns_lock()) return;  // another endpoint is at it
  if (device_->wants_reset() && now >= next_reset_) reset_device(now);
  if (const bool is_up = device_->is_up(); is_up != was_up_) on_link(is_up);
  if (now >= next_refresh_) {
    const Duration reachable = std::chrono::milliseconds(options_.neighbor_ms);
    next_refresh_ = now + std::min(kRefresh, reachable / 2);
    generation_.fetch_add(1, std::memory_order_release);
  }
  std::array<NeighborTable::Due, 16> due{};
  const std::uint64_t before = neighbors_.generation();
  const std::size_t count = neighbors_.poll(now, due);
  for (const NeighborTable::Due& one : std::span(due).first(count)) {
    const auto way = route(one.address);
    if (!one.is_question)
      on_neighbor_gone(one.address);
    else if (way)
      send(build_solicitation(station(way->source), one.address,
                              one.mac.is_zero() ? nullptr : &one.mac));
  }
  if (before != neighbors_.generation()) generation_.fetch_add(1, std::memory_order_release);
}

void Port::counters(CounterWriter& out) const {
  const std::lock_guard guard(mutex_);
  const std::string prefix = "port" + std::to_string(device_->id()) + "_";
  const auto write = [&](const char* name, std::uint64_t value) {
    out.counter(prefix + name, value);
  };
  const PortDevice::Totals totals = device_->totals();
  write("rx_missed", totals.missed);
  write("rx_errors", totals.errors);
  write("rx_no_mbuf", totals.no_mbuf);
  write("rx_handed_over", handed_over_);
  write("rx_hand_over_drops", hand_over_drops_);
  write("rx_not_ours", not_ours_);
  write("rx_malformed", malformed_);
  write("rx_fragments", fragments_);
  write("neighbors", neighbors_.size());
  write("neighbors_gone", neighbors_gone_);
  write("held_drops", held_drops_);
  write("control_sent", control_sent_);
  write("link_changes", link_changes_);
  write("resets", resets_);
  write("resets_failed", resets_failed_);
}

}  // namespace spindrift
