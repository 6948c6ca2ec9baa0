#include "providers/dpdk/dpdk_io.h"

#include <algorithm>
#include <vector>

#include "spindrift/region_user.h"

#include "providers/dpdk/device_trouble.h"
#include "providers/dpdk/dma_memory.h"
#include "providers/dpdk/dpdk_rail.h"
#include "providers/dpdk/dpdk_receiver.h"
#include "providers/dpdk/dpdk_sender.h"
#include "providers/dpdk/eal.h"
#include "providers/monotonic_clock.h"
#include "transport/base/check.h"

namespace spindrift {
namespace {

constexpr Duration kMaintenance = std::chrono::milliseconds(5);
// A turn over a full batch; where the other end of the link is a thread, the time in which it looks
// elsewhere.
constexpr Duration kPortLatency = std::chrono::microseconds(10);
constexpr Duration kThreadLatency = std::chrono::microseconds(100);

// Rings hold so many packets, and connections may use shorter ones than the MTU.
constexpr std::uint32_t kUsualPacketBytes = 4096;

class DpdkIo final : public PacketIo, public RegionUser {
 public:
  explicit DpdkIo(std::span<const DeviceOptions> devices)
      : devices_(devices.begin(), devices.end()),
        receiver_(devices.size()),
        sender_(devices.size()) {}
  ~DpdkIo() override;
  DpdkIo(const DpdkIo&) = delete;
  DpdkIo& operator=(const DpdkIo&) = delete;
  Status open();

  const PacketIoCaps& caps() const override { return caps_; }
  Time now() const override { return monotonic_now(); }
  Result<std::uint16_t> add_rail(const NetAddress& local) override;
  std::span<const NetAddress> rails() const override { return addresses_; }
  std::vector<NetAddress> expand(const NetAddress& wildcard) const override;
  Result<NetAddress> source_for(const NetAddress& remote) const override;
  std::uint32_t max_packet_bytes(std::uint16_t rail, const NetAddress& remote) const override;
  Status open_entropies(std::uint16_t rail, std::uint16_t count) override;
  void add_region(LocalKey region, std::span<std::byte> bytes) override;
  void remove_region(LocalKey region) override;
  std::size_t receive(std::span<RxPacket> out) override;
  void release(std::span<const RxPacket> packets) override;
  std::size_t reserve(std::span<TxPacket> out) override;
  void send(std::span<const TxPacket> packets) override;
  std::uint64_t released() const override { return sender_.released(uses_); }
  std::size_t poll_errors(std::span<IoError> out) override;
  // The ports are polled: there is nothing to wait on.
  void append_wait_fds(std::vector<int>& /*out*/) const override {}
  bool has_unsent() const override { return sender_.has_unsent(); }
  void counters(CounterWriter& out) const override;

 private:
  void describe();

