#include "providers/verbs/datagram_rail.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "providers/verbs/socket_address.h"
#include "providers/verbs/verbs_trouble.h"
#include "transport/base/random.h"

namespace spindrift {
namespace {

constexpr std::uint32_t kSignalEvery = 16;
constexpr std::size_t kChain = 32;
constexpr std::uint32_t kPostAtOnce = 32;
// The highest bit would make it a privileged one.
constexpr std::uint32_t kKeyMask = 0x7fffffff;

}  // namespace

DatagramRail::~DatagramRail() {
  if (pair_ != nullptr) ibv_destroy_qp(pair_);
  if (sent_ != nullptr) ibv_destroy_cq(sent_);
  if (received_ != nullptr) {
    static_cast<void>(arm());  // acknowledges what is left
    ibv_destroy_cq(received_);
  }
  if (channel_ != nullptr) ibv_destroy_comp_channel(channel_);
}

Status DatagramRail::open(const VerbsPorts& ports, std::size_t port, const VerbsOptions& options,
                          NetAddress& address, const Registrations& out) {
  port_ = ports[port].get();
  port_index_ = port;
  out_key_ = out.local_key(port);
  is_ipv4_ = address.family == 4;
  gid_ = port_->is_infiniband() ? port_->gid().entry.gid : gid_of(address);
  const auto index = port_->index_of(gid_);
  if (!index || *index > 255)
    return Error(ErrorCode::kInvalidArgument,
                 address.to_string() + " has no GID of " + port_->describe());
  gid_index_ = static_cast<std::uint8_t>(*index);
  Status status = open_socket(address);
  if (!status.ok()) return status;
  buffer_bytes_ = static_cast<std::uint32_t>(kDatagramHeaderBytes) + port_->mtu();
  auto pages = OwnPages::make(std::size_t{kReceives} * buffer_bytes_);
  if (!pages.ok()) return pages.error();
  in_ = std::move(pages).value();
  auto keys = Registrations::make(ports, in_.bytes(), IBV_ACCESS_LOCAL_WRITE);
  if (!keys.ok()) return keys.error();
  in_keys_ = std::move(keys).value();
  order_.resize(kSends);
  for (std::uint32_t i = 0; i < kReceives; ++i)
    idle_.push_back(i);
  status = open_queue_pair(options);
  if (status.ok()) post_buffers();
  return status;
}

Status DatagramRail::open_socket(NetAddress& address) {
  socket_ = UniqueFd(::socket(address.family == 4 ? AF_INET : AF_INET6,
                              SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket_.is_open()) return Error(ErrorCode::kIo, "a UDP socket: " + in_words(errno));
  const int yes = 1;
  static_cast<void>(
      address.family == 4
          ? ::setsockopt(socket_.get(), IPPROTO_IP, IP_RECVERR, &yes, sizeof(yes))
          : ::setsockopt(socket_.get(), IPPROTO_IPV6, IPV6_RECVERR, &yes, sizeof(yes)));
  SocketAddress at = to_socket_address(address);
  if (::bind(socket_.get(), at.get(), at.bytes) != 0)
    return Error(errno == EADDRINUSE ? ErrorCode::kUnavailable : ErrorCode::kInvalidArgument,
                 address.to_string() + " (UDP): " + in_words(errno));
  at.bytes = sizeof(at.storage);
  if (::getsockname(socket_.get(), at.get(), &at.bytes) != 0)
    return Error(ErrorCode::kIo, address.to_string() + ": " + in_words(errno));
  address.port = to_net_address(at).port;
  return ok_status();
}

Status DatagramRail::set_state(ibv_qp_attr& to, int mask, const char* step) {
  const int error = ibv_modify_qp(pair_, &to, mask | IBV_QP_STATE);
  if (error == 0) return ok_status();
  return Error(ErrorCode::kIo, "verbs: " + port_->describe() + " could not " + step +
                                   " a datagram queue pair: " + in_words(error));
}

Status DatagramRail::open_queue_pair(const VerbsOptions& options) {
  channel_ = ibv_create_comp_channel(port_->context());
  if (channel_ != nullptr) {
    ::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
    sent_ = ibv_create_cq(port_->context(), kSends, nullptr, nullptr, 0);
    received_ = ibv_create_cq(port_->context(), kReceives, nullptr, channel_, 0);
  }
  if (sent_ == nullptr || received_ == nullptr)
    return Error(ErrorCode::kNoMemory,
                 "verbs: " + port_->describe() + " makes no completion queue: " + in_words(errno));
  ibv_qp_init_attr wish{};
  wish.send_cq = sent_;
  wish.recv_cq = received_;
  wish.qp_type = IBV_QPT_UD;
  wish.cap = {.max_send_wr = kSends,
              .max_recv_wr = kReceives,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  pair_ = ibv_create_qp(port_->domain(), &wish);
  if (pair_ == nullptr)
    return Error(ErrorCode::kNoMemory, "verbs: " + port_->describe() +
                                           " makes no datagram queue pair: " + in_words(errno) +
                                           "; " + memory_lock_advice(0));
  key_ = static_cast<std::uint32_t>(random_u64()) & kKeyMask;
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_INIT;
  to.pkey_index = static_cast<std::uint16_t>(options.pkey_index);
  to.port_num = port_->number();
  to.qkey = key_;
  Status status = set_state(to, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, "initialise");
  to.qp_state = IBV_QPS_RTR;
  if (status.ok()) status = set_state(to, 0, "open");
  to.qp_state = IBV_QPS_RTS;
  if (status.ok()) status = set_state(to, IBV_QP_SQ_PSN, "open");
  return status;
}

DatagramCard DatagramRail::card() const {
  return {.queue_pair = pair_->qp_num,
          .key = key_,
          .gid = gid_,
          .lid = port_->attributes().lid,
          .mtu = mtu_code(port_->mtu())};
}

void DatagramRail::post(std::span<const Outgoing> packets) {
  std::array<ibv_send_wr, kChain> requests;
  std::array<ibv_sge, kChain> pieces;
  while (!packets.empty()) {
    const std::size_t count = std::min(packets.size(), kChain);
    for (std::size_t i = 0; i < count; ++i) {
      const Outgoing& one = packets[i];
      pieces[i] = {.addr = reinterpret_cast<std::uintptr_t>(one.bytes.bytes),
                   .length = one.bytes.length,
                   .lkey = out_key_};
      ibv_send_wr& request = requests[i];
      request = {};
      request.wr_id = posted_;
      request.sg_list = &pieces[i];
      request.num_sge = one.bytes.length == 0 ? 0 : 1;
      request.opcode = IBV_WR_SEND;
      request.wr.ud.ah = one.to;
      request.wr.ud.remote_qpn = one.queue_pair;
      request.wr.ud.remote_qkey = one.key;
      if (++since_signal_ == kSignalEvery) {
        request.send_flags = IBV_SEND_SIGNALED;
        since_signal_ = 0;
      }
      if (i != 0) requests[i - 1].next = &request;
      order_[posted_++ % kSends] = one.slot;
      ++under_way_;
    }
    ibv_send_wr* bad = nullptr;
    // What the device does not take is lost, like any datagram: its slots come back with the next.
    static_cast<void>(ibv_post_send(pair_, requests.data(), &bad));
    packets = packets.subspan(count);
  }
}

void DatagramRail::take_sent(std::vector<std::uint32_t>& slots) {
  std::array<ibv_wc, 16> done;
  const int count = ibv_poll_cq(sent_, static_cast<int>(done.size()), done.data());
  for (int i = 0; i < count; ++i)
    while (ended_ <= done[static_cast<std::size_t>(i)].wr_id) {
      slots.push_back(order_[ended_++ % kSends]);
      --under_way_;
    }
}

std::size_t DatagramRail::poll(std::span<ibv_wc> out) {
  int count = ibv_poll_cq(received_, static_cast<int>(out.size()), out.data());
  if (count == 0 && !is_armed_ && !out.empty() && arm())
    count = ibv_poll_cq(received_, static_cast<int>(out.size()), out.data());
  if (count <= 0) return 0;
  is_armed_ = false;
  return static_cast<std::size_t>(count);
}

bool DatagramRail::arm() {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  while (ibv_get_cq_event(channel_, &queue, &context) == 0)
    ibv_ack_cq_events(queue, 1);
  is_armed_ = ibv_req_notify_cq(received_, 0) == 0;
  return is_armed_;
}

void DatagramRail::give_back(std::uint32_t buffer) {
  idle_.push_back(buffer);
  if (idle_.size() >= kPostAtOnce) post_buffers();
}

void DatagramRail::post_buffers() {
  std::array<ibv_recv_wr, kChain> requests;
  std::array<ibv_sge, kChain> pieces;
  while (!idle_.empty()) {
    std::size_t count = 0;
    for (; count < kChain && !idle_.empty(); ++count) {
      const std::uint32_t number = idle_.back();
      idle_.pop_back();
      pieces[count] = {.addr = reinterpret_cast<std::uintptr_t>(buffer(number).data()),
                       .length = buffer_bytes_,
                       .lkey = in_keys_.local_key(port_index_)};
      requests[count] = {.wr_id = number, .next = nullptr, .sg_list = &pieces[count], .num_sge = 1};
      if (count != 0) requests[count - 1].next = &requests[count];
    }
    ibv_recv_wr* bad = nullptr;
    static_cast<void>(ibv_post_recv(pair_, requests.data(), &bad));
  }
}

}  // namespace spindrift
