#include "providers/udp/udp_io.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include <netinet/udp.h>

#include "providers/monotonic_clock.h"
#include "providers/udp/udp_errors.h"
#include "providers/udp/udp_host.h"
#include "providers/udp/udp_receiver.h"
#include "providers/udp/udp_sender.h"
#include "providers/udp/udp_socket.h"
#include "transport/base/check.h"
#include "transport/base/url_options.h"

namespace spindrift {
namespace {

// A wake-up of a process costs 20-70 us, a turn over a full batch as much.
constexpr Duration kHostLatency = std::chrono::microseconds(150);
constexpr Duration kErrorPollInterval = std::chrono::microseconds(100);

// What a socket of this host gets.
struct SocketGrant {
  std::uint64_t receive_buffer_bytes = 0;
  bool has_gso = false;
  bool has_gro = false;
};

// SO_RCVBUF counts memory, not payload, and the kernel sets twice what is asked for because a
// packet of moderate size takes up to twice its payload (1400 bytes: 2304). Half is therefore what
// may be promised for packets from 1 KiB up; a super-packet needs little more than its payload, a
// 64-byte packet 768 bytes.
std::uint64_t payload_bytes_of(std::uint64_t socket_buffer_bytes) {
  return socket_buffer_bytes / 2;
}

Result<SocketGrant> try_socket(const UdpOptions& options) {
  UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) fd = UniqueFd(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) {
    return Error(ErrorCode::kUnsupported,
                 "no UDP socket can be opened here (no IP, or out of file descriptors)");
  }
  SocketGrant grant;
  grant.receive_buffer_bytes =
      payload_bytes_of(set_receive_buffer(fd.get(), options.receive_buffer_bytes));
  int segment_bytes = 0;
  socklen_t length = sizeof segment_bytes;
  grant.has_gso = options.has_gso &&
                  getsockopt(fd.get(), IPPROTO_UDP, UDP_SEGMENT, &segment_bytes, &length) == 0;
  grant.has_gro = options.has_gro && set_gro(fd.get());
  return grant;
}

class UdpIo final : public PacketIo {
 public:
  UdpIo(const UdpOptions& options, const SocketGrant& grant);
  Status open() { return errors_.open(); }

  const PacketIoCaps& caps() const override { return caps_; }
  Time now() const override { return monotonic_now(); }
  Result<std::uint16_t> add_rail(const NetAddress& local) override;
  std::span<const NetAddress> rails() const override { return addresses_; }
  std::vector<NetAddress> expand(const NetAddress& wildcard) const override;
  Result<NetAddress> source_for(const NetAddress& remote) const override {
    return source_address_for(remote);
  }
  std::uint32_t max_packet_bytes(std::uint16_t rail, const NetAddress& remote) const override;
  Status open_entropies(std::uint16_t rail, std::uint16_t count) override;
  std::size_t receive(std::span<RxPacket> out) override;
  void release(std::span<const RxPacket> packets) override { receiver_.release(packets); }
  std::size_t reserve(std::span<TxPacket> out) override { return sender_.reserve(rails_, out); }
  void send(std::span<const TxPacket> packets) override { sender_.send(rails_, packets); }
  std::uint64_t released() const override { return sender_.released(); }
  std::size_t poll_errors(std::span<IoError> out) override;
  void append_wait_fds(std::vector<int>& out) const override;
  bool has_unsent() const override { return sender_.has_unsent(); }
  void counters(CounterWriter& out) const override;

