// How connections of the verbs fabric come about: who calls whom, and what they say.
#include <algorithm>

#include <sys/epoll.h>

#include "providers/verbs/verbs_fabric.h"
#include "providers/verbs/verbs_trouble.h"
#include "transport/base/printable.h"

namespace spindrift {
namespace {

Result<NetAddress> parse(std::string_view address) {
  auto parsed = parse_net_address(address, kDefaultPort);
  if (!parsed.ok())
    return Error(parsed.error().code(),
                 "verbs://" + std::string(address) + ": " + parsed.error().message());
  if (parsed.value().is_wildcard())
    return Error(ErrorCode::kInvalidArgument, "verbs://" + std::string(address) +
                                                  " stands for every address of a host; name one");
  return parsed;
}

}  // namespace

Status VerbsFabric::check_address(std::string_view address) const {
  const auto parsed = parse(address);
  if (!parsed.ok()) return parsed.error();
  return ok_status();
}

Result<std::uint16_t> VerbsFabric::add_address(std::string_view text) {
  NetAddress address;
  if (text.empty()) {
    const auto own = ports_.front()->address();
    if (!own.ok()) return own.error();
    address = own.value();
    address.port = static_cast<std::uint16_t>(options_.port);
  } else {
    const auto parsed = parse(text);
    if (!parsed.ok()) return parsed.error();
    address = parsed.value();
  }
  const bool is_tcp = options_.meeting == VerbsMeeting::kTcp;
  auto calls = is_tcp ? listen_by_tcp(address) : listen_by_rdma_cm(address);
  if (!calls.ok()) return calls.error();
  const auto index = static_cast<std::uint16_t>(listeners_.size());
  const Status watched = watch(calls.value()->fd(), kListenerMark | index, EPOLLIN);
  if (!watched.ok()) return watched.error();
  listeners_.push_back({.calls = std::move(calls).value(), .address = address});
  names_.push_back(address.to_string());
  return index;
}

Status VerbsFabric::choose_gid(VerbsPeer& peer, const NetAddress& remote) {
  VerbsPort& port = *ports_.front();
  peer.own_gid = port.gid().entry.gid;
  const bool is_told = options_.gid_index.has_value() || options_.gid_address.has_value();
  if (is_told || port.is_infiniband()) return ok_status();
  // The kernel's own way to the peer, where it leads over this port.
  const NetAddress own = peer.talk->local();
  const GidBytes gid = gid_of(own);
  if (port.index_of(gid)) {
    peer.own_gid = gid;
    return ok_status();
  }
  const auto chosen = port.choose({.index = {}, .address = {}, .origin = {}, .peer = remote});
  if (!chosen.ok()) return chosen.error();
  peer.own_gid = chosen.value().entry.gid;
  return ok_status();
}

VerbsCard VerbsFabric::card_of(const VerbsPeer& peer, std::span<const std::byte> hello) const {
  VerbsCard card{.nonce = peer.nonce, .peer_nonce = peer.theirs.nonce};
  card.transport = static_cast<std::uint8_t>(options_.transport);
  card.reads_answered = reads_answered_;
  card.buffers = static_cast<std::uint16_t>(peer.messages.posted());
  card.buffer_bytes = MessageLane::kBufferBytes;
  card.page = peer.messages.page_address();
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    const VerbsPort& port = *ports_[i];
    card.ports.push_back({.gid = i == 0 ? peer.own_gid : port.gid().entry.gid,
                          .lid = port.attributes().lid,
                          .is_infiniband = static_cast<std::uint8_t>(port.is_infiniband() ? 1 : 0),
                          .mtu = mtu_code(port.mtu()),
                          .page_key = peer.messages.page_registrations().remote_key(i)});
    card.device += (card.device.empty() ? "" : ", ") + port.describe();
  }
  card.messages = peer.messages.lane.pair.card();
  for (const VerbsLane& lane : peer.lanes)
    card.lanes.push_back(lane.pair.card());
  card.hello.assign(hello.begin(), hello.end());
  return card;
}

Status VerbsFabric::make_lanes(VerbsPeer& peer, std::size_t count) {
  Status status = peer.messages.open(ports_, options_.buffers);
  if (!status.ok()) return status;
  status = make_pair(peer, kVerbsMessageLane);
  if (!status.ok()) return status;
  peer.lanes.resize(count);
  for (std::size_t i = 0; i < count && status.ok(); ++i) {
    peer.lanes[i].port = static_cast<std::uint8_t>(i % ports_.size());
    status = make_pair(peer, static_cast<std::uint16_t>(i));
  }
  return status;
}

