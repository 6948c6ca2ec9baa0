#include "providers/verbs/verbs_fabric.h"

#include <algorithm>
#include <array>

#include "providers/monotonic_clock.h"
#include "providers/verbs/verbs_trouble.h"
#include "transport/base/scratch.h"

namespace spindrift {
namespace {

constexpr std::uint32_t kMaxPeers = 65535;
constexpr std::uint32_t kLargestRead = 1U << 20U;
constexpr std::size_t kChain = 16;
constexpr std::size_t kWorkBatch = 32;
// Of one turn; what is left waits for the next.
constexpr std::size_t kWorkPerTurn = 256;

FabricCompletion::Fault fault_of(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return FabricCompletion::Fault::kNone;
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_LOC_LEN_ERR:
      return FabricCompletion::Fault::kRefused;
    default:
      return FabricCompletion::Fault::kLost;
  }
}

}  // namespace

Time VerbsFabric::now() const {
  return monotonic_now();
}

Status VerbsFabric::open() {
  if (options_.transport != VerbsTransport::kRc)
    return Error(ErrorCode::kUnsupported,
                 "verbs: transport=" + std::string(to_string(options_.transport)) +
                     " loses messages, and so carries packets; a reliable medium needs rc");
  if (options_.devices.size() > kMaxVerbsPorts)
    return Error(ErrorCode::kUnsupported, "verbs: " + std::to_string(options_.devices.size()) +
                                              " devices for one endpoint; at most " +
                                              std::to_string(kMaxVerbsPorts) +
                                              ". Open an endpoint for each");
  std::vector<DevicePort> wanted = options_.devices;
  if (wanted.empty()) wanted.emplace_back();
  std::uint64_t rate = 0;
  int pieces = static_cast<int>(kMaxSge);
  std::uint32_t reads = options_.reads;
  for (const DevicePort& one : wanted) {
    auto port = VerbsPort::open(options_, one);
    if (!port.ok()) return port.error();
    const ibv_device_attr& device = port.value()->device();
    pieces = std::min(pieces, device.max_sge_rd > 0 ? device.max_sge_rd : device.max_sge);
    reads = std::min(reads, static_cast<std::uint32_t>(std::max(device.max_qp_rd_atom, 1)));
    rate += port.value()->link_rate().bits_per_second();
    ports_.push_back(std::move(port).value());
    queues_.push_back(std::make_unique<CompletionQueues>(*ports_.back()));
  }
  reads_answered_ = static_cast<std::uint8_t>(reads);
  caps_.name = "verbs";
  caps_.max_peers = kMaxPeers;
  caps_.max_payload_bytes = MessageLane::kMaxPayload;
  caps_.max_read_bytes = kLargestRead;
  caps_.read_from_bytes = options_.read_from;
  caps_.max_read_local = static_cast<std::uint16_t>(std::max(pieces, 1));
  caps_.max_read_remote = 1;
  caps_.max_held = options_.buffers / 2;
  caps_.max_lanes = static_cast<std::uint16_t>(options_.lanes);
  caps_.link_rate = Rate::bits_per_second(rate);
  return open_descriptors();
}

unsigned VerbsFabric::region_access() const {
  const unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
  const bool is_relaxed = options_.relaxed_ordering != RelaxedOrdering::kOff;
  return access | (is_relaxed ? unsigned{IBV_ACCESS_RELAXED_ORDERING} : 0U);
}

Status VerbsFabric::add_region(LocalKey region, std::span<std::byte> bytes) {
  return regions_.add(ports_, region, bytes, region_access());
}

Status VerbsFabric::add_device_region(LocalKey region, std::span<std::byte> bytes, int dmabuf_fd) {
  return regions_.add(ports_, region, bytes, region_access(), dmabuf_fd);
}

RemoteSpan VerbsFabric::offer(FabricPeer /*peer*/, const Sge& piece) {
  RemoteSpan out{.address = reinterpret_cast<std::uintptr_t>(piece.data), .bytes = piece.bytes};
  if (const RegionTable::Region* const region = regions_.find(piece))
    out.key = regions_.offered_key(*region, ports_.size());
  return out;
}

