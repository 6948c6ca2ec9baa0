#include "providers/verbs/datagram_lane.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "providers/verbs/verbs_greeting.h"
#include "providers/verbs/verbs_trouble.h"
#include "transport/base/check.h"

namespace spindrift {
namespace {

constexpr std::uint32_t kSignalEvery = 16;
constexpr std::uint8_t kHopLimit = 64;
static_assert((DatagramLane::kSends & (DatagramLane::kSends - 1)) == 0, "numbers of packets wrap");

}  // namespace

DatagramLane::~DatagramLane() {
  if (pair_ != nullptr) ibv_destroy_qp(pair_);
}

Status DatagramLane::make(const VerbsPort& port, const VerbsOptions& options, const Needs& needs) {
  port_ = &port;
  options_ = &options;
  needs_ = needs;
  order_.resize(kSends);
  ibv_qp_init_attr wish{};
  wish.send_cq = needs.sent;
  wish.recv_cq = needs.received;
  wish.srq = needs.buffers;
  wish.qp_type = needs.type;
  wish.cap = {.max_send_wr = kSends,
              .max_recv_wr = needs.receives,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  pair_ = ibv_create_qp(port.domain(), &wish);
  if (pair_ == nullptr)
    return Error(ErrorCode::kNoMemory, "verbs: " + port.describe() +
                                           " makes no queue pair for packets: " + in_words(errno) +
                                           "; " + memory_lock_advice(0));
  Status status = initialise();
  if (!status.ok() || needs.type != IBV_QPT_UD) return status;
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_RTR;
  status = set_state(to, 0, "open");
  to.qp_state = IBV_QPS_RTS;
  if (status.ok()) status = set_state(to, IBV_QP_SQ_PSN, "open");
  return status;
}

Status DatagramLane::set_state(ibv_qp_attr& to, int mask, const char* step) {
  const int error = ibv_modify_qp(pair_, &to, mask | IBV_QP_STATE);
  if (error == 0) return ok_status();
  return Error(ErrorCode::kIo, "verbs: " + port_->describe() + " could not " + step +
                                   " a queue pair for packets: " + in_words(error));
}

Status DatagramLane::initialise() {
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_INIT;
  to.pkey_index = static_cast<std::uint16_t>(options_->pkey_index);
  to.port_num = port_->number();
  to.qkey = needs_.key;
  const int last = needs_.type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
  return set_state(to, IBV_QP_PKEY_INDEX | IBV_QP_PORT | last, "initialise");
}

Status DatagramLane::connect(const Peer& peer, std::vector<std::uint32_t>& slots) {
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_RESET;
  Status status = set_state(to, 0, "reset");
  forget_under_way(slots);
  has_failed_ = false;
  if (status.ok()) status = initialise();
  to.qp_state = IBV_QPS_RTR;
  to.path_mtu = static_cast<ibv_mtu>(mtu_code(peer.mtu));
  to.dest_qp_num = peer.queue_pair;
  to.ah_attr.port_num = port_->number();
  to.ah_attr.sl = static_cast<std::uint8_t>(options_->service_level);
  to.ah_attr.dlid = peer.lid;
  to.ah_attr.is_global = 1;
  std::copy(peer.gid.begin(), peer.gid.end(), std::begin(to.ah_attr.grh.dgid.raw));
  to.ah_attr.grh.sgid_index = peer.gid_index;
  to.ah_attr.grh.hop_limit = kHopLimit;
  to.ah_attr.grh.traffic_class = static_cast<std::uint8_t>(options_->traffic_class);
  to.ah_attr.grh.flow_label = peer.flow_label;
  // Both directions begin at packet 0, whenever their ends do: a message that is one packet begins
  // anew whatever number it has.
  if (status.ok())
    status = set_state(to, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
                       "set up to receive");
  to.qp_state = IBV_QPS_RTS;
  if (status.ok()) status = set_state(to, IBV_QP_SQ_PSN, "set up to send");
  return status;
}

void DatagramLane::post(std::span<const OutgoingDatagram* const> packets, std::uint32_t local_key) {
  SPINDRIFT_CHECK(packets.size() <= kChain);
  // Filled below as far as they are used.
  std::array<ibv_send_wr, kChain> requests;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  std::array<ibv_sge, kChain> pieces;        // NOLINT(cppcoreguidelines-pro-type-member-init)
  for (std::size_t i = 0; i < packets.size(); ++i) {
    const OutgoingDatagram& one = *packets[i];
    pieces[i] = {.addr = reinterpret_cast<std::uintptr_t>(one.bytes.bytes),
                 .length = one.bytes.length,
                 .lkey = local_key};
    ibv_send_wr& request = requests[i];
    request = {};
    request.wr_id = std::uint64_t{needs_.number} << 32 | posted_;
    request.sg_list = &pieces[i];
    request.num_sge = one.bytes.length == 0 ? 0 : 1;
    request.opcode = IBV_WR_SEND;
    if (needs_.type == IBV_QPT_UD) {
      request.wr.ud.ah = one.to;
      request.wr.ud.remote_qpn = one.queue_pair;
      request.wr.ud.remote_qkey = one.key;
    }
    // Lanes of UC share the slots: none may sit on some that no completion will free.
    const bool is_last = needs_.type != IBV_QPT_UD && i + 1 == packets.size();
    if (++since_signal_ == kSignalEvery || is_last) {
      request.send_flags = IBV_SEND_SIGNALED;
      since_signal_ = 0;
    }
    if (i != 0) requests[i - 1].next = &request;
    order_[posted_++ % kSends] = one.slot;
  }
  ibv_send_wr* bad = nullptr;
  // What the device does not take is lost, like any datagram: its slots come back with the next, or
  // when the lane is connected anew.
  if (ibv_post_send(pair_, requests.data(), &bad) != 0) has_failed_ = true;
}

void DatagramLane::on_sent(std::uint64_t id, std::vector<std::uint32_t>& slots) {
  const auto last = static_cast<std::uint32_t>(id);
  while (ended_ != posted_ && static_cast<std::int32_t>(last - ended_) >= 0)
    slots.push_back(order_[ended_++ % kSends]);
}

void DatagramLane::forget_under_way(std::vector<std::uint32_t>& slots) {
  while (ended_ != posted_)
    slots.push_back(order_[ended_++ % kSends]);
  since_signal_ = 0;
}

}  // namespace spindrift
