// Reads of the peer's memory, and the gate that says whether what was read still counts.
#include <algorithm>
#include <array>
#include <utility>

#include <poll.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "providers/libfabric/ofi_host.h"
#include "transport/base/scratch.h"

namespace spindrift {
namespace {

// Reads that have to be over are given so long; those that are not are stopped.
constexpr Duration kReadsEndWithin = std::chrono::milliseconds(20);

constexpr int kEndFollowsWithinMs = 20;

// Errors that say nothing of the memory that was to be read.
bool is_of_the_way(int error) {
  constexpr std::array kOfTheWay{FI_ETIMEDOUT,    FI_ECONNRESET,  FI_ECONNABORTED, FI_ENOTCONN,
                                 FI_ESHUTDOWN,    FI_ENETUNREACH, FI_EHOSTUNREACH, FI_ENETDOWN,
                                 FI_ECONNREFUSED, FI_ECANCELED,   FI_EAGAIN};
  return std::find(kOfTheWay.begin(), kOfTheWay.end(), error) != kOfTheWay.end();
}

std::uint64_t bytes_of(std::span<const Sge> pieces) {
  std::uint64_t sum = 0;
  for (const Sge& piece : pieces)
    sum += piece.bytes;
  return sum;
}

}  // namespace

// Where the peer's bytes lie, by the lane that the read takes; false: nowhere that we know of.
bool OfiFabric::find_sources(OfiPeer& peer, const FabricOp& op, std::span<fi_rma_iov> out) const {
  for (std::size_t i = 0; i < op.remote.size(); ++i) {
    OfiRegionCard::ByLane theirs{.address = op.remote[i].address, .key = op.remote[i].key};
    if (peer.has_several_lanes() && !find_theirs(peer, op.remote[i], op.lane, theirs)) {
      peer.read_error = "reading the memory of " + describe_peer(peer.id) +
                        ": it is not registered, or is not any more";
      return false;
    }
    out[i] = {.addr = theirs.address, .len = op.remote[i].bytes, .key = theirs.key};
  }
  return true;
}

bool OfiFabric::read(OfiPeer& peer, const FabricOp& op) {
  if (free_reads_.empty() || reads_done_.size() + peer.reads.size() >= reads_done_.capacity())
    return false;
  OfiRead& record = *free_reads_.back();
  record.peer = &peer;
  record.tag = op.tag;
  record.lane = op.lane;
  OfiLane& lane = peer.lanes[op.lane];
  fid_ep* const reader = rails_[op.lane].device->reader();
  record.gate = 0;
  record.serial = 0;
  record.has_landed = false;
  record.pieces = static_cast<std::uint8_t>(op.local.size());
  const auto refuse = [&](FabricCompletion::Fault fault) {
    free_reads_.pop_back();
    peer.reads.push_back(&record);
    finish_read(record, fault);
    return true;
  };
  if (peer.is_gone || peer.is_gate_closed || !broken_.empty()) {
    if (peer.read_error.empty()) peer.read_error = peer.is_gone ? peer.cause : broken_;
    return refuse(FabricCompletion::Fault::kLost);
  }
  if (!lane.is_up() || reader == nullptr) {
    if (lane.is_up()) fail_lane(peer, lane, "its endpoint of libfabric is being made anew");
    peer.read_error = describe_peer(peer.id) + " by " + describe_lane(peer.id, op.lane);
    return refuse(FabricCompletion::Fault::kLost);
  }
  Scratch<iovec, kMaxSge> pieces;
  Scratch<void*, kMaxSge> descriptors;
  for (std::size_t i = 0; i < op.local.size(); ++i) {
    pieces[i] = {.iov_base = op.local[i].data, .iov_len = op.local[i].bytes};
    descriptors[i] = memory_.descriptor(op.local[i].region, op.lane);
    record.regions[i] = op.local[i].region;
  }
  Scratch<fi_rma_iov, kMaxSge> from;
  if (!find_sources(peer, op, from)) return refuse(FabricCompletion::Fault::kRefused);
  fi_msg_rma message{};
  message.msg_iov = pieces.data();
  message.desc = descriptors.data();
  message.iov_count = op.local.size();
  message.addr = lane.to;
  message.rma_iov = from.data();
  message.rma_iov_count = op.remote.size();
  message.context = &record.context;
  const long code = fi_readmsg(reader, &message, FI_COMPLETION);
  if (code == -FI_EAGAIN) {
    ++refusals_;
    return false;
  }
  free_reads_.pop_back();
  peer.reads.push_back(&record);
  if (code != 0) {
    const std::string why = fi_refused("fi_readmsg", code).message();
    peer.read_error = why;
    const bool is_lost = peer.has_several_lanes() && is_of_the_way(static_cast<int>(-code));
    finish_read(record,
                is_lost ? FabricCompletion::Fault::kLost : FabricCompletion::Fault::kRefused);
    if (is_lost) fail_lane(peer, lane, why);
    return true;
  }
  record.serial = ++reads_begun_;
  ++lane.reads_under_way;
  ++reads_;
  read_bytes_ += bytes_of(op.local);
  return true;
}

// False: it could not be begun; the lane wants it still, or has failed.
bool OfiFabric::begin_gate(OfiPeer& peer, OfiLane& lane, OfiGateRead& gate) {
  const std::size_t number = lane_index(peer, lane);
  fid_ep* const reader = rails_[number].device->reader();
  const std::size_t place =
      number * kGateReads + static_cast<std::size_t>(&gate - lane.gate_reads.data());
  OfiGateWords& landing = peer.gate->landing[place];
  // How many messages have arrived matters where they may be lost.
  const std::size_t bytes = peer.has_several_lanes() ? sizeof(landing) : sizeof(landing.name);
  gate.kind = OfiOperation::Kind::kGate;
  gate.peer = &peer;
  gate.lane = static_cast<std::uint16_t>(number);
  void* const descriptor = gates_[peer.gate_place.slab].registration.descriptor(number);
  const long code = reader == nullptr
                        ? -FI_ENOTCONN
                        : fi_read(reader, &landing, bytes, descriptor, lane.to, lane.their_gate,
                                  lane.their_gate_key, &gate.context);
  if (code == 0) {
    gate.number = ++lane.gates_begun;
    gate.serial = ++reads_begun_;
    gate.begun = now();
    ++lane.reads_under_way;
    return true;
  }
  if (code == -FI_EAGAIN) {
    ++refusals_;
    lane.wants_gate = true;
    make_owing(peer);
    return false;
  }
  const std::string why = fi_refused("fi_read", code).message();
  peer.read_error = why;
  if (peer.has_several_lanes()) {
    fail_lane(peer, lane, why);
    return false;
  }
  peer.is_gate_closed = true;
  if (!peer.has_tried) on_lane_tried(peer, lane, false);
  finish_reads(peer);
  return false;
}

// Begins a read of the peer's gate for reads that have none. Where reads are executed in order it
// may follow right behind them; else it begins when they have landed.
void OfiFabric::look_at_gate(OfiPeer& peer, OfiLane& lane) {
  lane.wants_gate = false;
  if (lane.state == OfiLane::State::kDown) return;
  const std::size_t number = lane_index(peer, lane);
  const bool is_ordered = rails_[number].device->traits().reads_in_order;
  const auto waits = [is_ordered, number](const OfiRead* read) {
    return read->lane == number && read->gate == 0 && (is_ordered || read->has_landed);
  };
  const bool is_wanted = lane.state == OfiLane::State::kTrying
                             ? lane.reads_under_way == 0
                             : std::any_of(peer.reads.begin(), peer.reads.end(), waits);
  if (!is_wanted || peer.is_gone || peer.is_gate_closed) return;
  const auto free = std::find_if(lane.gate_reads.begin(), lane.gate_reads.end(),
                                 [](const OfiGateRead& gate) { return gate.number == 0; });
  if (free == lane.gate_reads.end()) return;  // one that ends calls again
  if (!begin_gate(peer, lane, *free)) return;
  for (OfiRead* read : peer.reads)
    if (waits(read)) read->gate = free->number;
}

void OfiFabric::on_landed(OfiRead& read) {
  if (read.serial == 0) return;  // stopped meanwhile
  OfiPeer& peer = *read.peer;
  OfiLane& lane = peer.lanes[read.lane];
  --lane.reads_under_way;
  ++lane.reads_ended;
  read.serial = 0;
  read.has_landed = true;
  if (read.gate == 0) look_at_gate(peer, lane);
  finish_reads(peer);
}

void OfiFabric::on_read_failed(OfiRead& read, int error) {
  if (read.serial == 0) return;  // stopped meanwhile
  OfiPeer& peer = *read.peer;
  OfiLane& lane = peer.lanes[read.lane];
  --lane.reads_under_way;
  ++lane.reads_ended;
  read.serial = 0;
  const bool is_way = is_of_the_way(error);
  const bool is_lost = is_way || has_just_ended(peer);
  finish_read(read, is_lost ? FabricCompletion::Fault::kLost : FabricCompletion::Fault::kRefused);
  if (is_way && peer.has_several_lanes()) fail_lane(peer, lane, peer.read_error);
}

// A process that dies loses its memory first and its connections then: who cannot read the one
// looks whether the other goes, too.
bool OfiFabric::has_just_ended(OfiPeer& peer) {
  pollfd end{.fd = peer.talk.fd(), .events = POLLRDHUP, .revents = 0};
  if (peer.talk.fd() >= 0) static_cast<void>(::poll(&end, 1, kEndFollowsWithinMs));
  if (end.revents != 0) turns_to_look_ = 1;
  return peer.is_gone || end.revents != 0;
}

void OfiFabric::on_gate(OfiGateRead& gate, bool is_ok) {
  if (gate.serial == 0) return;  // stopped meanwhile
  OfiPeer& peer = *gate.peer;
  OfiLane& lane = peer.lanes[gate.lane];
  --lane.reads_under_way;
  ++lane.reads_ended;
  const auto index = static_cast<std::size_t>(&gate - lane.gate_reads.data());
  const std::uint32_t number = std::exchange(gate.number, 0);
  gate.serial = 0;
  const OfiGateWords& landed = peer.gate->landing[gate.lane * kGateReads + index];
  if (!is_ok && peer.has_several_lanes() && !peer.is_gone) {
    if (lane.state == OfiLane::State::kTrying && !peer.has_tried)
      on_lane_tried(peer, lane, false);
    else
      fail_lane(peer, lane, peer.read_error);
    return;
  }
  if (!is_ok || landed.name != peer.their_name) {
    peer.is_gate_closed = true;
  } else {
    lane.gates_found_open = std::max(lane.gates_found_open, number);
    lane.last_gate_begun = gate.begun;
    lane.last_gate_ended = now();
  }
  if (!peer.has_tried)
    on_lane_tried(peer, lane, !peer.is_gate_closed);
  else if (lane.state == OfiLane::State::kTrying && !peer.is_gate_closed)
    bring_up(peer, lane);
  look_at_gate(peer, lane);
  finish_reads(peer);
  if (peer.has_several_lanes() && !peer.is_gate_closed)
    on_gate_count(peer, gate, static_cast<std::uint32_t>(landed.arrived));
}

// Those whose gate was found open, and all that have landed when it was found closed.
void OfiFabric::finish_reads(OfiPeer& peer) {
  for (std::size_t i = peer.reads.size(); i != 0; --i) {
    OfiRead& read = *peer.reads[i - 1];
    if (!read.has_landed) continue;
    if (read.gate != 0 && read.gate <= peer.lanes[read.lane].gates_found_open) {
      finish_read(read, FabricCompletion::Fault::kNone);
    } else if (peer.is_gate_closed) {
      if (peer.read_error.empty())
        peer.read_error = describe_peer(peer.id) + " has ended the connection";
      finish_read(read, FabricCompletion::Fault::kLost);
    }
  }
}

void OfiFabric::finish_read(OfiRead& read, FabricCompletion::Fault fault) {
  OfiPeer& peer = *read.peer;
  std::erase(peer.reads, &read);
  free_reads_.push_back(&read);
  if (peer.is_dropped) return;
  reads_done_.push_back({.tag = read.tag, .peer = peer.id, .lane = read.lane, .fault = fault});
}

// Until none of those that `concerns` says can land any more.
template <class Concerns>
void OfiFabric::end_reads(const Concerns& concerns) {
  const auto is_under_way = [&](const OfiReading& one) { return one.serial != 0 && concerns(one); };
  const auto is_any = [&](std::size_t rail) {
    return std::any_of(peers_.begin(), peers_.end(), [&](const auto& peer) {
      if (!peer || rail >= peer->lanes.size()) return false;
      const OfiLane& lane = peer->lanes[rail];
      return lane.reads_under_way != 0 &&
             (std::any_of(lane.gate_reads.begin(), lane.gate_reads.end(), is_under_way) ||
              std::any_of(peer->reads.begin(), peer->reads.end(), [&](const OfiRead* read) {
                return read->lane == rail && is_under_way(*read);
              }));
    });
  };
  const Time limit = now() + kReadsEndWithin;
  for (std::size_t rail = 0; rail < rails_.size(); ++rail)
    while (broken_.empty() && is_any(rail)) {
      take_completions();
      if (now() > limit) stop_reads(rail);
    }
}

void OfiFabric::end_reads_of(const OfiPeer& peer) {
  end_reads([&peer](const OfiReading& one) { return one.peer == &peer; });
}

// Those of other peers are lost with them, and will be asked for again.
void OfiFabric::stop_reads(std::size_t rail) {
  const Status renewed = rails_[rail].device->renew_reader();
  ++readers_renewed_;
  // What had ended before is still told; nothing that had not ever will be.
  while (take_completions(rails_[rail]) != 0 || !late_.empty()) {
  }
  for (const auto& holder : peers_) {
    if (!holder || rail >= holder->lanes.size()) continue;
    OfiPeer& peer = *holder;
    OfiLane& lane = peer.lanes[rail];
    for (OfiGateRead& gate : lane.gate_reads)
      if (gate.serial != 0) abandon(gate);
    for (std::size_t i = peer.reads.size(); i != 0; --i) {
      OfiRead& read = *peer.reads[i - 1];
      if (read.lane != rail || read.has_landed) continue;
      abandon(read);
      if (lane.is_up())
        peer.read_error = "reads were stopped with those of another connection that had ended";
      finish_read(read, FabricCompletion::Fault::kLost);
    }
    const bool is_tried = lane.state == OfiLane::State::kTrying;
    if (is_tried && peer.has_tried) lane.state = OfiLane::State::kDown;
    bool wants_gate = is_tried && !peer.has_tried;
    for (OfiRead* read : peer.reads) {
      if (read->lane != rail) continue;
      wants_gate = true;
      if (read->gate > lane.gates_found_open) read->gate = 0;
    }
    if (!wants_gate) continue;
    lane.wants_gate = true;
    make_owing(peer);
  }
  // Of several rails, one without a reader is down, and tried again.
  if (!renewed.ok() && rails_.size() == 1) break_down(renewed.error().message());
}

void OfiFabric::abandon(OfiReading& one) {
  one.serial = 0;
  OfiLane& lane = one.peer->lanes[one.lane];
  --lane.reads_under_way;
  ++lane.reads_ended;
  if (one.kind == OfiOperation::Kind::kGate) static_cast<OfiGateRead&>(one).number = 0;
}

void OfiFabric::remove_region(LocalKey region) {
  end_reads([region](const OfiReading& one) {
    if (one.kind != OfiOperation::Kind::kRead) return false;
    const auto& read = static_cast<const OfiRead&>(one);
    const auto* const end = read.regions.begin() + read.pieces;
    return std::find(read.regions.begin(), end, region) != end;
  });
  memory_.remove_region(region);
}

void OfiFabric::break_down(const std::string& cause) {
  if (!broken_.empty()) return;
  broken_ = cause;
  for (const OfiRail& rail : rails_)
    rail.device->close_endpoints();
  for (const auto& peer : peers_) {
    if (!peer) continue;
    for (OfiLane& lane : peer->lanes) {
      for (OfiGateRead& gate : lane.gate_reads)
        gate.serial = 0;
      lane.reads_under_way = 0;
    }
    peer->sends_under_way = 0;
    if (peer->phase == OfiPeer::Phase::kLeaving) continue;
    if (!peer->lanes.empty()) lose(*peer, cause);
    while (!peer->reads.empty())
      finish_read(*peer->reads.back(), FabricCompletion::Fault::kLost);
  }
}

}  // namespace spindrift
