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
#include "transport/base/scratch.h"

namespace spindrift {
namespace {

constexpr std::size_t kChain = DatagramLane::kChain;
constexpr std::uint32_t kPostAtOnce = 32;
// Also what lanes that ended have left there.
constexpr int kSentCapacity = 4 * static_cast<int>(DatagramLane::kSends);
// The highest bit would make it a privileged one.
constexpr std::uint32_t kKeyMask = 0x7fffffff;

}  // namespace

DatagramRail::~DatagramRail() {
  shared_.reset();
  if (buffers_ != nullptr) ibv_destroy_srq(buffers_);
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
  options_ = &options;
  port_index_ = port;
  out_key_ = out.local_key(port);
  lanes_ = options.transport == VerbsTransport::kUc ? options.lanes : 0;
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
  auto pages = map_own_pages(std::size_t{kReceives} * buffer_bytes_);
  if (!pages.ok()) return pages.error();
  in_ = std::move(pages).value();
  auto keys = Registrations::make(ports, in_.bytes(), IBV_ACCESS_LOCAL_WRITE);
  if (!keys.ok()) return keys.error();
  in_keys_ = std::move(keys).value();
  for (std::uint32_t i = 0; i < kReceives; ++i)
    idle_.push_back(i);
  status = open_queues();
  if (status.ok()) status = lanes_ == 0 ? open_shared_lane() : open_shared_buffers();
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

Status DatagramRail::open_queues() {
  channel_ = ibv_create_comp_channel(port_->context());
  if (channel_ != nullptr) {
    ::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
    sent_ = ibv_create_cq(port_->context(), kSentCapacity, nullptr, nullptr, 0);
    received_ = ibv_create_cq(port_->context(), kReceives, nullptr, channel_, 0);
  }
  if (sent_ == nullptr || received_ == nullptr)
    return Error(ErrorCode::kNoMemory,
                 "verbs: " + port_->describe() + " makes no completion queue: " + in_words(errno));
  return ok_status();
}

Status DatagramRail::open_shared_lane() {
  key_ = static_cast<std::uint32_t>(random_u64()) & kKeyMask;
  shared_ = std::make_unique<DatagramLane>();
  lane_of_[0] = shared_.get();
  return shared_->make(*port_, *options_,
                       {.type = IBV_QPT_UD,
                        .sent = sent_,
                        .received = received_,
                        .receives = kReceives,
                        .key = key_});
}

Status DatagramRail::open_shared_buffers() {
  ibv_srq_init_attr wish{};
  wish.attr.max_wr = kReceives;
  wish.attr.max_sge = 1;
  buffers_ = ibv_create_srq(port_->domain(), &wish);
  if (buffers_ != nullptr) return ok_status();
  return Error(ErrorCode::kUnsupported, "verbs: " + port_->describe() +
                                            " makes no shared receive queue, which transport=uc "
                                            "needs: " +
                                            in_words(errno) + "; use transport=ud");
}

Result<std::unique_ptr<DatagramLane>> DatagramRail::make_lane() {
  auto lane = std::make_unique<DatagramLane>();
  const std::uint32_t number = ++lanes_made_;
  const Status made = lane->make(*port_, *options_,
                                 {.type = IBV_QPT_UC,
                                  .sent = sent_,
                                  .received = received_,
                                  .buffers = buffers_,
                                  .number = number});
  if (!made.ok()) return made.error();
  lane_of_[number] = lane.get();
  return lane;
}

void DatagramRail::end_lane(std::unique_ptr<DatagramLane> lane) {
  lane_of_.erase(lane->number());
  lane->forget_under_way(freed_);
}

DatagramCard DatagramRail::card() const {
  DatagramCard card{.key = key_, .gid = gid_, .lid = port_->attributes().lid};
  if (shared_) card.queue_pair = shared_->queue_pair();
  card.mtu = mtu_code(port_->mtu());
  return card;
}

// Packets of one lane stay in order; lanes do not care for each other.
void DatagramRail::post(std::span<const Outgoing> packets) const {
  std::array<const Outgoing*, kChain> chain{};
  for (std::size_t first = 0; first < packets.size(); ++first) {
    DatagramLane* const lane = packets[first].by;
    const auto is_of_lane = [lane](const Outgoing& one) { return one.by == lane; };
    const auto before = packets.first(first);
    const bool is_done = std::any_of(before.begin(), before.end(), is_of_lane);
    if (is_done) continue;
    std::size_t count = 0;
    for (const Outgoing& one : packets.subspan(first)) {
      if (!is_of_lane(one)) continue;
      chain[count++] = &one;
      if (count < kChain) continue;
      lane->post(chain, out_key_);
      count = 0;
    }
    if (count != 0) lane->post(std::span(chain).first(count), out_key_);
  }
}

void DatagramRail::take_sent(std::vector<std::uint32_t>& slots) {
  Scratch<ibv_wc, 16> done;
  const int count = ibv_poll_cq(sent_, static_cast<int>(done.size()), done.data());
  for (int i = 0; i < count; ++i) {
    const ibv_wc& one = done[static_cast<std::size_t>(i)];
    const auto found = lane_of_.find(DatagramLane::number_of(one.wr_id));
    if (found == lane_of_.end()) continue;  // of a lane that has ended
    found->second->on_sent(one.wr_id, slots);
    if (one.status != IBV_WC_SUCCESS) found->second->fail();
  }
  slots.insert(slots.end(), freed_.begin(), freed_.end());
  freed_.clear();
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
  Scratch<ibv_recv_wr, kChain> requests;
  Scratch<ibv_sge, kChain> pieces;
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
    static_cast<void>(shared_ ? ibv_post_recv(shared_->pair(), requests.data(), &bad)
                              : ibv_post_srq_recv(buffers_, requests.data(), &bad));
  }
}

}  // namespace spindrift
