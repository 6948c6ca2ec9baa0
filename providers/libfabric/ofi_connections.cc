// How connections of the libfabric fabric come about.
#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include <sys/epoll.h>
#include <unistd.h>

#include "providers/libfabric/ofi_host.h"
#include "transport/base/printable.h"
#include "transport/base/random.h"
#include "transport/base/scratch.h"

namespace spindrift {
namespace {

constexpr std::uint32_t kMostPeers = 65535;
// Looking at the sockets costs a system call: while connections come about at every turn, later at
// every so many.
constexpr std::uint32_t kTurnsBetweenLooks = 256;
constexpr std::uint32_t kMostCallers = 1024;  // that have not said what they want
constexpr Duration kSilentCaller = std::chrono::seconds(5);
constexpr std::uint64_t kListenerMark = 1ULL << 32;  // in what epoll says
constexpr std::uint32_t kTurnsInTrouble = 16;

Error refused(const char* what) {
  return Error(ErrorCode::kIo, std::string(what) + ": " + std::system_category().message(errno));
}

}  // namespace

Status OfiFabric::watch(int fd, std::uint64_t what, bool for_writing) {
  epoll_event event{};
  event.events = for_writing ? EPOLLOUT : EPOLLIN | EPOLLRDHUP;
  event.data.u64 = what;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0 &&
      (errno != EEXIST || ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) != 0))
    return refused("epoll_ctl");
  return ok_status();
}

Result<OfiPeer*> OfiFabric::take_peer(UniqueFd socket) {
  std::uint32_t index = 0;
  if (!free_peers_.empty()) {
    index = free_peers_.back();
    free_peers_.pop_back();
  } else {
    if (peers_.size() == kMostPeers)
      return Error(ErrorCode::kNoMemory, "too many peers of one libfabric endpoint");
    index = static_cast<std::uint32_t>(peers_.size());
    peers_.emplace_back();
  }
  peers_[index] = std::make_unique<OfiPeer>();
  OfiPeer& peer = *peers_[index];
  peer.id = FabricPeer{index};
  // Never zero, and never the same again: an old message finds no new connection.
  peer.own_name = ((random_u64() | 1) << 32) | index;
  peer.talk = OfiTalk(std::move(socket));
  peer.since = now();
  ++opening_;
  turns_to_look_ = 1;
  return &peer;
}

OfiGreeting OfiFabric::greeting(const OfiPeer& peer, OfiGreetingKind kind,
                                std::span<const std::byte> hello) const {
  OfiGreeting out;
  out.kind = kind;
  out.process = static_cast<std::uint32_t>(::getpid());
  out.connection = peer.own_name;
  out.buffers = options_.buffers;
  out.lanes = peer.reach.lanes;
  out.messages_sent = peer.room.sent();
  out.words = peer.shows.words;
  if (!rails_.empty()) out.set_provider(first_device().provider());
  out.rails = static_cast<std::uint16_t>(rails_.size());
  out.reads = peer.gate != nullptr ? 1 : 0;
  for (std::size_t i = 0; i < rails_.size(); ++i) {
    OfiRailCard& card = out.rail[i];
    card.set_address(rails_[i].device->name());
    if (peer.gate == nullptr) continue;
    const OfiRemoteMemory& slab = gates_[peer.gate_place.slab].registration.remote(i);
    card.gate_address = slab.address + peer.gate_place.cell * sizeof(OfiGateCell);
    card.gate_key = slab.key;
  }
  out.set_hello(hello);
  return out;
}

Result<FabricPeer> OfiFabric::connect(std::string_view text, std::span<const std::byte> hello,
                                      std::uint16_t lanes) {
  const auto address = parse_ofi_address(text);
  if (!address.ok()) return address.error();
  if (!address.value().host || address.value().host->port == 0)
    return Error(
        ErrorCode::kInvalidArgument,
        "ofi://" + std::string(text) + " names nobody to connect to; write ofi://PROVIDER@IP:PORT");
  if (const Status fits = check_provider(address.value(), text); !fits.ok()) return fits.error();
  const NetAddress host = *address.value().host;
  const auto source = source_towards(host);
  if (!source.ok()) return source.error();
  if (const Status opened = open_rails(address.value(), source.value()); !opened.ok())
    return opened.error();
  if (!broken_.empty()) return Error(ErrorCode::kIo, broken_);
  auto socket = connect_tcp(host);
  if (!socket.ok()) return socket.error();
  const auto taken = take_peer(std::move(socket).value());
  if (!taken.ok()) return taken.error();
  OfiPeer& peer = *taken.value();
  peer.phase = OfiPeer::Phase::kDialing;
  peer.host = host;
  peer.reach.lanes = lanes;
  Status status = grant_room(peer);
  if (status.ok()) status = watch(peer.talk.fd(), peer.id.value, true);
  if (!status.ok()) {
    leave(peer);
    return status.error();
  }
  peer.call = greeting(peer, OfiGreetingKind::kCall, hello);
  return peer.id;
}

