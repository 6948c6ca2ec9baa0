// The engine's calls: messages, reads, status.
#include "sim/lane_fabric.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "sim/sim_io.h"
#include "transport/base/check.h"

namespace spindrift::sim {
namespace {

constexpr std::uint32_t kMaxPeers = 65535;
constexpr std::uint32_t kMaxPayload = 16384;
constexpr std::uint32_t kMaxRead = 1U << 20U;
// One more round trip costs less than a copy from here on.
constexpr std::uint32_t kReadFrom = 16384;
constexpr std::uint32_t kMaxHeld = 64;
// Room for messages of one connection at the other side, and reads that one may have under way.
constexpr std::uint64_t kSlots = 256;
constexpr std::size_t kReads = 64;

std::uint32_t bytes_of(std::span<const Sge> pieces) {
  std::uint32_t sum = 0;
  for (const Sge& piece : pieces)
    sum += piece.bytes;
  return sum;
}

}  // namespace

LaneFabric::LaneFabric(const Shape& shape, Network& network, const EventList& events)
    : shape_(shape), network_(network), events_(events), nics_(shape.nics) {
  caps_.name = "sim";
  caps_.max_peers = kMaxPeers;
  caps_.max_payload_bytes = kMaxPayload;
  caps_.max_read_bytes = kMaxRead;
  caps_.read_from_bytes = kReadFrom;
  caps_.max_held = kMaxHeld;
  caps_.max_lanes = shape.lanes;
  caps_.sprays_messages = true;
  caps_.link_rate = shape.link_rate;
  own_host_ = shape.all_nics[shape.first_nic].host;
  for (std::uint32_t nic = 0; nic < shape.all_nics.size(); ++nic)
    if (nic == 0 || shape.all_nics[nic].host != shape.all_nics[nic - 1].host)
      host_nics_.push_back(nic);
  host_nics_.push_back(static_cast<std::uint32_t>(shape.all_nics.size()));
}

LaneFabric::~LaneFabric() = default;

// --- messages ---

// The one that was asked for, or the next that has not failed. A connection that has none is gone.
LaneEnd& LaneFabric::lane_for(Connection& c, std::uint16_t asked) {
  if (asked == kControlLane && !c.control().has_failed) return c.control();
  const std::size_t count = c.lanes.size() - 1;
  for (std::size_t i = 0; i < count; ++i) {
    LaneEnd& lane = c.lanes[(asked + i) % count];
    if (!lane.has_failed) return lane;
  }
  return c.control();
}

void LaneFabric::push(Connection& c, LaneEnd& lane, LaneMessage message) {
  lane.out.push(std::move(message));
  put_to_work(c, lane);
}

void LaneFabric::push_control(Connection& c, LaneMessageKind kind,
                              std::span<const std::byte> payload) {
  LaneMessage message{.kind = kind,
                      .lane = kControlLane,
                      .payload_bytes = static_cast<std::uint32_t>(payload.size()),
                      .payload = {payload.begin(), payload.end()}};
  push(c, lane_for(c, kControlLane), std::move(message));
}

bool LaneFabric::post_send(Connection& c, const FabricOp& op) {
  if (c.is_gone) return true;  // into the void, as the engine is about to hear
  if (c.sent - c.released_by >= kSlots) {
    is_full_ = true;
    return false;
  }
  LaneMessage message{.header_bytes = static_cast<std::uint8_t>(op.header.size()),
                      .lane = op.lane,
                      .number = c.posted++,
                      .payload_bytes = bytes_of(op.local)};
  ++c.sent;
  std::copy(op.header.begin(), op.header.end(), message.header.begin());
  message.payload.reserve(message.payload_bytes);
  for (const Sge& piece : op.local)
    message.payload.insert(message.payload.end(), piece.data, piece.data + piece.bytes);
  push(c, lane_for(c, op.lane), std::move(message));
  return true;
}

bool LaneFabric::post_read(Connection& c, const FabricOp& op) {
  if (c.reads.size() >= kReads) {
    is_full_ = true;
    return false;
  }
  if (c.is_gone) {
    c.read_error = absl::StrCat(name_of(c.remote_host), " is gone: ", c.cause);
    reads_done_.push_back(
        {.peer = c.peer, .tag = op.tag, .lane = op.lane, .fault = FabricCompletion::Fault::kLost});
    return true;
  }
  if (c.lanes[op.lane].has_failed) {
    reads_done_.push_back(
        {.peer = c.peer, .tag = op.tag, .lane = op.lane, .fault = FabricCompletion::Fault::kLost});
    return true;
  }
  const auto bytes = std::as_bytes(op.remote);
  LaneMessage message{.kind = LaneMessageKind::kReadRequest,
                      .lane = op.lane,
                      .number = c.next_read++,
                      .payload_bytes = static_cast<std::uint32_t>(bytes.size()),
                      .payload = {bytes.begin(), bytes.end()}};
  c.reads[message.number] = {
      .tag = op.tag, .lane = op.lane, .local = {op.local.begin(), op.local.end()}};
  push(c, lane_for(c, op.lane), std::move(message));
  return true;
}

std::size_t LaneFabric::post(std::span<const FabricOp> ops) {
  std::size_t taken = 0;
  for (const FabricOp& op : ops) {
    Connection& c = of(op.peer);
    if (!(op.kind == FabricOp::Kind::kSend ? post_send(c, op) : post_read(c, op))) break;
    ++taken;
  }
  pump();
  return taken;
}

std::size_t LaneFabric::poll_connection(Connection& c, std::span<FabricCompletion> out) {
  std::size_t count = 0;
  for (; count < out.size() && c.held < kMaxHeld && c.held < c.arrived.size(); ++count) {
    const LaneMessage& message = c.arrived[c.held++];
    FabricCompletion& to = out[count];
    to.kind = FabricCompletion::Kind::kMessage;
    to.peer = c.peer;
    to.lane = message.lane;
    to.header = message.header;
    to.payload = message.payload;
  }
  if (count < out.size() && c.status.words != c.status_seen.words) {
    c.status_seen = c.status;
    out[count].kind = FabricCompletion::Kind::kStatus;
    out[count].peer = c.peer;
    ++count;
  }
  return count;
}

std::size_t LaneFabric::poll(std::span<FabricCompletion> out) {
  std::size_t count = 0;
  for (; count < out.size() && !reads_done_.empty(); ++count) {
    const ReadDone& done = reads_done_.front();
    out[count].kind = FabricCompletion::Kind::kRead;
    out[count].peer = done.peer;
    out[count].tag = done.tag;
    out[count].lane = done.lane;
    out[count].is_ok = done.fault == FabricCompletion::Fault::kNone;
    out[count].fault = done.fault;
    reads_done_.pop_front();
  }
  for (; count < out.size() && !lane_news_.empty(); ++count) {
    out[count].kind = FabricCompletion::Kind::kLane;
    out[count].peer = lane_news_.front().peer;
    out[count].lane = lane_news_.front().lane;
    out[count].is_ok = lane_news_.front().is_up;
    lane_news_.pop_front();
  }
  for (Connection* c : peers_)
    if (c != nullptr && c->can_poll()) count += poll_connection(*c, out.subspan(count));
  return count;
}

bool LaneFabric::has_news() const {
  if (!events_out_.empty() || !reads_done_.empty() || !lane_news_.empty()) return true;
  return std::any_of(peers_.begin(), peers_.end(), [](const Connection* c) {
    if (c == nullptr || !c->can_poll()) return false;
    const bool has_message = c->held < kMaxHeld && c->held < c->arrived.size();
    const bool has_end = c->is_gone && !c->is_gone_told && c->held == c->arrived.size();
    return has_message || has_end || c->status.words != c->status_seen.words;
  });
}

void LaneFabric::release(const FabricCompletion& message) {
  Connection& c = of(message.peer);
  SPINDRIFT_CHECK(c.held != 0);
  c.arrived.pop_front();
  --c.held;
  if (++c.released - c.released_told < kSlots / 4) return;
  show(c);  // tells of the room, too
  pump();
}

std::string LaneFabric::last_error(FabricPeer peer) const {
  return of(peer).read_error;
}

std::string LaneFabric::describe_lane(FabricPeer peer, std::uint16_t lane) const {
  const Connection& c = of(peer);
  return absl::StrCat("lane ", lane, " (NIC ", lane % shape_.nics,
                      c.lanes[lane].has_failed ? ", down: no acknowledgement in time)" : ")");
}

// --- what the sides show each other ---

// A status that has not left yet is overwritten: the latest counts.
void LaneFabric::show(Connection& c) {
  c.released_told = c.released;
  if (c.is_gone) return;
  LaneMessage message{.kind = LaneMessageKind::kStatus,
                      .lane = kControlLane,
                      .number = c.posted,
                      .version = ++c.shown_version,
                      .payload_bytes = sizeof(FabricStatus)};
  const auto bytes = std::as_bytes(std::span(c.shown.words));
  message.payload.assign(bytes.begin(), bytes.end());
  LaneEnd& lane = lane_for(c, kControlLane);
  if (LaneMessage* waiting = lane.out.unsent(LaneMessageKind::kStatus); waiting != nullptr)
    *waiting = std::move(message);
  else
    push(c, lane, std::move(message));
}

void LaneFabric::set_status(FabricPeer peer, const FabricStatus& status) {
  Connection& c = of(peer);
  c.shown = status;
  show(c);
  pump();
}

FabricStatus LaneFabric::status(FabricPeer peer) const {
  return of(peer).status;
}

// --- memory ---

Status LaneFabric::add_region(LocalKey region, std::span<std::byte> bytes) {
  regions_[region.value] = bytes;
  return ok_status();
}

void LaneFabric::remove_region(LocalKey region) {
  regions_.erase(region.value);
}

RemoteSpan LaneFabric::offer(FabricPeer /*peer*/, const Sge& piece) {
  return {.address = reinterpret_cast<std::uintptr_t>(piece.data),
          .key = piece.region.value,
          .bytes = piece.bytes};
}

LaneFabric::Reach LaneFabric::reach(FabricPeer peer) const {
  return {.reads_peer = true,
          .is_read_by_peer = true,
          .lanes = std::min(of(peer).lanes_wanted, shape_.lanes)};
}

void LaneFabric::append_wait_fds(std::vector<int>& /*out*/) const {}

void LaneFabric::counters(CounterWriter& out) const {
  std::uint64_t resent = resent_before_;
  for (const auto& c : connections_)
    if (c)
      for (const LaneEnd& lane : c->lanes)
        resent += lane.out.resent();
  out.counter("lane_packets", packets_);
  out.counter("lane_packets_resent", resent);
  out.counter("lane_naks", naks_);
  out.counter("lane_timeouts", timeouts_);
  out.counter("lanes_failed", lanes_failed_);
  out.counter("lanes_restored", lanes_restored_);
}

}  // namespace spindrift::sim
