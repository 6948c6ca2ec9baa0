#include "providers/verbs/queue_pair.h"

#include <algorithm>
#include <cerrno>

#include "providers/verbs/verbs_trouble.h"
#include "transport/base/random.h"

namespace spindrift {
namespace {

constexpr std::uint32_t kQueueCapacity = 8192;
constexpr std::uint8_t kHopLimit = 64;
constexpr std::uint8_t kShortestNotReadyWait = 12;  // 0.64 ms, as most programs say
// Buffers are counted before they are needed, so that "not ready" is an error of the peer's; 7
// would be for ever.
constexpr std::uint8_t kNotReadyRetries = 6;
constexpr std::uint32_t kPacketMask = 0xffffff;

}  // namespace

CompletionQueues::~CompletionQueues() {
  take_wake_ups();
  for (const Queue& one : queues_)
    ibv_destroy_cq(one.queue);
}

Result<ibv_cq*> CompletionQueues::make(std::uint32_t count) {
  const auto most = static_cast<std::uint32_t>(port_.device().max_cqe);
  Queue made{.capacity = std::min(std::max(kQueueCapacity, count), most)};
  if (count <= made.capacity)
    made.queue = ibv_create_cq(port_.context(), static_cast<int>(made.capacity), nullptr,
                               port_.channel(), 0);
  if (made.queue == nullptr)
    return Error(ErrorCode::kNoMemory, "verbs: " + port_.describe() +
                                           " makes no completion queue for " +
                                           std::to_string(count) + " requests: " + in_words(errno) +
                                           "; it has " + std::to_string(queues_.size()) +
                                           " of this process already. Fewer connections, "
                                           "or smaller buffers= and lanes=");
  made.reserved = count;
  queues_.push_back(made);
  return made.queue;
}

Result<ibv_cq*> CompletionQueues::reserve(std::uint32_t count) {
  for (Queue& one : queues_) {
    if (one.capacity - one.reserved < count) continue;
    one.reserved += count;
    return one.queue;
  }
  return make(count);
}

void CompletionQueues::give_back(ibv_cq* queue, std::uint32_t count) {
  for (Queue& one : queues_)
    if (one.queue == queue) one.returned += count;
}

std::size_t CompletionQueues::poll(std::span<ibv_wc> out) {
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    next_ = next_ + 1 < queues_.size() ? next_ + 1 : 0;
    Queue& one = queues_[next_];
    const int count = ibv_poll_cq(one.queue, static_cast<int>(out.size()), out.data());
    if (count > 0) return static_cast<std::size_t>(count);
    one.reserved -= one.returned;
    one.returned = 0;
  }
  return 0;
}

void CompletionQueues::arm() {
  for (const Queue& one : queues_)
    static_cast<void>(ibv_req_notify_cq(one.queue, 0));
}

void CompletionQueues::take_wake_ups() {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  while (!queues_.empty() && ibv_get_cq_event(port_.channel(), &queue, &context) == 0)
    ibv_ack_cq_events(queue, 1);
}

QueuePair& QueuePair::operator=(QueuePair&& other) noexcept {
  std::swap(pair_, other.pair_);
  std::swap(port_, other.port_);
  std::swap(queues_, other.queues_);
  std::swap(options_, other.options_);
  std::swap(needs_, other.needs_);
  std::swap(card_, other.card_);
  std::swap(number_, other.number_);
  std::swap(inline_bytes_, other.inline_bytes_);
  std::swap(receives_, other.receives_);
  std::swap(posted_, other.posted_);
  return *this;
}

QueuePair::~QueuePair() {
  destroy();
}

void QueuePair::destroy() {
  if (pair_ == nullptr) return;
  ibv_cq* const queue = pair_->send_cq;
  static_cast<void>(ibv_destroy_qp(pair_));
  pair_ = nullptr;
  queues_->give_back(queue, needs_.sends + needs_.receives);
}

Status QueuePair::make(VerbsPort& port, CompletionQueues& queues, const VerbsOptions& options,
                       const QueuePairNeeds& needs, std::uint32_t number) {
  port_ = &port;
  queues_ = &queues;
  options_ = &options;
  needs_ = needs;
  number_ = number;
  const auto queue = queues.reserve(needs.sends + needs.receives);
  if (!queue.ok()) return queue.error();
  ibv_qp_init_attr wish{};
  wish.send_cq = queue.value();
  wish.recv_cq = queue.value();
  wish.qp_type = needs.type;
  wish.cap.max_send_wr = needs.sends;
  wish.cap.max_recv_wr = std::max(needs.receives, 1U);
  wish.cap.max_send_sge = needs.pieces;
  wish.cap.max_recv_sge = 1;
  wish.cap.max_inline_data = needs.inline_bytes;
  pair_ = ibv_create_qp(port.domain(), &wish);
  if (pair_ == nullptr && errno == EINVAL) {  // not every device sends so much inline
    wish.cap.max_inline_data = 0;
    pair_ = ibv_create_qp(port.domain(), &wish);
  }
  if (pair_ == nullptr) {
    const int error = errno;
    queues.give_back(queue.value(), needs.sends + needs.receives);
    return refused("make a queue pair", error, error == ENOMEM ? memory_lock_advice(0) : "");
  }
  inline_bytes_ = wish.cap.max_inline_data;
  card_ = {.number = pair_->qp_num,
           .first_packet = static_cast<std::uint32_t>(random_u64()) & kPacketMask};
  posted_ = std::make_unique<Ring<PostedWork>>(needs.sends);
  receives_ = 0;
  return to_init(needs);
}