MessageFabric::Reach VerbsFabric::reach(FabricPeer id) const {
  const VerbsPeer& peer = *peers_[id.value];
  return {.reads_peer = true,
          .is_read_by_peer = true,
          .lanes = static_cast<std::uint16_t>(std::max<std::size_t>(peer.lanes.size(), 1))};
}

void VerbsFabric::end_read(const VerbsPeer& peer, std::uint16_t lane, std::uint64_t tag,
                           FabricCompletion::Fault fault) {
  if (peer.is_dropped) return;
  if (fault == FabricCompletion::Fault::kLost) ++reads_lost_;
  ended_.push_back({.fault = fault,
                    .lane = lane,
                    .is_ok = fault == FabricCompletion::Fault::kNone,
                    .peer = peer.id,
                    .tag = tag});
}

// False: memory of ours that is named is not registered.
bool VerbsFabric::fill_read(const FabricOp& op, const VerbsLane& lane, ibv_send_wr& to,
                            std::span<ibv_sge> pieces) {
  std::size_t count = 0;
  for (const Sge& piece : op.local) {
    if (piece.bytes == 0) continue;
    const RegionTable::Region* const region = regions_.find(piece);
    if (region == nullptr || count == pieces.size()) return false;
    pieces[count++] = {.addr = reinterpret_cast<std::uintptr_t>(piece.data),
                       .length = piece.bytes,
                       .lkey = region->registrations.local_key(lane.port)};
    read_bytes_ += piece.bytes;
  }
  to = {};
  to.sg_list = pieces.data();
  to.num_sge = static_cast<int>(count);
  to.opcode = IBV_WR_RDMA_READ;
  to.send_flags = IBV_SEND_SIGNALED;
  to.wr.rdma.remote_addr = op.remote[0].address;
  const std::size_t peer_ports = peers_[op.peer.value]->theirs.ports.size();
  to.wr.rdma.rkey = key_for_port(op.remote[0].key, op.lane % peer_ports);
  return true;
}

// Reads of one lane that stand together, with one doorbell; how many were taken.
std::size_t VerbsFabric::post_reads(std::span<const FabricOp> ops) {
  Scratch<ibv_send_wr, kChain> requests;
  Scratch<std::array<ibv_sge, kMaxSge>, kChain> pieces;
  const FabricOp& first = ops.front();
  VerbsPeer& peer = *peers_[first.peer.value];
  VerbsLane& lane = peer.lanes[first.lane];
  std::size_t taken = 0;
  std::size_t count = 0;
  for (const FabricOp& op : ops) {
    const bool goes_along = op.kind == FabricOp::Kind::kRead && op.peer == first.peer &&
                            op.lane == first.lane && count < kChain;
    if (!goes_along) break;
    if (!lane.is_up()) {
      end_read(peer, op.lane, op.tag, FabricCompletion::Fault::kLost);
      ++taken;
      continue;
    }
    if (lane.pair.room() == 0) break;
    ++taken;
    if (!fill_read(op, lane, requests[count],
                   std::span(pieces[count]).first(caps_.max_read_local))) {
      peer.read_error = "reading the memory of " + peer.who +
                        ": the memory of this side that it would go to is not registered";
      end_read(peer, op.lane, op.tag, FabricCompletion::Fault::kRefused);
      continue;
    }
    requests[count].wr_id = lane.pair.id_of(0);
    lane.pair.note({.kind = PostedWork::Kind::kRead, .tag = op.tag});
    if (count != 0) requests[count - 1].next = &requests[count];
    ++count;
  }
  if (count == 0) return taken;
  ++doorbells_;
  requests_ += count;
  reads_ += count;
  if (const int error = lane.pair.post(requests.data()); error != 0)
    fail_lane(peer, first.lane, "the device takes no requests: " + in_words(error));
  return taken;
}

std::size_t VerbsFabric::post(std::span<const FabricOp> ops) {
  std::size_t taken = 0;
  MessageLane* last = nullptr;
  while (taken < ops.size()) {
    const FabricOp& op = ops[taken];
    if (op.kind == FabricOp::Kind::kRead) {
      const std::size_t count = post_reads(ops.subspan(taken));
      if (count == 0) break;
      taken += count;
      continue;
    }
    MessageLane& messages = peers_[op.peer.value]->messages;
    if (last != nullptr && last != &messages) last->pump();
    last = &messages;
    if (!messages.can_write()) {
      messages.pump();
      take_work();
      messages.seen();
      if (!messages.can_write()) break;
    }
    messages.write(op);
    ++taken;
  }
  if (last != nullptr) last->pump();
  return taken;
}

