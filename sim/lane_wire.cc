// Packets of a LaneFabric: what leaves and what comes.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "sim/lane_fabric.h"
#include "sim/sim_io.h"
#include "transport/base/check.h"

namespace spindrift::sim {
namespace {

// While data is paused, as many may still leave: acknowledgements among them pass.
constexpr std::uint32_t kRoomWhilePaused = 8;

// The source ports from which a lane's is drawn, by the connection and its number.
constexpr std::uint32_t kFirstPort = 49152;
constexpr std::uint32_t kPorts = 16384;

std::uint16_t port_of(std::uint32_t connection, std::uint16_t lane) {
  const std::uint64_t key = (std::uint64_t{connection} << 16) | lane;
  const std::uint64_t mixed = (key ^ (key >> 13)) * 0x9E3779B97F4A7C15ULL;
  return static_cast<std::uint16_t>(kFirstPort + (mixed >> 40) % kPorts);
}

bool is_numbered(LaneMessageKind kind) {
  return kind == LaneMessageKind::kMessage || kind == LaneMessageKind::kFarewell;
}

// What RoCEv2 would add to a packet's share of a message.
std::uint32_t header_bytes_of(const LaneSegment& segment) {
  if (segment.offset != 0) return kLaneHeaderBytes;
  if (segment.message->kind == LaneMessageKind::kReadRequest)
    return kLaneHeaderBytes + kLaneReadBytes;
  if (segment.message->kind == LaneMessageKind::kReadData) return kLaneHeaderBytes + kLaneAckBytes;
  return kLaneHeaderBytes;
}

}  // namespace

// --- sending ---

void LaneFabric::put_to_work(Connection& c, LaneEnd& lane) {
  if (lane.is_queued || !lane.out.has_more()) return;
  lane.is_queued = true;
  nics_[nic_of(c, lane)].data.push_back({.connection = &c, .lane = &lane});
}

void LaneFabric::owe_ack(Connection& c, LaneEnd& lane) {
  if (std::exchange(lane.owes_ack, true)) return;
  nics_[nic_of(c, lane)].acks.push_back({.connection = &c, .lane = &lane});
}

bool LaneFabric::has_room(std::uint32_t nic, bool is_control) const {
  const std::uint32_t number = shape_.first_nic + nic;
  const bool is_paused = network_.is_nic_paused(number);
  if (is_paused && !is_control) return false;
  return network_.queued_at_nic(number) <
         shape_.nic_queue_packets + (is_paused ? kRoomWhilePaused : 0);
}

// Acknowledgements first, then a packet of each lane in turn.
void LaneFabric::pump() {
  for (std::uint32_t nic = 0; nic < shape_.nics; ++nic) {
    NicQueue& queue = nics_[nic];
    while (!queue.acks.empty() && has_room(nic, true)) {
      const LaneRef next = queue.acks.front();
      queue.acks.pop_front();
      next.lane->owes_ack = false;
      send_ack(next);
    }
    while (!queue.data.empty() && has_room(nic, false)) {
      const LaneRef next = queue.data.front();
      queue.data.pop_front();
      next.lane->is_queued = false;
      if (next.lane->out.has_more()) send_data(next);
      put_to_work(*next.connection, *next.lane);
    }
  }
}

void LaneFabric::on_room() {
  pump();
  if (has_detached_) remove_detached();
}

void LaneFabric::send_ack(LaneRef from) {
  LaneEnd& lane = *from.lane;
  const bool is_nak = std::exchange(lane.owes_nak, false);
  send(from,
       {.kind = is_nak ? LanePacketKind::kNak : LanePacketKind::kAck,
        .era = lane.in_era,
        .psn = lane.in.expected()},
       kLaneHeaderBytes + kLaneAckBytes, {});
}

void LaneFabric::send_data(LaneRef from) {
  const LaneSegment segment = from.lane->out.take(events_.now());
  note_deadline(from.lane->out.deadline());
  const LaneMessage& message = *segment.message;
  LaneHeader header{.message_kind = message.kind,
                    .header_bytes = message.header_bytes,
                    .is_last = segment.is_last,
                    .wants_ack = segment.wants_ack,
                    .is_carried = message.is_carried,
                    .message_lane = message.lane,
                    .era = from.lane->out_era,
                    .payload_bytes = message.payload_bytes,
                    .offset = segment.offset,
                    .psn = segment.psn,
                    .number = message.number,
                    .version = message.version};
  if (segment.offset == 0) header.header = message.header;
  std::span<const std::byte> payload;
  if (message.is_carried) {
    const std::uint32_t begin = std::max<std::uint32_t>(segment.offset, message.header_bytes);
    payload = std::span(message.payload)
                  .subspan(begin - message.header_bytes, segment.offset + segment.bytes - begin);
  }
  send(from, header, header_bytes_of(segment) + segment.bytes, payload);
}

void LaneFabric::send(const LaneRef& from, LaneHeader header, std::uint32_t frame_bytes,
                      std::span<const std::byte> payload) {
  const Connection& c = *from.connection;
  header.lane = from.lane->number;
  header.to = c.remote_id;
  header.from = c.number + 1;
  header.released = c.released;
  const PacketId id = network_.packets().take();
  if (!payload.empty()) network_.packets().keep_whole(id);
  Packet& to = network_.packets()[id];
  const std::uint32_t first = host_nics_[c.remote_host];
  const std::uint32_t nics = host_nics_[c.remote_host + 1] - first;
  to.udp_bytes = frame_bytes;
  to.wire_bytes = std::max(frame_bytes + shape_.frame_overhead_bytes, shape_.min_frame_bytes);
  // NICs of one rail or plane reach each other, and perhaps no others.
  const std::uint32_t nic = nic_of(c, *from.lane);
  to.source = shape_.first_nic + nic;
  to.destination = first + nic % nics;
  to.entropy = from.lane->number;  // its path, for who looks on
  to.tuple_hash = tuple_hash(to.source, to.destination, port_of(c.id, from.lane->number));
  to.traffic = header.kind == LanePacketKind::kData ? TrafficClass::kData : TrafficClass::kControl;
  to.is_lane = true;
  to.kept_bytes = static_cast<std::uint16_t>(sizeof(header) + payload.size());
  std::byte* bytes = network_.packets().bytes(id);
  std::memcpy(bytes, &header, sizeof(header));
  if (!payload.empty()) std::memcpy(bytes + sizeof(header), payload.data(), payload.size());
  ++packets_;
  network_.send(id);
}

void LaneFabric::on_time() {
  const Picoseconds now = events_.now();
  if (now < next_due_) return;
  next_due_ = kEndOfTime;
  for (const auto& holder : connections_) {
    if (!holder || holder->is_gone) continue;
    for (LaneEnd& lane : holder->lanes) {
      if (lane.out.deadline() <= now) {
        ++timeouts_;
        if (!lane.out.on_timeout(now)) fail_lane(*holder, lane);
        put_to_work(*holder, lane);
      }
      if (lane.retry_at <= now) try_lane(*holder, lane);
      note_deadline(std::min(lane.out.deadline(), lane.retry_at));
    }
  }
  if (has_detached_) remove_detached();
  pump();
}

// Messages that it had go by the others: they are known by their numbers, and come twice at most.
void LaneFabric::fail_lane(Connection& c, LaneEnd& lane) {
  if (!c.is_detached)
    lane.retry_at = events_.now() + (shape_.lane.retries + 1) * shape_.lane.timeout;
  std::vector<LaneMessage> left = lane.out.take_back();
  if (std::exchange(lane.is_on_trial, false)) return;
  ++lanes_failed_;
  lane.has_failed = true;
  // A call has no other way than the one that it is known by.
  if (c.phase == Connection::Phase::kCalling ||
      std::all_of(c.lanes.begin(), c.lanes.end(),
                  [](const LaneEnd& one) { return one.has_failed; })) {
    lose(c, absl::StrCat("a lane got no acknowledgement in ", shape_.lane.retries + 1, " tries of ",
                         shape_.lane.timeout / kMicrosecond,
                         " us (transport.lane_retries, transport.lane_timeout); is a link down?"));
    return;
  }
  for (LaneMessage& message : left)
    if (message.kind != LaneMessageKind::kReadRequest)
      push(c, lane_for(c, lane.number), std::move(message));
  tell_lane(c, lane);
  lose_reads(c, lane.number);
}

void LaneFabric::lose_reads(Connection& c, std::uint16_t lane) {
  if (c.reads.empty()) return;
  c.read_error = absl::StrCat(describe_lane(c.peer, lane), " to ", name_of(c.remote_host));
  for (auto read = c.reads.begin(); read != c.reads.end();) {
    if (read->second.lane != lane) {
      ++read;
      continue;
    }
    reads_done_.push_back({.peer = c.peer,
                           .tag = read->second.tag,
                           .lane = lane,
                           .fault = FabricCompletion::Fault::kLost});
    read = c.reads.erase(read);
  }
}

void LaneFabric::tell_lane(const Connection& c, const LaneEnd& lane) {
  if (lane.number == kControlLane || c.is_detached || c.phase != Connection::Phase::kOpen) return;
  lane_news_.push_back({.peer = c.peer, .lane = lane.number, .is_up = !lane.has_failed});
}

void LaneFabric::try_lane(Connection& c, LaneEnd& lane) {
  lane.retry_at = kEndOfTime;
  if (c.is_detached) return;
  lane.is_on_trial = true;
  ++lane.out_era;
  lane.out.restart();
  push(c, lane, {.kind = LaneMessageKind::kTrial, .lane = lane.number});
}

void LaneFabric::restore_lane(Connection& c, LaneEnd& lane) {
  ++lanes_restored_;
  lane.is_on_trial = false;
  lane.has_failed = false;
  tell_lane(c, lane);
}

// --- what comes ---

LaneConnection* LaneFabric::find(const LaneHeader& header, const Packet& packet) {
  const std::uint32_t host = shape_.all_nics[packet.source].host;
  if (header.to != 0) {
    const std::uint32_t number = header.to - 1;
    const std::uint32_t id = number % kMostConnections;
    Connection* c = id < connections_.size() ? connections_[id].get() : nullptr;
    return c != nullptr && c->number == number && c->remote_host == host ? c : nullptr;
  }
  const auto known = called_.find({host, header.from});
  if (known != called_.end()) return connections_[known->second].get();
  const bool is_call = header.kind == LanePacketKind::kData && header.psn == 0 &&
                       header.message_kind == LaneMessageKind::kCall;
  const auto listens = std::find(address_nics_.begin(), address_nics_.end(), packet.destination);
  if (!is_call || listens == address_nics_.end()) return nullptr;
  const auto made = new_connection(host);
  if (!made.ok()) return nullptr;  // the caller gives up
  Connection& c = *made.value();
  c.phase = Connection::Phase::kAsked;
  c.called = static_cast<std::uint16_t>(listens - address_nics_.begin());
  c.control_nic = packet.destination - shape_.first_nic;
  called_[{host, header.from}] = c.id;
  return &c;
}

void LaneFabric::deliver(std::uint32_t /*nic*/, PacketId id) {
  const std::byte* bytes = network_.packets().bytes(id);
  LaneHeader header;
  std::memcpy(&header, bytes, sizeof(header));
  Connection* c = find(header, network_.packets()[id]);
  if (c == nullptr) {
    network_.packets().give_back(id);
    return;
  }
  c->remote_id = header.from;
  c->released_by = std::max(c->released_by, header.released);
  LaneEnd& lane = header.lane == kControlLane ? c->control() : c->lanes[header.lane];
  if (header.kind == LanePacketKind::kData) {
    on_data(*c, lane, header, bytes + sizeof(header));
  } else if (header.era == lane.out_era && (!lane.has_failed || lane.is_on_trial)) {
    lane.out.on_ack(header.psn, header.kind == LanePacketKind::kNak, events_.now());
    if (lane.is_on_trial && lane.out.is_empty()) restore_lane(*c, lane);
    put_to_work(*c, lane);
  }
  network_.packets().give_back(id);
  if (has_detached_) remove_detached();
  pump();
}

void LaneFabric::on_data(Connection& c, LaneEnd& lane, const LaneHeader& header,
                         const std::byte* bytes) {
  if (header.era < lane.in_era) return;
  if (header.era > lane.in_era) {
    lane.in_era = header.era;
    lane.in.restart(header.psn);
  }
  const LaneReceiver::Verdict verdict = lane.in.judge(header.psn);
  if (verdict == LaneReceiver::Verdict::kGap) {
    if (!lane.in.tells_gap()) return;
    ++naks_;
    lane.owes_nak = true;
    owe_ack(c, lane);
    return;
  }
  if (header.wants_ack || verdict == LaneReceiver::Verdict::kDuplicate) owe_ack(c, lane);
  if (verdict == LaneReceiver::Verdict::kDuplicate) return;
  LaneMessage& message = lane.in.open_message();
  if (header.offset == 0) {
    message = LaneMessage{.kind = header.message_kind,
                          .header_bytes = header.header_bytes,
                          .is_carried = header.is_carried,
                          .lane = header.message_lane,
                          .number = header.number,
                          .version = header.version,
                          .payload_bytes = header.payload_bytes,
                          .header = header.header};
    if (header.is_carried) message.payload.reserve(header.payload_bytes);
  }
  if (header.is_carried) {
    const std::uint32_t here = std::max<std::uint32_t>(header.offset, header.header_bytes);
    const std::uint64_t end = std::min<std::uint64_t>(
        std::uint64_t{header.offset} + shape_.lane.mtu, message.stream_bytes());
    message.payload.insert(message.payload.end(), bytes, bytes + (end - here));
  }
  if (header.is_last) on_message(c, std::move(message));
}

void LaneFabric::on_message(Connection& c, LaneMessage message) {
  if (is_numbered(message.kind)) {
    if (message.number > c.next_number)
      c.early.try_emplace(message.number, std::move(message));
    else if (message.number == c.next_number)
      take_in_order(c, std::move(message));
    return;
  }
  switch (message.kind) {
    case LaneMessageKind::kCall:
      on_call(c, message);
      return;
    case LaneMessageKind::kAnswer:
    case LaneMessageKind::kRefuse:
      on_answer(c, message);
      return;
    case LaneMessageKind::kConfirm:
      if (c.phase != Connection::Phase::kAnswered || c.is_detached) return;
      c.phase = Connection::Phase::kOpen;
      events_out_.push_back({.kind = FabricEvent::Kind::kOpened, .peer = c.peer});
      return;
    case LaneMessageKind::kStatus:
      take_status(c, message);
      return;
    case LaneMessageKind::kReadRequest:
      answer_read(c, message);
      return;
    case LaneMessageKind::kReadData:
    case LaneMessageKind::kReadFailed:
      finish_read(c, message);
      return;
    case LaneMessageKind::kTrial:
      return;  // that it came is all
    case LaneMessageKind::kMessage:
    case LaneMessageKind::kFarewell:
      return;  // above
  }
}

void LaneFabric::take_in_order(Connection& c, LaneMessage message) {
  for (;;) {
    ++c.next_number;
    if (message.kind == LaneMessageKind::kFarewell)
      lose(c, absl::StrCat(name_of(c.remote_host), " has ended the connection"));
    else if (!c.is_detached)
      c.arrived.push_back(std::move(message));
    apply_status(c);
    const auto next = c.early.find(c.next_number);
    if (next == c.early.end()) return;
    message = std::move(next->second);
    c.early.erase(next);
  }
}

// What is shown does not overtake what was sent before.
void LaneFabric::take_status(Connection& c, LaneMessage& message) {
  if (message.version <= std::max(c.status_version, c.coming_status.version)) return;
  c.coming_status = std::move(message);
  apply_status(c);
}

void LaneFabric::apply_status(Connection& c) {
  const bool is_due =
      c.coming_status.version > c.status_version && c.coming_status.number <= c.next_number;
  if (!is_due) return;
  c.status_version = c.coming_status.version;
  std::memcpy(c.status.words.data(), c.coming_status.payload.data(), sizeof(c.status.words));
}

// --- reads ---

// The bytes are those of the instant at which the request arrives.
void LaneFabric::answer_read(Connection& c, const LaneMessage& request) {
  if (c.is_detached || c.is_gone) return;
  std::vector<RemoteSpan> pieces(request.payload.size() / sizeof(RemoteSpan));
  std::memcpy(pieces.data(), request.payload.data(), pieces.size() * sizeof(RemoteSpan));
  LaneMessage answer{.kind = LaneMessageKind::kReadData,
                     .is_carried = carries_payload_,
                     .lane = request.lane,
                     .number = request.number};
  for (const RemoteSpan& piece : pieces) {
    const auto holds = [&](const auto& region) {
      const auto begin = reinterpret_cast<std::uintptr_t>(region.second.data());
      return piece.address >= begin && piece.address - begin <= region.second.size() &&
             piece.bytes <= region.second.size() - (piece.address - begin);
    };
    if (std::none_of(regions_.begin(), regions_.end(), holds)) {
      const std::string why =
          absl::StrCat("reading the memory of ", name_of(own_host_), ": there is no region of ",
                       piece.bytes, " bytes at ", piece.address);
      const auto text = std::as_bytes(std::span(why));
      answer.kind = LaneMessageKind::kReadFailed;
      answer.is_carried = true;
      answer.payload.assign(text.begin(), text.end());
      answer.payload_bytes = static_cast<std::uint32_t>(why.size());
      break;
    }
    answer.payload_bytes += piece.bytes;
    if (!carries_payload_) continue;
    const auto* data = reinterpret_cast<const std::byte*>(piece.address);
    answer.payload.insert(answer.payload.end(), data, data + piece.bytes);
  }
  push(c, lane_for(c, request.lane), std::move(answer));
}

void LaneFabric::finish_read(Connection& c, const LaneMessage& answer) {
  const auto found = c.reads.find(answer.number);
  if (found == c.reads.end()) return;  // it came twice, or nobody waits any more
  const bool is_ok = answer.kind == LaneMessageKind::kReadData;
  if (!is_ok)
    c.read_error.assign(reinterpret_cast<const char*>(answer.payload.data()),
                        answer.payload.size());
  const std::byte* from = answer.payload.data();
  if (is_ok && answer.is_carried)
    for (const Sge& piece : found->second.local) {
      std::memcpy(piece.data, from, piece.bytes);
      from += piece.bytes;
    }
  reads_done_.push_back(
      {.peer = c.peer,
       .tag = found->second.tag,
       .lane = found->second.lane,
       .fault = is_ok ? FabricCompletion::Fault::kNone : FabricCompletion::Fault::kRefused});
  c.reads.erase(found);
}

}  // namespace spindrift::sim