// What the other side said of itself, before anything is sent to it.
Status OfiFabric::take_other_side(OfiPeer& peer, const OfiGreeting& theirs) {
  if (theirs.version != kOfiVersion)
    return Error(ErrorCode::kUnsupported, "it speaks version " + std::to_string(theirs.version) +
                                              " of the libfabric greeting, this side version " +
                                              std::to_string(kOfiVersion) +
                                              "; update the older one");
  const std::string provider(theirs.provider.data());
  if (provider != first_device().provider())
    return Error(ErrorCode::kUnsupported, "it uses libfabric's provider " + printable(provider) +
                                              ", this side " + first_device().provider() +
                                              "; both need the same");
  if (theirs.buffers < 8 || theirs.buffers > 65536 || theirs.connection == 0 || theirs.rails == 0)
    return Error(ErrorCode::kInvalidArgument, "it says of itself what no version says");
  peer.their_name = theirs.connection;
  peer.room.open(options_.buffers, theirs.buffers);
  peer.offers_memory = theirs.reads == 1;
  const std::size_t lanes = std::min({std::size_t{peer.reach.lanes}, std::size_t{theirs.lanes},
                                      std::size_t{theirs.rails}, rails_.size()});
  peer.lanes = std::vector<OfiLane>(std::max<std::size_t>(lanes, 1));
  peer.reach.lanes = static_cast<std::uint16_t>(peer.lanes.size());
  for (std::size_t i = 0; i < peer.lanes.size(); ++i) {
    const OfiRailCard& card = theirs.rail[i];
    OfiDevice& device = *rails_[i].device;
    OfiLane& lane = peer.lanes[i];
    if (!device.may_be_name(card.address_span()))
      return Error(ErrorCode::kInvalidArgument, "it says of itself what no version says");
    const auto to = device.add_peer(card.address_span());
    if (!to.ok()) return to.error();
    lane.to = to.value();
    lane.name.assign(card.address_span().begin(), card.address_span().end());
    lane.their_gate = card.gate_address;
    lane.their_gate_key = card.gate_key;
  }
  return ok_status();
}

Status OfiFabric::accept(FabricPeer id, std::span<const std::byte> hello, std::uint16_t lanes) {
  OfiPeer& peer = *peers_[id.value];
  if (peer.is_gone) return Error(ErrorCode::kUnavailable, "the caller has gone: " + peer.cause);
  peer.reach.lanes = lanes;
  Status status = grant_room(peer);
  if (status.ok()) status = take_other_side(peer, peer.call);
  if (!status.ok()) return status;
  peer.phase = OfiPeer::Phase::kAnswered;
  peer.talk.send(greeting(peer, OfiGreetingKind::kAnswer, hello));
  try_out(peer);
  return ok_status();
}

void OfiFabric::refuse(FabricPeer id, std::span<const std::byte> hello) {
  OfiPeer& peer = *peers_[id.value];
  peer.talk.send(greeting(peer, OfiGreetingKind::kRefuse, hello));
  leave(peer);
}

std::string OfiFabric::describe_peer(FabricPeer id) const {
  const OfiPeer& peer = *peers_[id.value];
  std::string host = peer.host.to_string();
  if (peer.process == 0) return host;
  return "process " + std::to_string(peer.process) + " at " + host.substr(0, host.rfind(':'));
}

// --- what comes over TCP ---

void OfiFabric::on_dialed(OfiPeer& peer) {
  Status status = peer.talk.finish_connecting();
  if (status.ok()) status = watch(peer.talk.fd(), peer.id.value, false);
  if (!status.ok()) {
    peer.talk.close();
    tell({.kind = FabricEvent::Kind::kRefused, .peer = peer.id, .cause = status.error().message()});
    return;
  }
  peer.phase = OfiPeer::Phase::kCalling;
  peer.talk.send(peer.call);
}

