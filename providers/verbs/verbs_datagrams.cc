#include "providers/verbs/verbs_datagrams.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include <sys/epoll.h>
#include <sys/socket.h>

#include "providers/monotonic_clock.h"
#include "providers/verbs/datagram_neighbors.h"
#include "providers/verbs/datagram_rail.h"
#include "providers/verbs/registered_memory.h"
#include "providers/verbs/socket_address.h"
#include "providers/verbs/verbs_trouble.h"
#include "transport/base/check.h"
#include "transport/base/scratch.h"

namespace spindrift {
namespace {

constexpr std::uint32_t kSlots = DatagramLane::kSends;
constexpr std::size_t kMostHeld = kSlots;  // packets, for one whose queue pair is not known yet
constexpr Duration kBetweenLooks = std::chrono::milliseconds(1);
// Turns without a packet, after which the sockets are looked at.
constexpr std::uint32_t kTurnsBetweenClocks = 16;
// Ethernet with preamble and gap, IPv4, UDP, and what RoCE adds in front and behind.
constexpr std::uint32_t kFrameOverhead = 38 + 20 + 8 + 12 + 8 + 4;
constexpr std::uint8_t kEcnMask = 3;

class VerbsDatagrams final : public PacketIo {
 public:
  explicit VerbsDatagrams(const VerbsOptions& options) : options_(options) {}
  ~VerbsDatagrams() override = default;
  Status open();

  const PacketIoCaps& caps() const override { return caps_; }
  Time now() const override { return monotonic_now(); }
  Result<std::uint16_t> add_rail(const NetAddress& local) override;
  std::span<const NetAddress> rails() const override { return addresses_; }
  std::vector<NetAddress> expand(const NetAddress& wildcard) const override;
  Result<NetAddress> source_for(const NetAddress& remote) const override;
  std::uint32_t max_packet_bytes(std::uint16_t rail, const NetAddress& remote) const override;
  Status open_entropies(std::uint16_t rail, std::uint16_t count) override;
  std::size_t receive(std::span<RxPacket> out) override;
  void release(std::span<const RxPacket> packets) override;
  std::size_t reserve(std::span<TxPacket> out) override;
  void send(std::span<const TxPacket> packets) override;
  std::uint64_t released() const override { return sent_; }
  std::size_t poll_errors(std::span<IoError> out) override;
  void append_wait_fds(std::vector<int>& out) const override { out.push_back(epoll_.get()); }
  bool has_unsent() const override { return false; }
  void counters(CounterWriter& out) const override;

 private:
  std::byte* slot(std::uint32_t number) const {
    return out_.bytes().data() + std::size_t{number} * slot_bytes_;
  }
  Status watch(int fd);
  std::size_t port_of(const NetAddress& address) const;
  void look_around();
  void take_device_events();
  // Where a packet goes; false: nowhere for now.
  bool route(const TxPacket& packet, DatagramRail::Outgoing& out);
  bool fill_way(DatagramNeighbor& neighbor, DatagramRail::Outgoing& out);
  bool read_header(const DatagramRail& rail, const DatagramNeighbor& neighbor, const ibv_wc& done,
                   RxPacket& out) const;
  std::size_t receive_from(std::uint16_t rail, std::span<RxPacket> out);
  bool translate(std::uint16_t rail, const ibv_wc& done, RxPacket& out);
  void give_up(const DatagramRail::Outgoing& packet);
  void send_held();

