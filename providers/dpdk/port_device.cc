#include "providers/dpdk/port_device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include <rte_dev.h>
#include <rte_errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "providers/dpdk/device_trouble.h"
#include "providers/dpdk/eal.h"
#include "providers/dpdk/pools.h"
#include "transport/base/unique_fd.h"

namespace spindrift {
namespace {

constexpr std::uint64_t kUdpRss = RTE_ETH_RSS_NONFRAG_IPV4_UDP | RTE_ETH_RSS_NONFRAG_IPV6_UDP;
constexpr std::uint64_t kTxChecksums = RTE_ETH_TX_OFFLOAD_UDP_CKSUM | RTE_ETH_TX_OFFLOAD_IPV4_CKSUM;

Error trouble(const DeviceOptions& options, const std::string& step, int code) {
  return Error(ErrorCode::kUnsupported, explain_device_trouble(options, step, code));
}

// Packets on their way between the ring of a device and an endpoint.
constexpr std::uint32_t kOutsideTheRing = 64;

// af_xdp fills the kernel's ring of 2048 with them, and copies what it sends into others.
constexpr std::uint32_t kAfXdpPackets = 8192;
// A packet of af_xdp lies in one page, with its head, and behind 256 bytes of the kernel's.
constexpr std::uint32_t kAfXdpFrameBytes = 3264;
constexpr std::uint32_t kAfXdpMtu = 3000;
// The driver sends nothing that is longer, whatever the kernel's end would take.
constexpr std::uint32_t kTapMtu = 1500;

Status check_mtu(const DeviceOptions& options, const std::string& driver) {
  const std::uint32_t most = driver == "net_af_xdp" ? kAfXdpMtu
                             : driver == "net_tap"  ? kTapMtu
                                                    : options.mtu;
  if (options.mtu <= most) return ok_status();
  return Error(ErrorCode::kInvalidArgument, "dpdk device " + options.device + ": " + driver +
                                                " carries packets of " + std::to_string(most) +
                                                " bytes at most, and mtu is " +
                                                std::to_string(options.mtu));
}

// What af_packet is told of its ring, or what it takes by itself.
std::uint32_t af_packet_argument(const DeviceOptions& options, const std::string& key,
                                 std::uint32_t by_itself) {
  const std::size_t at = options.arguments.find(key + "=");
  if (at == std::string::npos) return by_itself;
  return static_cast<std::uint32_t>(
      std::strtoul(options.arguments.c_str() + at + key.size() + 1, nullptr, 10));
}

// Drivers in software which copy what they are given, and do not hand it on.
bool copies_by_itself(const std::string& driver, const DeviceOptions& options) {
  if (driver == "net_memif") return options.arguments.find("zero-copy=yes") == std::string::npos;
  return driver == "net_vhost" || driver == "net_af_packet" || driver == "net_tap";
}

PayloadReach reach_of(const DeviceOptions& options, const rte_eth_dev_info& info) {
  const std::string driver = info.driver_name;
  const bool takes_chains = (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;
  if (options.payload == PayloadChoice::kCopy || !takes_chains) return PayloadReach::kPacket;
  if (copies_by_itself(driver, options)) return PayloadReach::kAnywhere;
  // The others in software hand out addresses of DPDK's own memory.
  const bool is_wanted = options.payload == PayloadChoice::kInPlace && !is_in_software(driver);
  return is_wanted && rte_eal_iova_mode() == RTE_IOVA_VA ? PayloadReach::kMapped
                                                         : PayloadReach::kPacket;
}

// Rules look at the address and the port that a packet goes to.
rte_flow_item_ipv4 ipv4_mask() {
  rte_flow_item_ipv4 mask{};
  mask.hdr.dst_addr = ~rte_be32_t{0};
  return mask;
}
rte_flow_item_ipv6 ipv6_mask() {
  rte_flow_item_ipv6 mask{};
  std::memset(mask.hdr.dst_addr, 0xff, sizeof mask.hdr.dst_addr);
  return mask;
}
rte_flow_item_udp port_mask() {
  rte_flow_item_udp mask{};
  mask.hdr.dst_port = 0xffff;
  return mask;
}

// memif does not listen where the socket of a process that is gone still lies.
void remove_stale_socket(const DeviceOptions& options) {
  if (!options.device.starts_with("net_memif") ||
      options.arguments.find("role=server") == std::string::npos)
    return;
  const std::string key = "socket=";
  const std::size_t at = options.arguments.find(key);
  if (at == std::string::npos) return;
  std::string path = options.arguments.substr(at + key.size());
  path = path.substr(0, path.find(','));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  // Memif's sockets keep packets' boundaries.
  const UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const auto* any = reinterpret_cast<const sockaddr*>(&address);
  if (fd.is_open() && connect(fd.get(), any, sizeof address) != 0 && errno == ECONNREFUSED)
    ::unlink(path.c_str());
}

}  // namespace

Result<std::unique_ptr<PortDevice>> PortDevice::open(const DeviceOptions& options) {
  Status status = start_eal(options.device);
  if (!status.ok()) return status.error();
  use_thread();
  const NoSigpipe no_sigpipe;
  const ControlThreadsFirst control_threads_first;
  forget_eal_said();
  std::unique_ptr<PortDevice> device(new PortDevice);
  status = device->find(options);
  if (status.ok()) status = device->configure(options);
  if (status.ok()) status = device->set_up_queues(options);
  if (status.ok()) status = device->start(options);
  if (!status.ok()) return status.error();
  static_cast<void>(rte_eth_dev_callback_register(device->id_, RTE_ETH_EVENT_INTR_RESET,
                                                  on_reset_event, device.get()));
  return device;
}

// Plugged in at start-up (--vdev, -a), or now.
Status PortDevice::find(const DeviceOptions& options) {
  if (rte_eth_dev_get_port_by_name(options.device.c_str(), &id_) == 0) return ok_status();
  remove_stale_socket(options);
  std::string devargs = options.device;
  if (!options.arguments.empty()) devargs += "," + options.arguments;
  const int code = rte_dev_probe(devargs.c_str());
  if (code != 0 || rte_eth_dev_get_port_by_name(options.device.c_str(), &id_) != 0) {
    id_ = RTE_MAX_ETHPORTS;
    return trouble(options, "cannot be opened", code);
  }
  is_ours_ = true;
  return ok_status();
}

Status PortDevice::configure(const DeviceOptions& options) {
  rte_eth_dev_info info{};
  int code = rte_eth_dev_info_get(id_, &info);
  if (code != 0) return trouble(options, "does not describe itself", code);
  driver_ = info.driver_name;
  if (Status fits = check_mtu(options, driver_); !fits.ok()) return fits;
  must_stay_open_ = driver_ == "net_memif";
  payload_reach_ = reach_of(options, info);
  const auto queues = static_cast<std::uint16_t>(
      std::min<std::uint32_t>({options.queues, info.max_rx_queues, info.max_tx_queues}));
  rte_eth_conf conf{};
  conf.txmode.offloads = info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
  computes_checksums_ = options.checksum != ChecksumChoice::kOff &&
                        (info.tx_offload_capa & kTxChecksums) == kTxChecksums;
  if (computes_checksums_) conf.txmode.offloads |= kTxChecksums;
  conf.rxmode.offloads = info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
  checks_checksums_ = conf.rxmode.offloads != 0;
  rx_timestamps_ = {};
  const bool has_stamps = (info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_TIMESTAMP) != 0;
  if (has_stamps &&
      rte_mbuf_dyn_rx_timestamp_register(&rx_timestamps_.offset, &rx_timestamps_.flag) == 0)
    conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_TIMESTAMP;
  if (queues > 1 && (info.flow_type_rss_offloads & kUdpRss) != 0) {
    conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    conf.rx_adv_conf.rss_conf.rss_hf = info.flow_type_rss_offloads & kUdpRss;
  }
  // Cards that tell of changes of their link do not look at it when asked.
  conf.intr_conf.lsc = (*info.dev_flags & RTE_ETH_DEV_INTR_LSC) != 0 ? 1 : 0;
  code = rte_eth_dev_configure(id_, queues, queues, &conf);
  if (code != 0) return trouble(options, "cannot be configured", code);
  if (receive_queues_.empty()) {  // else a reset
    receive_queues_ = std::vector<ReceiveQueue>(queues);
    transmit_queues_ = std::vector<TransmitQueue>(queues);
  }
  // Drivers in software know no MTU, or only the usual one, and carry what their buffers hold.
  code =
      options.mtu == 1500 ? 0 : rte_eth_dev_set_mtu(id_, static_cast<std::uint16_t>(options.mtu));
  const bool is_unknown = code == -ENOTSUP || (code == -EINVAL && is_in_software(driver_));
  if (code != 0 && !is_unknown)
    return trouble(options, "does not take mtu=" + std::to_string(options.mtu), code);
  return ok_status();
}

Status PortDevice::set_up_queues(const DeviceOptions& options) {
  std::uint16_t rx = static_cast<std::uint16_t>(options.ring);
  std::uint16_t tx = rx;
  int code = rte_eth_dev_adjust_nb_rx_tx_desc(id_, &rx, &tx);
  if (code != 0) return trouble(options, "has no ring of that size", code);
  transmit_descriptors_ = tx;
  // These receive into packets that their ring holds from the start; memory links and sockets take
  // one when they have a frame.
  const bool fills_its_ring = !is_in_software(driver_) || driver_ == "net_virtio_user";
  if (fills_its_ring && options.mbufs != 0 && options.mbufs < rx + kOutsideTheRing)
    return Error(ErrorCode::kInvalidArgument,
                 "mbufs=" + std::to_string(options.mbufs) + " is too few for " + options.device +
                     ", whose ring alone holds " + std::to_string(rx) + " packets: give mbufs=" +
                     std::to_string(rx + kOutsideTheRing) + " or more, or a smaller ring");
  rte_eth_dev_info info{};
  code = rte_eth_dev_info_get(id_, &info);
  if (code != 0) return trouble(options, "does not describe itself", code);
  rte_eth_txconf sending = info.default_txconf;
  // has_sent() asks about every packet.
  if (payload_reach_ == PayloadReach::kMapped) sending.tx_rs_thresh = 1;
  PoolWish wish = pool_wish(options, socket());
  waiting_packets_ = options.ring;
  if (driver_ == "net_af_packet") {
    waiting_packets_ = af_packet_argument(options, "framecnt", 512);
    // It wants packets to be as large as the frames of its ring, whatever the MTU.
    wish.frame_bytes = std::max(wish.frame_bytes, af_packet_argument(options, "framesz", 2048));
  }
  if (driver_ == "net_af_xdp") {
    wish.packets = std::max(wish.packets, kAfXdpPackets);
    wish.frame_bytes = kAfXdpFrameBytes;
  }
  for (std::uint16_t queue = 0; queue < queues(); ++queue) {
    if (receive_queues_[queue].pool == nullptr) receive_queues_[queue].pool = take_pool(wish);
    if (receive_queues_[queue].pool == nullptr)
      return Error(ErrorCode::kNoMemory,
                   "DPDK has no memory for the packets of " + options.device + " (" +
                       rte_strerror(rte_errno) +
                       "): give it more, SPINDRIFT_DPDK_EAL=\"-m 1024\", or ask for less with the "
                       "options ring, mbufs, queues and mtu");
    code = rte_eth_rx_queue_setup(id_, queue, rx, static_cast<unsigned>(socket()), nullptr,
                                  receive_queues_[queue].pool);
    if (code == 0)
      code = rte_eth_tx_queue_setup(id_, queue, tx, static_cast<unsigned>(socket()), &sending);
    if (code != 0) return trouble(options, "cannot set up its queues", code);
  }
  return ok_status();
}

Status PortDevice::start(const DeviceOptions& options) {
  const int code = rte_eth_dev_start(id_);
  if (code != 0) return trouble(options, "does not start", code);
  is_started_ = true;
  const bool is_mapped = payload_reach_ == PayloadReach::kMapped;
  if (is_mapped && rte_eth_tx_descriptor_status(id_, 0, 0) < 0)
    payload_reach_ = PayloadReach::kPacket;  // it does not tell what it has read
  // Neighbour discovery asks by multicast, which cards filter. Devices without a filter refuse.
  static_cast<void>(rte_eth_allmulticast_enable(id_));
  return set_mac(options);
}

Status PortDevice::set_mac(const DeviceOptions& options) const {
  if (options.mac.is_zero() || options.mac == mac()) return ok_status();
  // The kernel's interface keeps its own, or the kernel would look up a route for every packet of
  // ours. A card below it passes on what is for others too.
  if (driver_ == "net_af_packet") {
    const int passes = rte_eth_promiscuous_enable(id_);
    if (passes == 0) return ok_status();
    return trouble(options, "does not become promiscuous, as mac= needs", passes);
  }
  rte_ether_addr address{};
  std::memcpy(address.addr_bytes, options.mac.bytes.data(), 6);
  const int code = rte_eth_dev_default_mac_addr_set(id_, &address);
  // Links in software filter nothing: the address is what we put into frames.
  const bool is_just_written = code == -ENOTSUP && is_in_software(driver_);
  if (code == 0 || is_just_written || mac() == options.mac) return ok_status();
  return trouble(options, "does not take mac=" + to_string(options.mac), code);
}

int PortDevice::on_reset_event(std::uint16_t /*port*/, rte_eth_event_type /*event*/, void* device,
                               void* /*more*/) {
  static_cast<PortDevice*>(device)->wants_reset_.store(true);
  return 0;
}

Status PortDevice::reset(const DeviceOptions& options) {
  use_thread();
  for (ReceiveQueue& queue : receive_queues_)
    queue.lock.lock();
  for (TransmitQueue& queue : transmit_queues_)
    queue.lock.lock();
  Status status = ok_status();
  rte_flow_error error{};
  if (queues() > 1) static_cast<void>(rte_flow_flush(id_, &error));
  if (is_started_) rte_eth_dev_stop(id_);
  is_started_ = false;
  const int code = rte_eth_dev_reset(id_);
  // Where there is no more to it than to stop and to start.
  if (code != 0 && code != -ENOTSUP) status = trouble(options, "cannot be reset", code);
  if (status.ok()) status = configure(options);
  if (status.ok()) status = set_up_queues(options);
  if (status.ok()) status = start(options);
  wants_reset_.store(!status.ok());
  for (TransmitQueue& queue : transmit_queues_)
    queue.lock.unlock();
  for (ReceiveQueue& queue : receive_queues_)
    queue.lock.unlock();
  return status;
}

PortDevice::~PortDevice() {
  if (!is_eal_usable()) return;
  close();
  for (const ReceiveQueue& queue : receive_queues_) {
    // What the kernel's rings held does not come back.
    if (driver_ == "net_af_xdp")
      rte_mempool_free(queue.pool);
    else
      give_back_pool(queue.pool);
  }
}

void PortDevice::close() const {
  const NoSigpipe no_sigpipe;
  static_cast<void>(rte_eth_dev_callback_unregister(id_, RTE_ETH_EVENT_INTR_RESET, on_reset_event,
                                                    const_cast<PortDevice*>(this)));
  if (is_started_) rte_eth_dev_stop(id_);
  if (id_ == RTE_MAX_ETHPORTS || !is_ours_) return;
  rte_eth_dev_info info{};
  const bool is_known = rte_eth_dev_info_get(id_, &info) == 0;
  rte_eth_dev_close(id_);
  if (is_known && info.device != nullptr) rte_dev_remove(info.device);
}

MacAddress PortDevice::mac() const {
  MacAddress mac;
  rte_ether_addr address{};
  if (rte_eth_macaddr_get(id_, &address) == 0) std::memcpy(mac.bytes.data(), address.addr_bytes, 6);
  return mac;
}

bool PortDevice::is_up() const {
  rte_eth_link link{};
  return rte_eth_link_get_nowait(id_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

// Devices in software claim figures that mean nothing.
Rate PortDevice::link_rate() const {
  rte_eth_link link{};
  if (is_in_software(driver_)) return Rate{};
  if (rte_eth_link_get_nowait(id_, &link) != 0 || link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN)
    return Rate{};
  return Rate::bits_per_second(std::uint64_t{link.link_speed} * 1'000'000);
}

std::size_t PortDevice::receive(std::uint16_t queue, std::span<rte_mbuf*> out) {
  SpinLock& lock = receive_queues_[queue].lock;
  if (!lock.try_lock()) return 0;
  const std::size_t count = !is_started_ ? 0
                                         : rte_eth_rx_burst(id_, queue, out.data(),
                                                            static_cast<std::uint16_t>(out.size()));
  lock.unlock();
  return count;
}

std::size_t PortDevice::transmit(std::uint16_t queue, std::span<rte_mbuf*> frames) {
  const std::lock_guard guard(transmit_queues_[queue].lock);
  std::size_t sent = 0;
  if (!is_started_) return 0;  // a reset has failed
  // Some drivers take fewer at a time than they have room for.
  while (sent < frames.size()) {
    const std::uint16_t taken = rte_eth_tx_burst(id_, queue, frames.data() + sent,
                                                 static_cast<std::uint16_t>(frames.size() - sent));
    if (taken == 0) break;
    sent += taken;
  }
  return sent;
}

bool PortDevice::has_sent(std::uint16_t queue, std::uint64_t segments) const {
  if (segments >= transmit_descriptors_) return true;  // its descriptors are in use again
  const auto newest = static_cast<std::uint16_t>(transmit_descriptors_ - 1);
  return rte_eth_tx_descriptor_status(id_, queue, static_cast<std::uint16_t>(newest - segments)) ==
         RTE_ETH_TX_DESC_DONE;
}

rte_device* PortDevice::dma_device() const {
  rte_eth_dev_info info{};
  return rte_eth_dev_info_get(id_, &info) == 0 ? info.device : nullptr;
}

rte_flow* PortDevice::steer(const NetAddress& to, std::uint16_t queue) const {
  if (queues() < 2) return nullptr;
  rte_flow_attr attributes{};
  attributes.ingress = 1;
  rte_flow_item_ipv4 to_ipv4{};
  rte_flow_item_ipv6 to_ipv6{};
  std::memcpy(&to_ipv4.hdr.dst_addr, to.ip.data(), sizeof to_ipv4.hdr.dst_addr);
  std::memcpy(to_ipv6.hdr.dst_addr, to.ip.data(), sizeof to_ipv6.hdr.dst_addr);
  rte_flow_item_udp to_port{};
  to_port.hdr.dst_port = __builtin_bswap16(to.port);
  const rte_flow_item_ipv4 whole_ipv4 = ipv4_mask();
  const rte_flow_item_ipv6 whole_ipv6 = ipv6_mask();
  const rte_flow_item_udp whole_port = port_mask();
  rte_flow_item pattern[4]{};
  pattern[0].type = RTE_FLOW_ITEM_TYPE_ETH;
  if (to.family == 6)
    pattern[1] = {RTE_FLOW_ITEM_TYPE_IPV6, &to_ipv6, nullptr, &whole_ipv6};
  else
    pattern[1] = {RTE_FLOW_ITEM_TYPE_IPV4, &to_ipv4, nullptr, &whole_ipv4};
  pattern[2] = {RTE_FLOW_ITEM_TYPE_UDP, &to_port, nullptr, &whole_port};
  pattern[3].type = RTE_FLOW_ITEM_TYPE_END;
  rte_flow_action_queue target{};
  target.index = queue;
  const rte_flow_action actions[] = {{RTE_FLOW_ACTION_TYPE_QUEUE, &target},
                                     {RTE_FLOW_ACTION_TYPE_END, nullptr}};
  rte_flow_error error{};
  // Where it cannot, packets that come to the wrong queue are handed over in software.
  return rte_flow_create(id_, &attributes, pattern, actions, &error);
}

void PortDevice::stop_steering(rte_flow* rule) const {
  rte_flow_error error{};
  if (rule != nullptr) static_cast<void>(rte_flow_destroy(id_, rule, &error));
}

PortDevice::Totals PortDevice::totals() const {
  rte_eth_stats stats{};
  if (rte_eth_stats_get(id_, &stats) != 0) return {};
  return {.missed = stats.imissed, .errors = stats.ierrors, .no_mbuf = stats.rx_nombuf};
}

}  // namespace spindrift