Status OfiFabric::on_call(OfiPeer& peer, const OfiGreeting& call) {
  if (rails_.empty() || !broken_.empty())
    return Error(ErrorCode::kUnavailable, rails_.empty() ? "it is not ready" : broken_);
  peer.call = call;
  peer.process = call.process;
  peer.phase = OfiPeer::Phase::kAsking;
  const auto hello = call.hello_span();
  tell({.kind = FabricEvent::Kind::kRequest,
        .peer = peer.id,
        .address = peer.address,
        .hello = {hello.begin(), hello.end()}});
  return ok_status();
}

void OfiFabric::on_answer(OfiPeer& peer, const OfiGreeting& answer) {
  peer.process = answer.process;
  const auto hello = answer.hello_span();
  FabricEvent event{
      .kind = FabricEvent::Kind::kAccepted, .peer = peer.id, .hello = {hello.begin(), hello.end()}};
  if (answer.kind == OfiGreetingKind::kAnswer) {
    const Status taken = take_other_side(peer, answer);
    if (taken.ok()) {
      peer.call = answer;
      peer.phase = OfiPeer::Phase::kTrying;
      try_out(peer);
      return;
    }
    event.cause = taken.error().message();
    event.hello.clear();
  } else if (answer.kind == OfiGreetingKind::kNoUse) {
    event.cause = printable({reinterpret_cast<const char*>(hello.data()), hello.size()});
    event.hello.clear();
  }
  event.kind = FabricEvent::Kind::kRefused;
  tell(std::move(event));
}

// Whether we can read its memory, and by which lanes, is found out by doing it.
void OfiFabric::try_out(OfiPeer& peer) {
  if (peer.gate == nullptr || !peer.offers_memory) {
    on_tried(peer, false);
    return;
  }
  for (OfiLane& lane : peer.lanes) {
    lane.retry_at = now();
    if (!peer.has_tried) look_at_gate(peer, lane);
  }
}

void OfiFabric::on_lane_tried(OfiPeer& peer, OfiLane& lane, bool has_read) {
  if (has_read)
    lane.state = OfiLane::State::kUp;
  else if (peer.has_several_lanes())
    fail_lane(peer, lane, "the peer's memory could not be read while the two connected");
  else
    lane.state = OfiLane::State::kDown;
  const auto is_tried = [](const OfiLane& one) { return one.state == OfiLane::State::kTrying; };
  if (std::any_of(peer.lanes.begin(), peer.lanes.end(), is_tried)) return;
  on_tried(peer, std::any_of(peer.lanes.begin(), peer.lanes.end(),
                             [](const OfiLane& one) { return one.is_up(); }));
}

void OfiFabric::on_tried(OfiPeer& peer, bool has_read) {
  peer.has_tried = true;
  peer.reach.reads_peer = has_read;
  if (peer.has_several_lanes() && !peer.lanes.front().is_up()) change_message_lane(peer);
  peer.shows_anew = true;
  make_owing(peer);
}

// The two have found each other over libfabric too, and it is as good as it will ever be: what is
// posted now is taken.
void OfiFabric::on_met(OfiPeer& peer) {
  FabricEvent event{.kind = FabricEvent::Kind::kOpened, .peer = peer.id};
  if (peer.phase == OfiPeer::Phase::kTrying) {
    const auto hello = peer.call.hello_span();
    event.kind = FabricEvent::Kind::kAccepted;
    event.hello = {hello.begin(), hello.end()};
  }
  peer.phase = OfiPeer::Phase::kOpen;
  --opening_;
  tell(std::move(event));
  make_ready(peer);
}

void OfiFabric::on_farewell(OfiPeer& peer, const OfiGreeting& farewell) {
  peer.has_farewell = true;
  if (peer.phase == OfiPeer::Phase::kTrying) {
    // It took its acceptance back, as the engine sees by what it shows.
    peer.shown.words = farewell.words;
    on_met(peer);
  } else if (peer.arrivals) {
    peer.to_be_shown.words = farewell.words;
    peer.shown_after = farewell.messages_sent;
    peer.is_to_be_shown = true;
    apply_shown(peer);
  }
  lose(peer, "it has ended the connection");
}