void VerbsFabric::release(const FabricCompletion& message) {
  peers_[message.peer.value]->messages.release(message);
}

void VerbsFabric::set_status(FabricPeer id, const FabricStatus& status) {
  VerbsPeer& peer = *peers_[id.value];
  if (peer.messages.is_made()) peer.messages.show(status);
}

FabricStatus VerbsFabric::status(FabricPeer id) const {
  VerbsPeer& peer = *peers_[id.value];
  return peer.messages.is_made() ? peer.messages.seen() : FabricStatus{};
}

void VerbsFabric::end_request(VerbsPeer& peer, std::uint16_t number, PostedWork work,
                              ibv_wc_status status) {
  switch (work.kind) {
    case PostedWork::Kind::kMessage:
    case PostedWork::Kind::kRecord:
      peer.messages.on_ended(work, status == IBV_WC_SUCCESS);
      return;
    case PostedWork::Kind::kProbe:
      if (work.tag != 0 || status != IBV_WC_SUCCESS)
        on_probed(peer, number, status == IBV_WC_SUCCESS);
      return;
    case PostedWork::Kind::kRead:
    case PostedWork::Kind::kWrite:
      end_read(peer, number, work.tag, fault_of(status));
      return;
  }
}

void VerbsFabric::on_received(VerbsPeer& peer, VerbsLane& lane, const ibv_wc& done) {
  lane.pair.end_receive();
  const std::uint32_t buffer = QueuePair::slot_of(done.wr_id);
  if (done.status != IBV_WC_SUCCESS) {
    peer.messages.on_unused(buffer);
    return;
  }
  if (peer.messages.on_received(buffer, done) == MessageLane::Got::kFine) return;
  ++nonsense_;
  lose(peer, "it sent what no version of this library sends");
}

void VerbsFabric::on_work(const ibv_wc& done) {
  ++completions_;
  PairOwner* owner = nullptr;
  VerbsLane* const lane = find(QueuePair::number_of(done.wr_id), owner);
  if (lane == nullptr) return;  // of a queue pair that is no more
  VerbsPeer& peer = *owner->peer;
  const std::uint16_t number = owner->lane;
  if (done.status != IBV_WC_SUCCESS && done.status != IBV_WC_WR_FLUSH_ERR) [[unlikely]]
    fail_lane(peer, number, explain_completion(done.status, done.vendor_err));
  if (QueuePair::is_receive(done.wr_id)) {
    on_received(peer, *lane, done);
  } else {
    // Those before it have succeeded, or they would have been told of themselves.
    while (!lane->pair.has_reached(done.wr_id)) {
      const PostedWork work = lane->pair.end_next();
      end_request(peer, number, work,
                  lane->pair.has_reached(done.wr_id) ? done.status : IBV_WC_SUCCESS);
    }
  }
  if (done.status != IBV_WC_SUCCESS && lane->is_up()) [[unlikely]]
    fail_lane(peer, number, "its device put it out of order");
  if (lane->state == VerbsLane::State::kEnding && lane->pair.is_idle()) [[unlikely]]
    on_ended(peer, number);
}

void VerbsFabric::take_work() {
  Scratch<ibv_wc, kWorkBatch> done;
  for (const auto& queues : queues_)
    for (std::size_t total = 0; total < kWorkPerTurn;) {
      const std::size_t count = queues->poll(done);
      for (std::size_t i = 0; i < count; ++i)
        on_work(done[i]);
      if (count < done.size()) break;
      total += count;
    }
}

std::size_t VerbsFabric::poll_peer(VerbsPeer& peer, std::span<FabricCompletion> out) const {
  std::size_t count = 0;
  MessageLane& messages = peer.messages;
  while (count < out.size() && messages.has_message() && messages.held() < caps_.max_held) {
    messages.take(out[count]);
    out[count++].peer = peer.id;
  }
  messages.tend();
  const FabricStatus now = messages.seen();
  if (count < out.size() && now.words != peer.told.words) {
    peer.told = now;
    out[count].kind = FabricCompletion::Kind::kStatus;
    out[count++].peer = peer.id;
  }
  return count;
}