// To the queue pairs that the peer's card names.
Status VerbsFabric::connect_lanes(VerbsPeer& peer) {
  peer.messages.set_peer_page(peer.theirs.page, peer.theirs.ports.front().page_key);
  Status status = connect_pair(peer, kVerbsMessageLane, peer.theirs.messages);
  for (std::size_t i = 0; i < peer.lanes.size() && status.ok(); ++i)
    status = connect_pair(peer, static_cast<std::uint16_t>(i), peer.theirs.lanes[i]);
  return status;
}

Result<FabricPeer> VerbsFabric::connect(std::string_view address, std::span<const std::byte> hello,
                                        std::uint16_t lanes) {
  const auto remote = parse(address);
  if (!remote.ok()) return remote.error();
  const bool is_tcp = options_.meeting == VerbsMeeting::kTcp;
  auto talk = is_tcp ? dial_by_tcp(remote.value()) : dial_by_rdma_cm(remote.value());
  if (!talk.ok()) return talk.error();
  const auto taken = take_peer(std::move(talk).value(), remote.value().to_string());
  if (!taken.ok()) return taken.error();
  VerbsPeer& peer = *taken.value();
  peer.phase = VerbsPeer::Phase::kDialing;
  peer.has_called = true;
  peer.hello.assign(hello.begin(), hello.end());
  peer.wished_lanes = std::min(lanes, caps_.max_lanes);
  peer.theirs.ports.resize(1);
  peer.theirs.ports.front().gid = gid_of(remote.value());
  const Status watched = watch(peer.talk->fd(), peer.id.value, EPOLLIN | EPOLLOUT | EPOLLRDHUP);
  if (!watched.ok()) {
    free_peer(peer);
    return watched.error();
  }
  return peer.id;
}

void VerbsFabric::on_dialed(VerbsPeer& peer) {
  const auto dialed = peer.talk->is_dialed();
  if (!dialed.ok()) {
    give_up(peer, dialed.error().message());
    return;
  }
  if (!dialed.value()) return;
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u64 = peer.id.value;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, peer.talk->fd(), &event);
  Status status = choose_gid(peer, address_of(peer.theirs.ports.front().gid));
  if (status.ok()) status = make_lanes(peer, peer.wished_lanes);
  if (!status.ok()) {
    give_up(peer, status.error().message());
    return;
  }
  peer.phase = VerbsPeer::Phase::kCalling;
  say(peer, encode(VerbsFrameKind::kCall, card_of(peer, peer.hello)));
}

Status VerbsFabric::check_card(const VerbsCard& card) const {
  const auto own = static_cast<std::uint8_t>(options_.transport);
  if (card.transport != own)
    return Error(
        ErrorCode::kUnsupported,
        "it uses transport=" + std::string(to_string(static_cast<VerbsTransport>(card.transport))) +
            ", this side transport=" + std::string(to_string(options_.transport)) +
            "; give both the same");
  const VerbsPort& port = *ports_.front();
  if ((card.ports.front().is_infiniband != 0) != port.is_infiniband())
    return Error(ErrorCode::kUnsupported,
                 card.device + " is " + (port.is_infiniband() ? "Ethernet" : "InfiniBand") + ", " +
                     port.describe() + " the other; the two do not reach each other");
  if (card.buffer_bytes != MessageLane::kBufferBytes)
    return Error(ErrorCode::kUnsupported,
                 "its messages have " + std::to_string(card.buffer_bytes) + " bytes, this side's " +
                     std::to_string(MessageLane::kBufferBytes) + "; update the older one");
  return ok_status();
}

Status VerbsFabric::on_call(VerbsPeer& peer, const VerbsFrame& frame) {
  auto card = parse_card(frame.body);
  if (!card)
    return Error(ErrorCode::kInvalidArgument, "it said what no version of this library says");
  if (Status status = check_card(*card); !status.ok()) return status;
  peer.theirs = std::move(*card);
  peer.who += " (" + printable(peer.theirs.device) + ")";
  peer.phase = VerbsPeer::Phase::kAsking;
  tell({.kind = FabricEvent::Kind::kRequest,
        .peer = peer.id,
        .address = peer.address,
        .hello = peer.theirs.hello});
  return ok_status();
}

Status VerbsFabric::accept(FabricPeer id, std::span<const std::byte> hello, std::uint16_t lanes) {
  VerbsPeer& peer = *peers_[id.value];
  if (peer.is_gone) return Error(ErrorCode::kUnavailable, "the caller has gone: " + peer.cause);
  const std::size_t count = std::min<std::size_t>(peer.theirs.lanes.size(),
                                                  std::min<std::size_t>(lanes, caps_.max_lanes));
  Status status = choose_gid(peer, address_of(peer.theirs.ports.front().gid));
  if (status.ok()) status = make_lanes(peer, count);
  if (status.ok()) status = connect_lanes(peer);
  if (!status.ok()) return status;
  peer.phase = VerbsPeer::Phase::kAnswered;
  say(peer, encode(VerbsFrameKind::kAnswer, card_of(peer, hello)));
  return ok_status();
}

