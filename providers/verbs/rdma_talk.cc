// The connection by which two sides find each other over a queue pair that rdma_cm connects: each
// frame is a SEND into buffers that were posted before.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <sys/epoll.h>

#include "providers/monotonic_clock.h"
#include "providers/verbs/rdma_cm.h"
#include "providers/verbs/socket_address.h"
#include "providers/verbs/verbs_greeting.h"
#include "providers/verbs/verbs_talk.h"
#include "providers/verbs/verbs_trouble.h"

namespace spindrift {
namespace {

constexpr std::uint32_t kBuffers = 16;  // each way
constexpr std::size_t kBufferBytes = kMaxVerbsFrame;
constexpr int kResolveMs = 2000;
// The last words of a connection that ends are given so long to leave.
constexpr Duration kLastWords = std::chrono::milliseconds(100);
constexpr std::uint64_t kReceiveMark = 1ULL << 32U;  // in the ids of requests

Error refused(const std::string& step, int error) {
  return Error(ErrorCode::kIo, "verbs: rdma_cm could not " + step + ": " + in_words(error) +
                                   (error == ENODEV ? "; is the kernel's module rdma_ucm loaded, "
                                                      "and does that address belong to an RDMA "
                                                      "device?"
                                                    : ""));
}

NetAddress to_net_address(const sockaddr_storage& from) {
  SocketAddress address;
  address.storage = from;
  NetAddress out = to_net_address(address);
  out.port = 0;
  return out;
}

// Events of one id, without waiting for them.
class EventChannel {
 public:
  explicit EventChannel(const RdmaCm& cm) : cm_(cm) {}
  EventChannel(const EventChannel&) = delete;
  EventChannel& operator=(const EventChannel&) = delete;
  ~EventChannel() {
    if (channel_ != nullptr) cm_.destroy_event_channel(channel_);
  }
  Status open() {
    channel_ = cm_.create_event_channel();
    if (channel_ == nullptr) return refused("make a channel of events", errno);
    const int flags = ::fcntl(channel_->fd, F_GETFL);
    if (::fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK) != 0)
      return refused("make its channel of events wait for nobody", errno);
    return ok_status();
  }
  rdma_event_channel* get() const { return channel_; }
  // Null: there is none. To be acknowledged.
  rdma_cm_event* next() const {
    rdma_cm_event* event = nullptr;
    return cm_.get_cm_event(channel_, &event) == 0 ? event : nullptr;
  }

 private:
  const RdmaCm& cm_;
  rdma_event_channel* channel_ = nullptr;
};

class RdmaTalk final : public VerbsTalk {
 public:
  explicit RdmaTalk(const RdmaCm& cm) : cm_(cm), channel_(cm) {}
  RdmaTalk(const RdmaTalk&) = delete;
  RdmaTalk& operator=(const RdmaTalk&) = delete;
  ~RdmaTalk() override;

  Status dial(const NetAddress& remote);
  // Of a caller; `id` is ours from here on.
  Status take(rdma_cm_id* id);

  int fd() const override { return epoll_.get(); }
  Result<bool> is_dialed() override;
  NetAddress local() const override { return to_net_address(id_->route.addr.src_storage); }
  bool send(std::span<const std::byte> bytes) override;
  TcpGot receive(std::vector<std::byte>& out) override;

 private:
  Status watch(int fd);
  Status make_pair();
  Status post_receive(std::uint32_t buffer);
  Status on_event(rdma_cm_event_type event, int status);
  void take_events();
  void take_completions(std::vector<std::byte>* out);
  rdma_conn_param parameters() const {
    rdma_conn_param out{};
    out.retry_count = 7;
    out.rnr_retry_count = 7;  // as often as it takes
    return out;
  }
  std::byte* buffer_at(std::uint32_t number) { return bytes_.data() + number * kBufferBytes; }