  std::vector<DeviceOptions> devices_;
  PacketIoCaps caps_;
  // Before what has their packets.
  std::vector<std::unique_ptr<PortUse>> uses_;
  std::unique_ptr<DmaRegions> dma_regions_;  // null: no device reads memory by itself
  std::vector<DpdkRail> rails_;
  std::vector<NetAddress> addresses_;
  DpdkReceiver receiver_;
  DpdkSender sender_;
  Time next_maintenance_{};
};

Status DpdkIo::open() {
  for (const DeviceOptions& one : devices_) {
    const auto port = Port::acquire(one);
    if (!port.ok()) return port.error();
    uses_.push_back(std::make_unique<PortUse>(port.value()));
    const std::string name =
        "spindrift_mail_" +
        std::to_string(reinterpret_cast<std::uintptr_t>(uses_.back().get()) & 0xffffffffffU);
    Status opened = uses_.back()->mailbox.open(name.c_str());
    if (!opened.ok()) return opened;
  }
  describe();
  std::vector<rte_device*> readers;
  for (const auto& use : uses_)
    if (use->port->device().payload_reach() == PayloadReach::kMapped)
      readers.push_back(use->port->device().dma_device());
  if (!readers.empty()) dma_regions_ = std::make_unique<DmaRegions>(std::move(readers));
  sender_.set_dma_regions(dma_regions_.get());
  return sender_.open(devices_, uses_);
}

DpdkIo::~DpdkIo() {
  if (is_eal_usable() && uses_.size() == devices_.size()) sender_.close(uses_);
}

void DpdkIo::describe() {
  caps_.name = "dpdk";
  caps_.batch = 32;
  caps_.entropies = Port::kEntropyPorts;
  caps_.has_ecn = true;
  caps_.copies_on_send = true;    // as long as no device takes payload from elsewhere
  caps_.has_rx_timestamp = true;  // as long as all devices stamp packets
  caps_.host_latency = kPortLatency;
  for (const auto& use : uses_) {
    const DeviceOptions& options = use->port->options();
    caps_.max_packet_bytes = std::max(caps_.max_packet_bytes, options.mtu - ip_udp_bytes(4));
    // What waits in a ring; a queue that nobody empties drops the rest.
    caps_.receive_buffer_bytes += std::uint64_t{use->port->device().waiting_packets()} *
                                  std::min(options.mtu, kUsualPacketBytes);
    const Rate rate = use->port->device().link_rate();
    if (caps_.link_rate.is_unlimited() || (!rate.is_unlimited() && rate < caps_.link_rate))
      caps_.link_rate = rate;
    if (is_in_software(use->port->device().driver())) caps_.host_latency = kThreadLatency;
    if (use->port->device().payload_reach() != PayloadReach::kPacket) caps_.copies_on_send = false;
    if (!use->port->device().rx_timestamps().exists()) caps_.has_rx_timestamp = false;
    if (options.vlan != 0) caps_.frame_overhead_bytes = 70;
  }
}

Result<std::uint16_t> DpdkIo::add_rail(const NetAddress& local) {
  if (!local.is_set() || local.is_wildcard())
    return Error(ErrorCode::kInvalidArgument, "a rail needs one address of a device; " +
                                                  local.to_string() + " stands for several");
  for (const auto& use : uses_) {
    if (!use->port->has_address(local)) continue;
    const auto rail = static_cast<std::uint16_t>(rails_.size());
    const auto claim =
        use->port->claim(local, {.mailbox = &use->mailbox, .rail = rail, .queue = use->queue});
    if (!claim.ok()) return claim.error();
    rails_.push_back({.use = use.get(),
                      .address = claim.value().address,
                      .first_entropy_port = claim.value().first_entropy_port});
    addresses_.push_back(claim.value().address);
    return rail;
  }
  return Error(ErrorCode::kInvalidArgument,
               local.to_string() + " is no address of " + devices_.front().device +
                   (devices_.size() > 1 ? " or the other devices" : "") +
                   "; the option ip says which are");
}

std::vector<NetAddress> DpdkIo::expand(const NetAddress& wildcard) const {
  std::vector<NetAddress> out;
  for (const DeviceOptions& device : devices_)
    for (const LocalNet& net : device.nets) {
      if (net.address.family != wildcard.family) continue;
      out.push_back(net.address);
      out.back().port = wildcard.port;
    }
  return out;
}

Result<NetAddress> DpdkIo::source_for(const NetAddress& remote) const {
  // A network of a device's own before a gateway of another's.
  for (const bool takes_gateway : {false, true})
    for (const auto& use : uses_) {
      const auto route = use->port->route(remote);
      if (route && (takes_gateway || route->next_hop.is_same_host(remote))) return route->source;
    }
  return Error(ErrorCode::kNotFound,
               "no route to " + remote.to_string() +
                   ": it is in none of the networks of the option ip, and there is no gateway");
}

std::uint32_t DpdkIo::max_packet_bytes(std::uint16_t rail, const NetAddress& remote) const {
  SPINDRIFT_CHECK(rail < rails_.size());
  if (remote.family != rails_[rail].address.family) return 0;
  return rails_[rail].use->port->path_mtu(remote) - ip_udp_bytes(remote.family);
}

Status DpdkIo::open_entropies(std::uint16_t rail, std::uint16_t count) {
  SPINDRIFT_CHECK(rail < rails_.size());
  if (count > caps_.entropies)
    return Error(ErrorCode::kInvalidArgument, std::to_string(count) +
                                                  " entropies asked for, dpdk has at most " +
                                                  std::to_string(caps_.entropies));
  rails_[rail].entropies = std::max(rails_[rail].entropies, count);
  return ok_status();
}

void DpdkIo::add_region(LocalKey region, std::span<std::byte> bytes) {
  if (dma_regions_ != nullptr && is_eal_usable()) dma_regions_->add(region, bytes);
}

void DpdkIo::remove_region(LocalKey region) {
  if (dma_regions_ != nullptr && is_eal_usable()) dma_regions_->remove(region);
}

std::size_t DpdkIo::receive(std::span<RxPacket> out) {
  if (!is_eal_usable()) [[unlikely]]
    return 0;
  use_thread();
  if (sender_.has_unsent()) sender_.flush(uses_);
  const Time now = monotonic_now();
  if (now >= next_maintenance_) [[unlikely]] {
    next_maintenance_ = now + kMaintenance;
    for (const auto& use : uses_)
      use->port->maintain(now);
    receiver_.read_clocks(uses_, now);
  }
  return receiver_.receive({uses_, rails_, now}, out);
}

void DpdkIo::release(std::span<const RxPacket> packets) {
  if (is_eal_usable()) receiver_.release(packets);
}

std::size_t DpdkIo::reserve(std::span<TxPacket> out) {
  if (!is_eal_usable()) [[unlikely]]
    return 0;
  use_thread();
  return sender_.reserve(uses_, out);
}

void DpdkIo::send(std::span<const TxPacket> packets) {
  if (is_eal_usable()) sender_.send(uses_, rails_, packets);
}

std::size_t DpdkIo::poll_errors(std::span<IoError> out) {
  std::size_t count = sender_.take_errors(out);
  for (const auto& use : uses_)
    count += use->mailbox.take_errors(out.subspan(count));
  return count;
}

void DpdkIo::counters(CounterWriter& out) const {
  sender_.counters(out);
  receiver_.counters(out);
  if (!is_eal_usable()) return;
  for (const auto& use : uses_)
    use->port->counters(out);
}

}  // namespace

Result<std::unique_ptr<PacketIo>> open_dpdk(std::span<const DeviceOptions> devices) {
  auto io = std::make_unique<DpdkIo>(devices);
  const Status opened = io->open();
  if (!opened.ok()) return opened.error();
  return std::unique_ptr<PacketIo>(std::move(io));
}

}  // namespace spindrift