std::size_t VerbsFabric::poll(std::span<FabricCompletion> out) {
  take_work();
  if (opening_ != 0) [[unlikely]]
    look_around();  // also where nobody asks for events
  std::size_t count = 0;
  for (; count < out.size() && ended_taken_ < ended_.size(); ++ended_taken_) {
    const Ended& one = ended_[ended_taken_];
    FabricCompletion& to = out[count++];
    to.kind = one.kind;
    to.fault = one.fault;
    to.is_ok = one.is_ok;
    to.lane = one.lane;
    to.peer = one.peer;
    to.tag = one.tag;
  }
  if (ended_taken_ == ended_.size() && ended_taken_ != 0) {
    ended_.clear();
    ended_taken_ = 0;
  }
  const std::size_t peers = open_peers_.size();
  // Also where peers have gone since: it is always one of those that there are.
  first_polled_ = first_polled_ + 1 < peers ? first_polled_ + 1 : 0;
  for (std::size_t i = 0; i < peers && count < out.size(); ++i) {
    std::size_t index = i + first_polled_;
    if (index >= peers) index -= peers;
    count += poll_peer(*open_peers_[index], out.subspan(count));
  }
  if (!dropped_.empty()) [[unlikely]]
    end_dropped(now());
  return count;
}

bool VerbsFabric::has_news(const VerbsPeer& peer) const {
  const MessageLane& messages = peer.messages;
  return (messages.has_message() && messages.held() < caps_.max_held) ||
         status(peer.id).words != peer.told.words;
}

// Of a peer that is gone: all that it sent has been polled.
bool VerbsFabric::has_drained(const VerbsPeer& peer) const {
  const auto is_ending = [](const VerbsLane& lane) {
    return lane.state == VerbsLane::State::kEnding;
  };
  return !peer.messages.is_made() ||
         (!peer.messages.has_message() && status(peer.id).words == peer.told.words &&
          !is_ending(peer.messages.lane) &&
          std::none_of(peer.lanes.begin(), peer.lanes.end(), is_ending));
}

bool VerbsFabric::arm() {
  for (const auto& queues : queues_) {
    queues->take_wake_ups();
    queues->arm();
  }
  set_timer();
  turns_to_look_ = 1;
  look_around();
  turns_to_look_ = 1;  // who wakes up looks again
  take_work();
  for (VerbsPeer* const peer : open_peers_)
    peer->messages.tend();
  return events_.empty() && ended_.empty() && gone_untold_ == 0 &&
         std::none_of(open_peers_.begin(), open_peers_.end(),
                      [this](const VerbsPeer* peer) { return has_news(*peer); });
}

void VerbsFabric::counters(CounterWriter& out) const {
  std::uint64_t doorbells = doorbells_;
  std::uint64_t requests = requests_;
  std::uint64_t repeated = repeated_;
  for (const VerbsPeer* const peer : open_peers_) {
    doorbells += peer->messages.doorbells();
    requests += peer->messages.requests();
    repeated += peer->messages.repeated();
  }
  out.counter("verbs_requests", requests);
  out.counter("verbs_doorbells", doorbells);
  out.counter("verbs_completions", completions_);
  out.counter("verbs_reads", reads_);
  out.counter("verbs_read_bytes", read_bytes_);
  out.counter("verbs_reads_lost", reads_lost_);
  out.counter("verbs_messages_repeated", repeated);
  out.counter("verbs_lanes_lost", lanes_lost_);
  out.counter("verbs_lanes_mended", lanes_mended_);
  out.counter("verbs_nonsense", nonsense_);
}

Result<std::unique_ptr<MessageFabric>> open_verbs_fabric(const VerbsOptions& options) {
  auto fabric = std::make_unique<VerbsFabric>(options);
  const Status opened = fabric->open();
  if (!opened.ok()) return opened.error();
  return std::unique_ptr<MessageFabric>(std::move(fabric));
}

}  // namespace spindrift