  const RdmaCm& cm_;
  EventChannel channel_;
  UniqueFd epoll_;
  rdma_cm_id* id_ = nullptr;
  ibv_comp_channel* woken_by_ = nullptr;
  ibv_cq* queue_ = nullptr;
  ibv_mr* memory_ = nullptr;
  std::vector<std::byte> bytes_;  // received into, and then sent from
  std::vector<std::uint32_t> free_;
  bool is_connected_ = false;
  bool is_over_ = false;
  std::string trouble_;
};

RdmaTalk::~RdmaTalk() {
  if (id_ == nullptr) return;
  if (is_connected_ && !is_over_) {
    const Time limit = monotonic_now() + kLastWords;
    while (free_.size() != kBuffers && monotonic_now() < limit) {
      take_completions(nullptr);
      std::this_thread::yield();
    }
    cm_.disconnect(id_);
  }
  if (id_->qp != nullptr) cm_.destroy_qp(id_);
  if (memory_ != nullptr) ibv_dereg_mr(memory_);
  if (queue_ != nullptr) ibv_destroy_cq(queue_);
  if (woken_by_ != nullptr) ibv_destroy_comp_channel(woken_by_);
  cm_.destroy_id(id_);
}

Status RdmaTalk::watch(int fd) {
  if (!epoll_.is_open()) epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  if (!epoll_.is_open() || ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return refused("wait for its events (RLIMIT_NOFILE too low? see ulimit -n)", errno);
  return ok_status();
}

Status RdmaTalk::dial(const NetAddress& remote) {
  Status status = channel_.open();
  if (status.ok()) status = watch(channel_.get()->fd);
  if (!status.ok()) return status;
  if (cm_.create_id(channel_.get(), &id_, nullptr, RDMA_PS_TCP) != 0)
    return refused("make an id", errno);
  SocketAddress to = to_socket_address(remote);
  if (cm_.resolve_addr(id_, nullptr, to.get(), kResolveMs) != 0)
    return refused("look for a way to " + remote.to_string(), errno);
  return ok_status();
}

Status RdmaTalk::take(rdma_cm_id* id) {
  id_ = id;
  Status status = channel_.open();
  if (status.ok() && cm_.migrate_id(id_, channel_.get()) != 0)
    status = refused("take a caller", errno);
  if (status.ok()) status = watch(channel_.get()->fd);
  if (status.ok()) status = make_pair();
  if (!status.ok()) return status;
  rdma_conn_param accepted = parameters();
  if (cm_.accept(id_, &accepted) != 0) return refused("accept a caller", errno);
  is_connected_ = true;
  return ok_status();
}

// With its queue and its buffers, on the device that the way leads over.
Status RdmaTalk::make_pair() {
  woken_by_ = ibv_create_comp_channel(id_->verbs);
  if (woken_by_ == nullptr) return refused("make a channel of completions", errno);
  const int flags = ::fcntl(woken_by_->fd, F_GETFL);
  if (::fcntl(woken_by_->fd, F_SETFL, flags | O_NONBLOCK) != 0)
    return refused("make its channel of completions wait for nobody", errno);
  queue_ = ibv_create_cq(id_->verbs, 2 * kBuffers, nullptr, woken_by_, 0);
  if (queue_ == nullptr) return refused("make a completion queue", errno);
  ibv_qp_init_attr wish{};
  wish.qp_type = IBV_QPT_RC;
  wish.send_cq = queue_;
  wish.recv_cq = queue_;
  wish.sq_sig_all = 1;
  wish.cap.max_send_wr = kBuffers;
  wish.cap.max_recv_wr = kBuffers;
  wish.cap.max_send_sge = 1;
  wish.cap.max_recv_sge = 1;
  if (cm_.create_qp(id_, nullptr, &wish) != 0) return refused("make a queue pair", errno);
  bytes_.resize(std::size_t{2} * kBuffers * kBufferBytes);
  memory_ = ibv_reg_mr(id_->qp->pd, bytes_.data(), bytes_.size(), IBV_ACCESS_LOCAL_WRITE);
  if (memory_ == nullptr) return explain_registration(bytes_.size(), errno, "rdma_cm", false);
  static_cast<void>(ibv_req_notify_cq(queue_, 0));
  Status status = watch(woken_by_->fd);
  for (std::uint32_t i = 0; i < kBuffers && status.ok(); ++i) {
    free_.push_back(kBuffers + i);
    status = post_receive(i);
  }
  return status;
}

Status RdmaTalk::post_receive(std::uint32_t buffer) {
  ibv_sge piece{.addr = reinterpret_cast<std::uintptr_t>(buffer_at(buffer)),
                .length = kBufferBytes,
                .lkey = memory_->lkey};
  ibv_recv_wr request{};
  request.wr_id = kReceiveMark | buffer;
  request.sg_list = &piece;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(id_->qp, &request, &bad);
  return error == 0 ? ok_status() : Status(refused("post a buffer", error));
}

Status RdmaTalk::on_event(rdma_cm_event_type event, int status) {
  switch (event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      return cm_.resolve_route(id_, kResolveMs) == 0 ? ok_status()
                                                     : Status(refused("resolve a route", errno));
    case RDMA_CM_EVENT_ROUTE_RESOLVED: {
      if (Status made = make_pair(); !made.ok()) return made;
      rdma_conn_param wish = parameters();
      return cm_.connect(id_, &wish) == 0 ? ok_status() : Status(refused("connect", errno));
    }
    case RDMA_CM_EVENT_ESTABLISHED:
      is_connected_ = true;
      return ok_status();
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      is_over_ = true;
      return ok_status();
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
    case RDMA_CM_EVENT_ADDR_CHANGE:
      return ok_status();
    case RDMA_CM_EVENT_REJECTED:
      return Error(ErrorCode::kUnavailable,
                   "nothing answers there (rdma_cm): no process listens with cm=rdma");
    default:
      is_over_ = true;
      return Error(ErrorCode::kUnavailable,
                   std::string("nothing answers there (rdma_cm): ") + cm_.event_str(event) +
                       (status == 0 ? "" : ", " + in_words(std::abs(status))));
  }
}

void RdmaTalk::take_events() {
  while (rdma_cm_event* const event = channel_.next()) {
    const rdma_cm_event_type what = event->event;
    const int status = event->status;
    cm_.ack_cm_event(event);
    if (const Status taken = on_event(what, status); !taken.ok() && trouble_.empty())
      trouble_ = taken.error().message();
  }
}

Result<bool> RdmaTalk::is_dialed() {
  take_events();
  if (!trouble_.empty()) return Error(ErrorCode::kUnavailable, trouble_);
  return is_connected_;
}

void RdmaTalk::take_completions(std::vector<std::byte>* out) {
  if (queue_ == nullptr) return;
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  unsigned wakes = 0;
  while (ibv_get_cq_event(woken_by_, &queue, &context) == 0)
    ++wakes;
  if (wakes != 0) ibv_ack_cq_events(queue_, wakes);
  static_cast<void>(ibv_req_notify_cq(queue_, 0));
  std::array<ibv_wc, kBuffers> done{};
  for (;;) {
    const int count = ibv_poll_cq(queue_, static_cast<int>(done.size()), done.data());
    if (count <= 0) return;
    for (int i = 0; i < count; ++i) {
      const ibv_wc& one = done[static_cast<std::size_t>(i)];
      const auto buffer = static_cast<std::uint32_t>(one.wr_id);
      if (one.status != IBV_WC_SUCCESS) is_over_ = true;
      if ((one.wr_id & kReceiveMark) == 0) {
        free_.push_back(buffer);
      } else if (one.status == IBV_WC_SUCCESS) {
        const std::byte* const first = buffer_at(buffer);
        const std::size_t bytes = std::min<std::size_t>(one.byte_len, kBufferBytes);
        if (out != nullptr) out->insert(out->end(), first, first + bytes);
        if (!post_receive(buffer).ok()) is_over_ = true;
      }
    }
  }
}

bool RdmaTalk::send(std::span<const std::byte> bytes) {
  errno = EPIPE;
  if (!is_connected_ || is_over_ || bytes.size() > kBufferBytes || free_.empty()) return false;
  const std::uint32_t buffer = free_.back();
  std::copy(bytes.begin(), bytes.end(), buffer_at(buffer));
  ibv_sge piece{.addr = reinterpret_cast<std::uintptr_t>(buffer_at(buffer)),
                .length = static_cast<std::uint32_t>(bytes.size()),
                .lkey = memory_->lkey};
  ibv_send_wr request{};
  request.wr_id = buffer;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(id_->qp, &request, &bad);
  errno = error;
  if (error != 0) return false;
  free_.pop_back();
  return true;
}

TcpGot RdmaTalk::receive(std::vector<std::byte>& out) {
  const std::size_t before = out.size();
  take_events();
  take_completions(&out);
  // What came before the end is read first.
  if (out.size() != before) return TcpGot::kBytes;
  return is_over_ ? TcpGot::kEnd : TcpGot::kNothing;
}

class RdmaListener final : public VerbsListener {
 public:
  explicit RdmaListener(const RdmaCm& cm) : cm_(cm), channel_(cm) {}
  RdmaListener(const RdmaListener&) = delete;
  RdmaListener& operator=(const RdmaListener&) = delete;
  ~RdmaListener() override {
    if (id_ != nullptr) cm_.destroy_id(id_);
  }
  Status open(NetAddress& local) {
    if (Status status = channel_.open(); !status.ok()) return status;
    if (cm_.create_id(channel_.get(), &id_, nullptr, RDMA_PS_TCP) != 0)
      return refused("make an id", errno);
    SocketAddress address = to_socket_address(local);
    if (cm_.bind_addr(id_, address.get()) != 0 || cm_.listen(id_, SOMAXCONN) != 0)
      return refused("listen at " + local.to_string(), errno);
    local.port = ntohs(cm_.get_src_port(id_));
    return ok_status();
  }
  int fd() const override { return channel_.get()->fd; }
  Caller accept() override {
    while (rdma_cm_event* const event = channel_.next()) {
      rdma_cm_id* const id = event->id;
      const bool is_call = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
      cm_.ack_cm_event(event);
      if (!is_call) continue;
      auto talk = std::make_unique<RdmaTalk>(cm_);
      // One that cannot be taken hears that it is not.
      if (!talk->take(id).ok()) continue;
      NetAddress from = to_net_address(id->route.addr.dst_storage);
      return {.talk = std::move(talk), .from = from};
    }
    return {};
  }

 private:
  const RdmaCm& cm_;
  EventChannel channel_;
  rdma_cm_id* id_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<VerbsListener>> listen_by_rdma_cm(NetAddress& local) {
  const auto cm = RdmaCm::load();
  if (!cm.ok()) return cm.error();
  auto listener = std::make_unique<RdmaListener>(*cm.value());
  if (const Status opened = listener->open(local); !opened.ok()) return opened.error();
  return std::unique_ptr<VerbsListener>(std::move(listener));
}

Result<std::unique_ptr<VerbsTalk>> dial_by_rdma_cm(const NetAddress& remote) {
  const auto cm = RdmaCm::load();
  if (!cm.ok()) return cm.error();
  auto talk = std::make_unique<RdmaTalk>(*cm.value());
  if (const Status dialed = talk->dial(remote); !dialed.ok()) return dialed.error();
  return std::unique_ptr<VerbsTalk>(std::move(talk));
}

}  // namespace spindrift