  VerbsOptions options_;
  PacketIoCaps caps_;
  VerbsPorts ports_;
  Pages out_;
  Registrations out_keys_;
  std::uint32_t slot_bytes_ = 0;
  std::vector<std::unique_ptr<DatagramRail>> rails_;
  std::vector<NetAddress> addresses_;
  DatagramNeighbors neighbors_;
  UniqueFd epoll_;
  std::vector<std::uint32_t> free_slots_;
  std::vector<std::uint32_t> reserved_;  // slots, in the order in which they were handed out
  std::vector<DatagramNeighbor*> known_;
  std::vector<DatagramRail::Outgoing> batch_;
  std::vector<DatagramRail::Outgoing> lost_;
  std::vector<IoError> errors_;
  std::size_t first_rail_ = 0;
  std::uint32_t turns_to_clock_ = 1;
  Time next_look_{};
  std::uint64_t sent_ = 0;
  std::uint64_t sent_bytes_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t received_bytes_ = 0;
  std::uint64_t lost_packets_ = 0;
  std::uint64_t strangers_ = 0;
  std::uint64_t link_changes_ = 0;
};

Status VerbsDatagrams::open() {
  std::vector<DevicePort> wanted = options_.devices;
  if (wanted.empty()) wanted.emplace_back();
  if (wanted.size() > kMaxVerbsPorts)
    return Error(ErrorCode::kUnsupported, "verbs: " + std::to_string(wanted.size()) +
                                              " devices for one endpoint; at most " +
                                              std::to_string(kMaxVerbsPorts));
  std::uint32_t largest = 0;
  std::uint64_t rate = 0;
  epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.is_open()) return Error(ErrorCode::kIo, "epoll_create1: " + in_words(errno));
  bool is_ethernet = true;
  for (const DevicePort& one : wanted) {
    auto port = VerbsPort::open(options_, one);
    if (!port.ok()) return port.error();
    largest = std::max(largest, port.value()->mtu());
    rate += port.value()->link_rate().bits_per_second();
    is_ethernet = is_ethernet && !port.value()->is_infiniband();
    if (Status status = watch(port.value()->context()->async_fd); !status.ok()) return status;
    ports_.push_back(std::move(port).value());
  }
  slot_bytes_ = static_cast<std::uint32_t>(kMaxHeaderBytes) + largest;
  auto pages = map_own_pages(std::size_t{kSlots} * slot_bytes_);
  if (!pages.ok()) return pages.error();
  out_ = std::move(pages).value();
  auto keys = Registrations::make(ports_, out_.bytes(), IBV_ACCESS_LOCAL_WRITE);
  if (!keys.ok()) return keys.error();
  out_keys_ = std::move(keys).value();
  for (std::uint32_t i = kSlots; i != 0; --i)
    free_slots_.push_back(i - 1);
  caps_.name = "verbs";
  caps_.max_packet_bytes = largest;
  caps_.frame_overhead_bytes = kFrameOverhead;
  caps_.receive_buffer_bytes = std::uint64_t{DatagramRail::kReceives} * largest;
  caps_.link_rate = Rate::bits_per_second(rate);
  const bool is_connected = options_.transport == VerbsTransport::kUc;
  caps_.entropies = static_cast<std::uint16_t>(is_connected ? options_.lanes : 1);
  // What is received by connected queue pairs comes without its IP header.
  caps_.has_ecn = is_ethernet && !is_connected;
  caps_.copies_on_send = true;
  return ok_status();
}

Status VerbsDatagrams::watch(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return ok_status();
  return Error(ErrorCode::kIo, "epoll_ctl: " + in_words(errno));
}

std::size_t VerbsDatagrams::port_of(const NetAddress& address) const {
  for (std::size_t i = 0; i < ports_.size(); ++i)
    for (const NetAddress& own : ports_[i]->addresses())
      if (own.is_same_host(address)) return i;
  return ports_.size();
}

Result<std::uint16_t> VerbsDatagrams::add_rail(const NetAddress& local) {
  const std::size_t port = port_of(local);
  if (port == ports_.size())
    return Error(ErrorCode::kInvalidArgument,
                 local.to_string() + " is no address of " + ports_.front()->describe() +
                     (ports_.size() > 1 ? " or the other device" : "") +
                     "; `ip addr` and `rdma link` show which are");
  auto rail = std::make_unique<DatagramRail>();
  NetAddress address = local;
  Status status = rail->open(ports_, port, options_, address, out_keys_);
  if (status.ok()) status = watch(rail->channel());
  if (status.ok()) status = watch(rail->socket());
  if (!status.ok()) return status.error();
  rails_.push_back(std::move(rail));
  addresses_.push_back(address);
  return static_cast<std::uint16_t>(rails_.size() - 1);
}

std::vector<NetAddress> VerbsDatagrams::expand(const NetAddress& wildcard) const {
  std::vector<NetAddress> out;
  for (const auto& port : ports_)
    for (NetAddress address : port->addresses()) {
      if (address.family != wildcard.family) continue;
      address.port = wildcard.port;
      out.push_back(address);
    }
  return out;
}

// The kernel knows the way: the network of the ports is its own as well.
Result<NetAddress> VerbsDatagrams::source_for(const NetAddress& remote) const {
  const UniqueFd socket(
      ::socket(remote.family == 4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  NetAddress to = remote;
  if (to.port == 0) to.port = kDefaultPort;
  SocketAddress address = to_socket_address(to);
  if (socket.is_open() && ::connect(socket.get(), address.get(), address.bytes) == 0) {
    SocketAddress own;
    if (::getsockname(socket.get(), own.get(), &own.bytes) == 0) {
      NetAddress source = to_net_address(own);
      source.port = 0;
      if (port_of(source) < ports_.size()) return source;
    }
  }
  return Error(ErrorCode::kNotFound,
               "no route to " + remote.to_string() + " leaves from " + ports_.front()->describe());
}

std::uint32_t VerbsDatagrams::max_packet_bytes(std::uint16_t rail,
                                               const NetAddress& /*remote*/) const {
  SPINDRIFT_CHECK(rail < rails_.size());
  return rails_[rail]->port().mtu();
}

Status VerbsDatagrams::open_entropies(std::uint16_t rail, std::uint16_t count) {
  SPINDRIFT_CHECK(rail < rails_.size());
  if (count <= caps_.entropies) return ok_status();
  return Error(ErrorCode::kInvalidArgument, std::to_string(count) + " paths asked for; transport=" +
                                                std::string(to_string(options_.transport)) +
                                                " has " + std::to_string(caps_.entropies));
}

std::size_t VerbsDatagrams::reserve(std::span<TxPacket> out) {
  free_slots_.insert(free_slots_.end(), reserved_.rbegin(), reserved_.rend());
  reserved_.clear();
  if (free_slots_.size() < out.size())
    for (const auto& rail : rails_)
      rail->take_sent(free_slots_);
  const std::size_t count = std::min(out.size(), free_slots_.size());
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t number = free_slots_.back();
    free_slots_.pop_back();
    reserved_.push_back(number);
    out[i] = TxPacket{};
    out[i].header = {slot(number), kMaxHeaderBytes};
  }
  return count;
}

void VerbsDatagrams::give_up(const DatagramRail::Outgoing& packet) {
  ++lost_packets_;
  free_slots_.push_back(packet.slot);
}

bool VerbsDatagrams::fill_way(DatagramNeighbor& neighbor, DatagramRail::Outgoing& out) {
  DatagramRail& rail = *rails_[neighbor.rail];
  if (rail.lanes() != 0) {
    out.by = neighbor.lanes[out.entropy % neighbor.paths].get();
    return !out.by->has_failed();
  }
  out.by = &rail.shared_lane();
  out.queue_pair = neighbor.card.queue_pair;
  out.key = neighbor.card.key;
  out.to = neighbors_.way(neighbor, rail, out.traffic_class,
                          static_cast<std::uint8_t>(options_.service_level));
  return out.to != nullptr;
}

// False: it has gone nowhere, or waits.
bool VerbsDatagrams::route(const TxPacket& packet, DatagramRail::Outgoing& out) {
  const DatagramRail& rail = *rails_[packet.rail];
  DatagramNeighbor& neighbor = neighbors_.find(packet.rail, *packet.to, rails_, next_look_);
  const std::uint32_t mtu = neighbor.is_known
                                ? std::min(rail.port().mtu(), mtu_bytes(neighbor.card.mtu))
                                : rail.port().mtu();
  if (out.bytes.length > mtu) {
    give_up(out);
    return false;
  }
  out.entropy = packet.entropy;
  out.traffic_class = static_cast<std::uint8_t>(
      (packet.dscp != 0 ? packet.dscp << 2 : options_.traffic_class & ~std::uint32_t{kEcnMask}) |
      static_cast<std::uint8_t>(packet.ecn));
  if (neighbor.is_known) {
    if (fill_way(neighbor, out)) return true;
    give_up(out);
    return false;
  }
  if (neighbor.held.size() >= kMostHeld) {
    give_up(out);
    return false;
  }
  neighbor.held.push_back(out);
  return false;
}

void VerbsDatagrams::send(std::span<const TxPacket> packets) {
  SPINDRIFT_CHECK(packets.size() <= reserved_.size());
  std::size_t index = 0;
  std::uint16_t rail = 0;
  batch_.clear();
  for (const TxPacket& packet : packets) {
    DatagramRail::Outgoing out{.slot = reserved_[index++]};
    out.bytes.bytes = slot(out.slot);
    const std::size_t total = packet.total_bytes();
    out.bytes.length = static_cast<std::uint32_t>(total);
    ++sent_;
    sent_bytes_ += total;
    if (total <= slot_bytes_) {
      std::byte* at = out.bytes.bytes + packet.header.size();
      for (std::size_t i = 0; i < packet.payload_pieces; ++i) {
        if (!packet.payload[i].empty())
          std::memcpy(at, packet.payload[i].data(), packet.payload[i].size());
        at += packet.payload[i].size();
      }
      std::memcpy(at, packet.trailer.data(), packet.trailer_bytes);
    }
    if (packet.rail != rail && !batch_.empty()) {
      rails_[rail]->post(batch_);
      batch_.clear();
    }
    rail = packet.rail;
    if (route(packet, out)) batch_.push_back(out);
  }
  if (!batch_.empty()) rails_[rail]->post(batch_);
  reserved_.erase(reserved_.begin(), reserved_.begin() + static_cast<std::ptrdiff_t>(index));
}

// To those whose queue pairs have become known.
void VerbsDatagrams::send_held() {
  for (DatagramNeighbor* const neighbor : known_) {
    batch_.clear();
    for (DatagramRail::Outgoing& one : neighbor->held) {
      if (fill_way(*neighbor, one))
        batch_.push_back(one);
      else
        give_up(one);
    }
    neighbor->held.clear();
    rails_[neighbor->rail]->post(batch_);
  }
  known_.clear();
}

void VerbsDatagrams::take_device_events() {
  for (std::size_t port = 0; port < ports_.size(); ++port) {
    ibv_async_event event{};
    while (ibv_get_async_event(ports_[port]->context(), &event) == 0) {
      const bool is_down = event.event_type == IBV_EVENT_PORT_ERR;
      const bool is_up = event.event_type == IBV_EVENT_PORT_ACTIVE;
      const bool is_ours = event.element.port_num == ports_[port]->number();
      ibv_ack_async_event(&event);
      if (!is_ours || (!is_up && !is_down)) continue;
      ++link_changes_;
      for (std::size_t rail = 0; rail < rails_.size(); ++rail)
        if (rails_[rail]->port_index() == port)
          errors_.push_back({.kind = is_up ? IoError::Kind::kLinkUp : IoError::Kind::kLinkDown,
                             .rail = static_cast<std::uint16_t>(rail)});
    }
  }
}

void VerbsDatagrams::look_around() {
  if (--turns_to_clock_ != 0) return;
  turns_to_clock_ = kTurnsBetweenClocks;
  const Time when = now();
  if (when < next_look_) return;
  next_look_ = when + kBetweenLooks;
  for (std::size_t rail = 0; rail < rails_.size(); ++rail)
    neighbors_.hear(static_cast<std::uint16_t>(rail), *rails_[rail], when, known_, errors_);
  send_held();
  neighbors_.tend(rails_, when, lost_, errors_);
  for (const DatagramRail::Outgoing& one : lost_)
    give_up(one);
  lost_.clear();
  take_device_events();
}

// Of a datagram. False: it comes from somewhere else than it says.
bool VerbsDatagrams::read_header(const DatagramRail& rail, const DatagramNeighbor& neighbor,
                                 const ibv_wc& done, RxPacket& out) const {
  if (done.byte_len < kDatagramHeaderBytes) return false;
  const std::span<const std::byte> bytes = rail.buffer(static_cast<std::uint32_t>(done.wr_id));
  out.bytes = bytes.subspan(kDatagramHeaderBytes, done.byte_len - kDatagramHeaderBytes);
  if ((done.wc_flags & IBV_WC_GRH) == 0) return done.slid == neighbor.card.lid;
  const DatagramHeader header = parse_datagram_header(bytes, rail.is_ipv4());
  out.ecn = static_cast<Ecn>(header.traffic_class & kEcnMask);
  out.dscp = header.traffic_class >> 2;
  return header.source == neighbor.card.gid;
}

// False: from nobody that we know.
bool VerbsDatagrams::translate(std::uint16_t rail, const ibv_wc& done, RxPacket& out) {
  const bool is_connected = rails_[rail]->lanes() != 0;
  if (done.status != IBV_WC_SUCCESS) {
    if (is_connected) neighbors_.fail_lane(rail, done.qp_num);
    return false;
  }
  const DatagramNeighbors::Sender from =
      neighbors_.sender(rail, is_connected ? done.qp_num : done.src_qp);
  if (from.neighbor == nullptr) return false;
  out.source = from.neighbor->address;
  out.rail = rail;
  out.buffer = static_cast<std::uint32_t>(done.wr_id);
  if (!is_connected) return read_header(*rails_[rail], *from.neighbor, done, out);
  // Queue pairs that are connected hear nobody else. The port that the packet really came from is
  // known to its sender alone: this one stands for the path.
  out.source.port = static_cast<std::uint16_t>(out.source.port + from.lane);
  out.bytes = rails_[rail]->buffer(out.buffer).first(done.byte_len);
  return true;
}

std::size_t VerbsDatagrams::receive(std::span<RxPacket> out) {
  look_around();
  std::size_t total = 0;
  for (std::size_t i = 0; i < rails_.size() && total < out.size(); ++i) {
    first_rail_ = first_rail_ + 1 < rails_.size() ? first_rail_ + 1 : 0;
    total += receive_from(static_cast<std::uint16_t>(first_rail_), out.subspan(total));
  }
  return total;
}

std::size_t VerbsDatagrams::receive_from(std::uint16_t rail, std::span<RxPacket> out) {
  Scratch<ibv_wc, 32> done;
  std::size_t total = 0;
  while (total < out.size()) {
    const std::size_t count =
        rails_[rail]->poll(std::span(done).first(std::min(done.size(), out.size() - total)));
    if (count == 0) break;
    const Time when = now();
    for (std::size_t k = 0; k < count; ++k) {
      RxPacket& packet = out[total];
      packet = RxPacket{};
      packet.arrival = when;
      if (translate(rail, done[k], packet)) {
        ++total;
        ++received_;
        received_bytes_ += packet.bytes.size();
        continue;
      }
      ++strangers_;
      rails_[rail]->give_back(static_cast<std::uint32_t>(done[k].wr_id));
    }
  }
  return total;
}

void VerbsDatagrams::release(std::span<const RxPacket> packets) {
  for (const RxPacket& packet : packets)
    rails_[packet.rail]->give_back(packet.buffer);
}

std::size_t VerbsDatagrams::poll_errors(std::span<IoError> out) {
  const std::size_t count = std::min(out.size(), errors_.size());
  std::copy_n(errors_.begin(), count, out.begin());
  errors_.erase(errors_.begin(), errors_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

void VerbsDatagrams::counters(CounterWriter& out) const {
  out.counter("tx_packets", sent_);
  out.counter("tx_bytes", sent_bytes_);
  out.counter("rx_packets", received_);
  out.counter("rx_bytes", received_bytes_);
  out.counter("tx_lost_packets", lost_packets_);
  out.counter("rx_strangers", strangers_);
  out.counter("neighbors_gone", neighbors_.gone());
  out.counter("neighbors_of_other_transport", neighbors_.of_other_transport());
  out.counter("verbs_lanes_mended", neighbors_.mended());
  out.counter("link_changes", link_changes_);
}

}  // namespace

Result<std::unique_ptr<PacketIo>> open_verbs_datagrams(const VerbsOptions& options) {
  auto io = std::make_unique<VerbsDatagrams>(options);
  const Status opened = io->open();
  if (!opened.ok()) return opened.error();
  return std::unique_ptr<PacketIo>(std::move(io));
}

}  // namespace spindrift