 private:
  UdpOptions options_;
  SocketGrant grant_;
  PacketIoCaps caps_;
  std::vector<UdpRail> rails_;
  std::vector<NetAddress> addresses_;
  UdpReceiver receiver_;
  UdpSender sender_;
  UdpErrors errors_;
  Time next_error_poll_{};
  std::uint64_t gro_refused_ = 0;
};

UdpIo::UdpIo(const UdpOptions& options, const SocketGrant& grant)
    : options_(options), grant_(grant) {
  caps_.name = "udp";
  caps_.max_packet_bytes = kMaxUdpPayloadBytes;
  if (grant.has_gso) {
    caps_.max_burst_bytes = UdpSender::kMaxSuperPacketBytes;
    caps_.max_burst_packets = UdpSender::kMaxSegments;
  }
  caps_.batch = 64;
  caps_.entropies = kMaxPaths;
  caps_.receive_buffer_bytes = grant.receive_buffer_bytes;
  caps_.host_latency = kHostLatency;
  caps_.has_ecn = true;
  // False only while the kernel is behind: released() tells.
  caps_.copies_on_send = false;
}

Result<std::uint16_t> UdpIo::add_rail(const NetAddress& local) {
  if (!local.is_set() || local.is_wildcard()) {
    return Error(ErrorCode::kInvalidArgument, "a rail needs one address of this host; " +
                                                  local.to_string() + " stands for several");
  }
  auto opened = open_receive_socket(local, options_);
  if (!opened.ok()) return opened.error();
  UdpRail rail;
  rail.receive = std::move(opened).value();
  if (grant_.has_gro && !set_gro(rail.receive.get())) ++gro_refused_;
  rail.has_gso = grant_.has_gso;
  rail.local = local_address_of(rail.receive.get());
  rail.local.scope = local.scope;
  const Rate link_rate = link_rate_of(local);
  // With several rails, the slowest known.
  if (caps_.link_rate.is_unlimited() ||
      (!link_rate.is_unlimited() && link_rate < caps_.link_rate)) {
    caps_.link_rate = link_rate;
  }
  addresses_.push_back(rail.local);
  rails_.push_back(std::move(rail));
  return static_cast<std::uint16_t>(rails_.size() - 1);
}

std::vector<NetAddress> UdpIo::expand(const NetAddress& wildcard) const {
  std::vector<NetAddress> result = local_addresses(wildcard.family);
  for (NetAddress& address : result)
    address.port = wildcard.port;
  return result;
}

std::uint32_t UdpIo::max_packet_bytes(std::uint16_t rail, const NetAddress& remote) const {
  SPINDRIFT_CHECK(rail < rails_.size());
  return route_max_packet_bytes(rails_[rail].local, remote);
}

Status UdpIo::open_entropies(std::uint16_t rail, std::uint16_t count) {
  SPINDRIFT_CHECK(rail < rails_.size());
  if (count > caps_.entropies) {
    return Error(ErrorCode::kInvalidArgument, std::to_string(count) +
                                                  " entropies asked for, udp has at most " +
                                                  std::to_string(caps_.entropies));
  }
  std::vector<UniqueFd>& sockets = rails_[rail].send;
  while (sockets.size() < count) {
    auto opened = open_send_socket(rails_[rail].local, options_);
    if (!opened.ok()) return opened.error();
    const auto entropy = static_cast<std::uint16_t>(sockets.size());
    auto watched = errors_.watch(opened.value().get(), rail, entropy);
    if (!watched.ok()) return watched;
    sockets.push_back(std::move(opened).value());
  }
  return ok_status();
}

std::size_t UdpIo::receive(std::span<RxPacket> out) {
  if (sender_.has_unsent()) sender_.flush(rails_);
  return receiver_.receive(rails_, out);
}

// A system call, so not in every turn: at once after a send that failed, else now and then.
std::size_t UdpIo::poll_errors(std::span<IoError> out) {
  const Time now = monotonic_now();
  if (!sender_.take_has_failed() && now < next_error_poll_) return 0;
  const std::size_t count = errors_.poll(rails_, out);
  for (const UdpErrors::Readable& one : errors_.readable())
    receiver_.take_answers(rails_[one.rail].send[one.entropy].get(), one.rail);
  errors_.readable().clear();
  const bool may_have_more = count == out.size();
  next_error_poll_ = may_have_more ? now : now + kErrorPollInterval;
  return count;
}

void UdpIo::append_wait_fds(std::vector<int>& out) const {
  for (const UdpRail& rail : rails_)
    out.push_back(rail.receive.get());
  out.push_back(errors_.wait_fd());
}

void UdpIo::counters(CounterWriter& out) const {
  sender_.counters(out);
  receiver_.counters(out);
  errors_.counters(out);
  std::uint64_t kernel_drops = 0;
  for (const UdpRail& rail : rails_)
    kernel_drops += dropped_by_kernel(rail.receive.get());
  out.counter("rx_overflow_packets", kernel_drops);
  out.counter("gro_refused", gro_refused_);
}

Result<std::unique_ptr<PacketIo>> open_from_url(const Url& url) {
  Settings settings;
  const Status taken = take_url_options(url, TunableScope::kUdp, settings);
  if (!taken.ok()) return taken.error();
  for (const std::string& warning : warn_about_udp(settings.udp)) {
    std::fprintf(stderr, "spindrift: %s\n", warning.c_str());
  }
  return open_udp(settings.udp);
}

Status probe() {
  const auto grant = try_socket(UdpOptions{});
  if (!grant.ok()) return grant.error();
  return ok_status();
}

}  // namespace

Result<std::unique_ptr<PacketIo>> open_udp(const UdpOptions& options) {
  const auto grant = try_socket(options);
  if (!grant.ok()) return grant.error();
  auto io = std::make_unique<UdpIo>(options, grant.value());
  const auto opened = io->open();
  if (!opened.ok()) return opened.error();
  return std::unique_ptr<PacketIo>(std::move(io));
}

std::vector<std::string> warn_about_udp(const UdpOptions& options) {
  std::vector<std::string> warnings;
  const auto grant = try_socket(options);
  if (!grant.ok()) return warnings;
  if (grant.value().receive_buffer_bytes < options.receive_buffer_bytes) {
    warnings.push_back("udp receive buffers hold " +
                       std::to_string(grant.value().receive_buffer_bytes) + " bytes instead of " +
                       std::to_string(options.receive_buffer_bytes) +
                       ", which costs bandwidth; run `sysctl -w net.core.rmem_max=" +
                       std::to_string(options.receive_buffer_bytes) + "`");
  }
  return warnings;
}

const ProviderInfo& udp_provider() {
  static constexpr ProviderInfo kInfo{"udp", "UDP sockets with GSO and GRO; works everywhere",
                                      open_from_url, probe};
  return kInfo;
}

}  // namespace spindrift