void VerbsFabric::refuse(FabricPeer id, std::span<const std::byte> hello) {
  VerbsPeer& peer = *peers_[id.value];
  say(peer, encode(VerbsFrameKind::kRefuse, hello));
  free_peer(peer);
}

void VerbsFabric::refuse_call(VerbsPeer& peer, const std::string& reason) {
  static_cast<void>(
      peer.talk->send(encode(VerbsFrameKind::kNoUse, std::as_bytes(std::span(reason)))));
  free_peer(peer);
}

void VerbsFabric::on_answer(VerbsPeer& peer, const VerbsFrame& frame) {
  if (const Status status = take_answer(peer, frame); !status.ok()) {
    give_up(peer, status.error().message());
    return;
  }
  peer.phase = VerbsPeer::Phase::kProbing;
  peer.since = now();
  post_probe(peer, kVerbsMessageLane, true);
}

Status VerbsFabric::take_answer(VerbsPeer& peer, const VerbsFrame& frame) {
  auto card = parse_card(frame.body);
  if (!card || card->peer_nonce != peer.nonce || card->lanes.size() > peer.lanes.size())
    return Error(ErrorCode::kInvalidArgument,
                 "it answered what no version of this library answers");
  if (Status status = check_card(*card); !status.ok()) return status;
  peer.theirs = std::move(*card);
  peer.who += " (" + printable(peer.theirs.device) + ")";
  while (peer.lanes.size() > peer.theirs.lanes.size()) {
    peer.lanes.back().pair.destroy();
    forget_pair(peer.lanes.back());
    peer.lanes.pop_back();
  }
  return connect_lanes(peer);
}

void VerbsFabric::on_refusal(VerbsPeer& peer, const VerbsFrame& frame) {
  FabricEvent event{.kind = FabricEvent::Kind::kRefused, .peer = peer.id};
  if (frame.kind == VerbsFrameKind::kRefuse)
    event.hello = frame.body;
  else
    event.cause = printable({reinterpret_cast<const char*>(frame.body.data()), frame.body.size()});
  peer.is_gone = true;
  peer.is_gone_told = true;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer.talk->fd(), nullptr);
  tell(std::move(event));
}

// Both sides can send now.
void VerbsFabric::on_confirmed(VerbsPeer& peer) {
  peer.phase = VerbsPeer::Phase::kOpen;
  --opening_;
  open_peers_.push_back(&peer);
  for (VerbsLane& lane : peer.lanes)
    lane.state = VerbsLane::State::kUp;
  peer.messages.start(peer.theirs.buffers);
  FabricEvent event{.kind = FabricEvent::Kind::kOpened, .peer = peer.id};
  if (peer.has_called) {
    event.kind = FabricEvent::Kind::kAccepted;
    event.hello = peer.theirs.hello;
  }
  tell(std::move(event));
}

void VerbsFabric::on_frame(VerbsPeer& peer, const VerbsFrame& frame) {
  using Phase = VerbsPeer::Phase;
  switch (frame.kind) {
    case VerbsFrameKind::kCall:
      if (peer.phase != Phase::kCalled) break;
      if (const Status status = on_call(peer, frame); !status.ok())
        refuse_call(peer, status.error().message());
      return;
    case VerbsFrameKind::kAnswer:
      if (peer.phase != Phase::kCalling) break;
      on_answer(peer, frame);
      return;
    case VerbsFrameKind::kRefuse:
    case VerbsFrameKind::kNoUse:
      if (peer.phase != Phase::kCalling && peer.phase != Phase::kProbing) break;
      on_refusal(peer, frame);
      return;
    case VerbsFrameKind::kConfirm:
      if (peer.phase != Phase::kAnswered) break;
      on_confirmed(peer);
      return;
    case VerbsFrameKind::kBroken:
    case VerbsFrameKind::kRenew:
    case VerbsFrameKind::kRenewed:
    case VerbsFrameKind::kReady:
      if (!peer.is_open()) break;
      if (const auto card = parse_lane_card(frame.body)) {
        on_lane_card(peer, frame.kind, *card);
        return;
      }
      break;
  }
  ++nonsense_;
  lose(peer, "it said by TCP what does not belong there");
}

}  // namespace spindrift