void OfiFabric::on_greeting(OfiPeer& peer, const OfiGreeting& theirs) {
  using Phase = OfiPeer::Phase;
  switch (theirs.kind) {
    case OfiGreetingKind::kCall:
      if (peer.phase != Phase::kCalled) break;
      if (const Status status = on_call(peer, theirs); !status.ok()) {
        const std::string& reason = status.error().message();
        peer.talk.send(greeting(peer, OfiGreetingKind::kNoUse, std::as_bytes(std::span(reason))));
        leave(peer);
      }
      return;
    case OfiGreetingKind::kAnswer:
    case OfiGreetingKind::kRefuse:
    case OfiGreetingKind::kNoUse:
      if (peer.phase != Phase::kCalling) break;
      on_answer(peer, theirs);
      return;
    case OfiGreetingKind::kFarewell:
      if (!peer.has_met()) break;
      on_farewell(peer, theirs);
      return;
  }
  ++nonsense_;
  lose(peer, "it said on its TCP connection what does not belong there");
}

namespace {

// Its TCP connection was cut, which takes one network; it is reached by another one.
bool lives_without_talk(const OfiPeer& peer) {
  return peer.phase == OfiPeer::Phase::kOpen && peer.has_several_lanes() &&
         std::any_of(peer.lanes.begin(), peer.lanes.end(),
                     [](const OfiLane& lane) { return lane.is_up(); });
}

}  // namespace

void OfiFabric::look_at_peer(OfiPeer& peer) {
  if (peer.phase == OfiPeer::Phase::kDialing) on_dialed(peer);
  const std::uint32_t index = peer.id.value;
  const auto is_there = [&] { return peers_[index].get() == &peer && !peer.is_gone; };
  while (is_there() && peer.talk.fd() >= 0 && peer.phase != OfiPeer::Phase::kLeaving) {
    static_cast<void>(peer.talk.flush());
    OfiGreeting theirs;
    switch (peer.talk.receive(theirs)) {
      case OfiTalk::Got::kNothing:
        return;
      case OfiTalk::Got::kGreeting:
        on_greeting(peer, theirs);
        break;
      case OfiTalk::Got::kNonsense:
        ++nonsense_;
        lose(peer, "it said on its TCP connection what does not belong there");
        break;
      case OfiTalk::Got::kEnd:
        if (!peer.talk.trouble().empty() && lives_without_talk(peer)) {
          peer.talk.close();
          peer.is_mute = true;
          return;
        }
        lose(peer, peer.talk.trouble().empty()
                       ? "its end of the connection was closed without farewell: it was killed, "
                         "crashed or has exited"
                       : "its host does not answer any more: " + peer.talk.trouble());
        break;
    }
  }
  if (peers_[index].get() == &peer && peer.is_gone && peer.phase == OfiPeer::Phase::kCalled)
    leave(peer);
}

void OfiFabric::take_callers(std::uint16_t listener) {
  for (;;) {
    UniqueFd socket = accept_tcp(listeners_[listener].socket.get());
    if (!socket.is_open()) return;
    if (opening_ >= kMostCallers) continue;  // its end is closed
    const auto taken = take_peer(std::move(socket));
    if (!taken.ok()) return;
    OfiPeer& peer = *taken.value();
    peer.address = listener;
    peer.host = peer.talk.peer();
    if (!watch(peer.talk.fd(), peer.id.value, false).ok()) {
      leave(peer);
      return;
    }
    look_at_peer(peer);
  }
}

void OfiFabric::drop_silent_callers() {
  const Time when = now();
  for (const auto& holder : peers_)
    if (holder && holder->phase == OfiPeer::Phase::kCalled && when - holder->since > kSilentCaller)
      leave(*holder);
}

void OfiFabric::look_at_sockets() {
  if (--turns_to_look_ != 0) return;
  const bool is_idle = rails_.empty() || receives_granted_ == 0 || opening_ != 0;
  turns_to_look_ = is_idle ? 1 : troubles_ != 0 ? kTurnsInTrouble : kTurnsBetweenLooks;
  Scratch<epoll_event, 64> ready;
  const int count = ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), 0);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t what = ready[static_cast<std::size_t>(i)].data.u64;
    if ((what & kListenerMark) != 0)
      take_callers(static_cast<std::uint16_t>(what));
    else if (what < peers_.size() && peers_[what])
      look_at_peer(*peers_[what]);
  }
  if (opening_ != 0 && count == 0) drop_silent_callers();
  watch_lanes();
}

std::size_t OfiFabric::poll_events(std::span<FabricEvent> out) {
  look_at_sockets();
  if (gone_untold_ != 0) [[unlikely]]
    tell_those_that_are_gone();
  std::size_t count = 0;
  while (count < out.size() && !events_.empty()) {
    out[count++] = std::move(events_.front());
    events_.pop_front();
  }
  return count;
}

}  // namespace spindrift
