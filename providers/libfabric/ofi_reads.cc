// Reads of the peer's memory, and the gate that says whether what was read still counts.
#include <algorithm>
#include <array>
#include <utility>

#include <poll.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "providers/libfabric/ofi_host.h"

namespace spindrift {
namespace {

// How long a peer's reads may all be silent.
constexpr std::chrono::seconds kReadsMayTake(10);
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

bool OfiFabric::read(OfiPeer& peer, const FabricOp& op) {
  if (free_reads_.empty() || reads_done_.size() + peer.reads.size() >= reads_done_.capacity())
    return false;
  OfiRead& record = *free_reads_.back();
  record.peer = &peer;
  record.tag = op.tag;
  record.lane = op.lane;
  record.gate = 0;
  record.serial = 0;
  record.has_landed = false;
  record.pieces = static_cast<std::uint8_t>(op.local.size());
  if (peer.is_gone || peer.is_gate_closed || !broken_.empty()) {
    if (peer.read_error.empty()) peer.read_error = peer.is_gone ? peer.cause : broken_;
    free_reads_.pop_back();
    peer.reads.push_back(&record);
    finish_read(record, FabricCompletion::Fault::kLost);
    return true;
  }
  std::array<iovec, kMaxSge> pieces;
  std::array<void*, kMaxSge> descriptors;
  for (std::size_t i = 0; i < op.local.size(); ++i) {
    pieces[i] = {.iov_base = op.local[i].data, .iov_len = op.local[i].bytes};
    descriptors[i] = memory_.descriptor(op.local[i].region);
    record.regions[i] = op.local[i].region;
  }
  std::array<fi_rma_iov, kMaxSge> from;
  for (std::size_t i = 0; i < op.remote.size(); ++i)
    from[i] = {.addr = op.remote[i].address, .len = op.remote[i].bytes, .key = op.remote[i].key};
  fi_msg_rma message{};
  message.msg_iov = pieces.data();
  message.desc = descriptors.data();
  message.iov_count = op.local.size();
  message.addr = peer.to;
  message.rma_iov = from.data();
  message.rma_iov_count = op.remote.size();
  message.context = &record.context;
  const long code = fi_readmsg(device_->reader(), &message, FI_COMPLETION);
  if (code == -FI_EAGAIN) {
    ++refusals_;
    return false;
  }
  free_reads_.pop_back();
  peer.reads.push_back(&record);
  if (code != 0) {
    peer.read_error = fi_refused("fi_readmsg", code).message();
    finish_read(record, FabricCompletion::Fault::kRefused);
    return true;
  }
  record.serial = ++reads_begun_;
  ++peer.reads_under_way;
  ++reads_;
  read_bytes_ += bytes_of(op.local);
  return true;
}

// Begins a read of the peer's gate for reads that have none. Where reads are executed in order it
// may follow right behind them; else it begins when they have landed.
void OfiFabric::look_at_gate(OfiPeer& peer) {
  peer.wants_gate = false;
  const bool is_ordered = device_->traits().reads_in_order;
  const auto waits = [is_ordered](const OfiRead* read) {
    return read->gate == 0 && (is_ordered || read->has_landed);
  };
  const bool is_wanted = peer.is_trying ? peer.reads_under_way == 0
                                        : std::any_of(peer.reads.begin(), peer.reads.end(), waits);
  if (!is_wanted || peer.is_gone || peer.is_gate_closed) return;
  const auto free = std::find_if(peer.gate_reads.begin(), peer.gate_reads.end(),
                                 [](const OfiGateRead& gate) { return gate.number == 0; });
  if (free == peer.gate_reads.end()) return;  // one that ends calls again
  std::uint64_t& landing =
      peer.gate->landing[static_cast<std::size_t>(free - peer.gate_reads.begin())];
  free->kind = OfiOperation::Kind::kGate;
  free->peer = &peer;
  const long code = fi_read(device_->reader(), &landing, sizeof(landing), peer.gate_descriptor,
                            peer.to, peer.their_gate, peer.their_gate_key, &free->context);
  if (code == -FI_EAGAIN) {
    ++refusals_;
    peer.wants_gate = true;
    make_owing(peer);
    return;
  }
  if (code != 0) {
    peer.read_error = fi_refused("fi_read", code).message();
    peer.is_gate_closed = true;
    if (peer.is_trying) on_tried(peer, false);
    finish_reads(peer);
    return;
  }
  free->number = ++peer.gates_begun;
  free->serial = ++reads_begun_;
  ++peer.reads_under_way;
  for (OfiRead* read : peer.reads)
    if (waits(read)) read->gate = free->number;
}

void OfiFabric::on_landed(OfiRead& read) {
  OfiPeer& peer = *read.peer;
  --peer.reads_under_way;
  ++peer.reads_ended;
  read.serial = 0;
  read.has_landed = true;
  if (read.gate == 0) look_at_gate(peer);
  finish_reads(peer);
}

void OfiFabric::on_read_failed(OfiRead& read, int error) {
  OfiPeer& peer = *read.peer;
  --peer.reads_under_way;
  ++peer.reads_ended;
  read.serial = 0;
  const bool is_lost = is_of_the_way(error) || has_just_ended(peer);
  finish_read(read, is_lost ? FabricCompletion::Fault::kLost : FabricCompletion::Fault::kRefused);
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
  OfiPeer& peer = *gate.peer;
  --peer.reads_under_way;
  ++peer.reads_ended;
  const auto index = static_cast<std::size_t>(&gate - peer.gate_reads.data());
  const std::uint32_t number = std::exchange(gate.number, 0);
  gate.serial = 0;
  if (!is_ok || peer.gate->landing[index] != peer.their_name)
    peer.is_gate_closed = true;
  else
    peer.gates_found_open = std::max(peer.gates_found_open, number);
  if (peer.is_trying) on_tried(peer, !peer.is_gate_closed);
  look_at_gate(peer);
  finish_reads(peer);
}

// Those whose gate was found open, and all that have landed when it was found closed.
void OfiFabric::finish_reads(OfiPeer& peer) {
  for (std::size_t i = peer.reads.size(); i != 0; --i) {
    OfiRead& read = *peer.reads[i - 1];
    if (!read.has_landed) continue;
    if (read.gate != 0 && read.gate <= peer.gates_found_open) {
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

// libfabric owes each read an end. Where a peer's reads have none (ofi_rxd of libfabric 1.17, when
// the peer's memory may not be read), the connection ends instead.
void OfiFabric::watch_reads() {
  const Time when = now();
  for (const auto& holder : peers_) {
    if (!holder || holder->is_gone || holder->phase != OfiPeer::Phase::kOpen) continue;
    OfiPeer& peer = *holder;
    if (peer.reads_under_way == 0) {
      peer.reads_stuck_since = kNever;
    } else if (peer.reads_stuck_since == kNever || peer.reads_ended != peer.reads_ended_before) {
      peer.reads_stuck_since = when;
      peer.reads_ended_before = peer.reads_ended;
    } else if (when - peer.reads_stuck_since >= kReadsMayTake) {
      lose(peer, "for " + std::to_string(kReadsMayTake.count()) +
                     " s no read of its memory has come to an end");
    }
  }
}

// Until none of those that `concerns` says can land any more.
template <class Concerns>
void OfiFabric::end_reads(const Concerns& concerns) {
  const auto is_under_way = [&](const OfiReading& one) { return one.serial != 0 && concerns(one); };
  const auto is_any = [&] {
    return std::any_of(peers_.begin(), peers_.end(), [&](const auto& peer) {
      return peer && peer->reads_under_way != 0 &&
             (std::any_of(peer->gate_reads.begin(), peer->gate_reads.end(), is_under_way) ||
              std::any_of(peer->reads.begin(), peer->reads.end(),
                          [&](const OfiRead* read) { return is_under_way(*read); }));
    });
  };
  const Time limit = now() + kReadsEndWithin;
  while (broken_.empty() && is_any()) {
    take_completions();
    if (now() > limit) stop_all_reads();
  }
}

void OfiFabric::end_reads_of(const OfiPeer& peer) {
  end_reads([&peer](const OfiReading& one) { return one.peer == &peer; });
}

// Those of other peers are lost with them, and will be asked for again.
void OfiFabric::stop_all_reads() {
  const Status renewed = device_->renew_reader();
  ++readers_renewed_;
  // What had ended before is still told; nothing that had not ever will be.
  while (take_completions() != 0) {
  }
  for (const auto& holder : peers_) {
    if (!holder) continue;
    OfiPeer& peer = *holder;
    for (OfiGateRead& gate : peer.gate_reads)
      if (gate.serial != 0) abandon(gate);
    for (std::size_t i = peer.reads.size(); i != 0; --i) {
      OfiRead& read = *peer.reads[i - 1];
      if (read.has_landed) continue;
      abandon(read);
      peer.read_error = "reads were stopped with those of another connection that had ended";
      finish_read(read, FabricCompletion::Fault::kLost);
    }
    for (OfiRead* read : peer.reads)
      if (read->gate > peer.gates_found_open) read->gate = 0;
    if (peer.is_trying || !peer.reads.empty()) {
      peer.wants_gate = true;
      make_owing(peer);
    }
  }
  if (!renewed.ok()) break_down(renewed.error().message());
}

void OfiFabric::abandon(OfiReading& one) {
  one.serial = 0;
  --one.peer->reads_under_way;
  ++one.peer->reads_ended;
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
  device_->close_endpoints();
  for (const auto& peer : peers_) {
    if (!peer) continue;
    for (OfiGateRead& gate : peer->gate_reads)
      gate.serial = 0;
    peer->reads_under_way = 0;
    peer->sends_under_way = 0;
    if (peer->phase == OfiPeer::Phase::kLeaving) continue;
    if (peer->to != FI_ADDR_UNSPEC) lose(*peer, cause);
    while (!peer->reads.empty())
      finish_read(*peer->reads.back(), FabricCompletion::Fault::kLost);
  }
}

}  // namespace spindrift