Error QueuePair::refused(const char* step, int error, const std::string& hint) const {
  return Error(ErrorCode::kIo, "verbs: " + port_->describe() + " could not " + step + ": " +
                                   in_words(error) + (hint.empty() ? "" : "; ") + hint);
}

Status QueuePair::to_init(const QueuePairNeeds& needs) {
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_INIT;
  to.pkey_index = static_cast<std::uint16_t>(options_->pkey_index);
  to.port_num = port_->number();
  to.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (needs.type == IBV_QPT_RC) to.qp_access_flags |= IBV_ACCESS_REMOTE_READ;
  const int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  const int error = ibv_modify_qp(pair_, &to, mask);
  if (error != 0)
    return refused("initialise a queue pair", error,
                   "pkey=" + std::to_string(options_->pkey_index) +
                       " must be an index in the port's P_Key table");
  return ok_status();
}

ibv_ah_attr QueuePair::address_of_peer(const PathTo& path, std::uint32_t gid_index) const {
  ibv_ah_attr out{};
  out.port_num = port_->number();
  out.sl = static_cast<std::uint8_t>(options_->service_level);
  out.dlid = path.port.lid;
  // Within one InfiniBand subnet the local address is enough.
  const auto& own = port_->gid().entry.gid;
  const bool is_far = !std::equal(own.begin(), own.begin() + 8, path.port.gid.begin());
  const bool needs_header = (port_->attributes().flags & IBV_QPF_GRH_REQUIRED) != 0;
  if (port_->is_infiniband() && !is_far && !needs_header && path.port.lid != 0) return out;
  out.is_global = 1;
  std::copy(path.port.gid.begin(), path.port.gid.end(), std::begin(out.grh.dgid.raw));
  out.grh.sgid_index = static_cast<std::uint8_t>(gid_index);
  out.grh.hop_limit = kHopLimit;
  out.grh.traffic_class = static_cast<std::uint8_t>(options_->traffic_class);
  out.grh.flow_label = path.flow_label;
  return out;
}

Status QueuePair::to_ready_to_receive(const PathTo& path, std::uint32_t gid_index) {
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_RTR;
  to.ah_attr = address_of_peer(path, gid_index);
  to.path_mtu = static_cast<ibv_mtu>(mtu_code(path.mtu));
  to.dest_qp_num = path.queue_pair.number;
  to.rq_psn = path.queue_pair.first_packet;
  int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (needs_.type == IBV_QPT_RC) {
    to.max_dest_rd_atomic = needs_.reads_answered;
    to.min_rnr_timer = kShortestNotReadyWait;
    mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  }
  const int error = ibv_modify_qp(pair_, &to, mask);
  if (error == 0) return ok_status();
  const std::string peer = address_of(path.port.gid).to_string();
  std::string hint = "the peer's GID " + peer.substr(0, peer.rfind(':')) + ", queue pair " +
                     std::to_string(path.queue_pair.number) + ", MTU " + std::to_string(path.mtu);
  if (error == ETIMEDOUT || error == EHOSTUNREACH)
    hint += ": nobody answers for that address on " + port_->gid().entry.interface +
            "; is it in the same network?";
  if (error == ENETUNREACH || error == ENODEV || error == EADDRNOTAVAIL)
    hint += ": there is no route to it from " + port_->gid().reason;
  return refused("set a queue pair up to receive", error, hint);
}

Status QueuePair::to_ready_to_send(const PathTo& path) {
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_RTS;
  to.sq_psn = card_.first_packet;
  int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (needs_.type == IBV_QPT_RC) {
    to.timeout = static_cast<std::uint8_t>(options_->timeout);
    to.retry_cnt = static_cast<std::uint8_t>(options_->retries);
    to.rnr_retry = kNotReadyRetries;
    to.max_rd_atomic = path.reads;
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  }
  const int error = ibv_modify_qp(pair_, &to, mask);
  if (error != 0) return refused("set a queue pair up to send", error, "");
  return ok_status();
}

Status QueuePair::connect(const PathTo& path, const GidBytes& own) {
  const auto index = port_->index_of(own);
  if (!index)
    return Error(ErrorCode::kUnavailable, "verbs: " + port_->describe() +
                                              " has lost its GID; did its interface lose the "
                                              "address?");
  Status status = to_ready_to_receive(path, *index);
  return status.ok() ? to_ready_to_send(path) : status;
}

void QueuePair::fail() {
  if (pair_ == nullptr) return;
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_ERR;
  static_cast<void>(ibv_modify_qp(pair_, &to, IBV_QP_STATE));
}

}  // namespace spindrift
