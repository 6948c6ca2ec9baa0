// The peers of the verbs fabric: how they come, what is heard of them, and how they go.
#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "providers/verbs/verbs_fabric.h"
#include "providers/verbs/verbs_trouble.h"
#include "transport/base/random.h"

namespace spindrift {
namespace {

// Looking at the sockets costs a system call: while connections come about at every turn, later at
// every so many.
constexpr std::uint32_t kTurnsBetweenLooks = 256;
constexpr std::uint32_t kTurnsInTrouble = 16;
constexpr int kMostLooks = 8;  // at what a peer says, in one go
constexpr Duration kSilentCaller = std::chrono::seconds(5);
constexpr Duration kLongestProbe = std::chrono::seconds(5);
// At one that was dropped.
constexpr Duration kBetweenLooks = std::chrono::milliseconds(1);
// For what was sent before a peer was dropped.
constexpr Duration kLastWords = std::chrono::seconds(1);
// Callers that have not said yet what they want.
constexpr std::uint32_t kMostStrangers = 256;

// In what epoll says; peers by their number.
constexpr std::uint64_t kDeviceMark = 2ULL << 32;
constexpr std::uint64_t kTimerMark = 3ULL << 32;

Error refused(const char* what) {
  return Error(ErrorCode::kIo, std::string(what) + ": " + in_words(errno));
}

}  // namespace

VerbsFabric::~VerbsFabric() {
  for (auto& peer : peers_)
    if (peer) drop(peer->id);
  while (!dropped_.empty()) {
    take_work();
    end_dropped(now());
  }
}

Status VerbsFabric::open_descriptors() {
  epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.is_open()) return refused("epoll_create1 (RLIMIT_NOFILE too low? see ulimit -n)");
  timer_ = UniqueFd(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!timer_.is_open()) return refused("timerfd_create");
  Status status = watch(timer_.get(), kTimerMark, EPOLLIN);
  for (std::size_t i = 0; i < ports_.size() && status.ok(); ++i) {
    status = watch(ports_[i]->context()->async_fd, kDeviceMark | i, EPOLLIN);
    if (status.ok()) status = watch(ports_[i]->channel()->fd, kTimerMark, EPOLLIN);
  }
  return status;
}

Status VerbsFabric::watch(int fd, std::uint64_t what, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = what;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return refused("epoll_ctl");
  return ok_status();
}

Result<VerbsPeer*> VerbsFabric::take_peer(std::unique_ptr<VerbsTalk> talk, std::string who) {
  std::uint32_t index = 0;
  if (!free_peers_.empty()) {
    index = free_peers_.back();
    free_peers_.pop_back();
  } else {
    if (peers_.size() == caps_.max_peers)
      return Error(ErrorCode::kNoMemory, "too many peers of one verbs endpoint");
    index = static_cast<std::uint32_t>(peers_.size());
    peers_.emplace_back();
  }
  peers_[index] = std::make_unique<VerbsPeer>();
  VerbsPeer& peer = *peers_[index];
  peer.id = FabricPeer{index};
  peer.talk = std::move(talk);
  peer.since = now();
  peer.who = std::move(who);
  peer.nonce = random_u64() | 1;
  ++opening_;
  turns_to_look_ = 1;
  return &peer;
}

// Its completions that are still to come find nobody.
void VerbsFabric::forget_pairs(VerbsPeer& peer) {
  for (VerbsLane& lane : peer.lanes) {
    lane.pair.destroy();
    forget_pair(lane);
  }
  peer.messages.lane.pair.destroy();
  forget_pair(peer.messages.lane);
}

void VerbsFabric::free_peer(VerbsPeer& peer) {
  if (peer.is_gone && !peer.is_gone_told) --gone_untold_;
  if (!peer.is_open()) --opening_;
  if (peer.is_open()) {
    for (const VerbsLane& lane : peer.lanes)
      if (!lane.is_up()) --troubles_;
    if (!peer.messages.lane.is_up()) --troubles_;
  }
  std::erase(open_peers_, &peer);
  std::erase_if(events_, [&peer](const FabricEvent& event) { return event.peer == peer.id; });
  ended_.erase(ended_.begin(), ended_.begin() + static_cast<std::ptrdiff_t>(ended_taken_));
  ended_taken_ = 0;
  std::erase_if(ended_, [&peer](const Ended& one) { return one.peer == peer.id; });
  repeated_ += peer.messages.repeated();
  free_peers_.push_back(peer.id.value);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer.talk->fd(), nullptr);
  std::unique_ptr<VerbsPeer> holder = std::move(peers_[peer.id.value]);
  // The peer reads nothing of ours any more, and we nothing of its.
  for (VerbsLane& lane : peer.lanes) {
    lane.pair.destroy();
    forget_pair(lane);
  }
  peer.is_dropped = true;
  peer.since = now();
  const bool has_more_to_say = peer.is_open() && peer.messages.lane.is_up() && !peer.is_gone;
  if (has_more_to_say) {
    peer.messages.flush();
    dropped_.push_back(std::move(holder));
    return;
  }
  forget_pairs(peer);
}

namespace {

// Whether the other side of one that was dropped is gone as well: nobody will ever acknowledge what
// is still under way.
bool has_left(VerbsPeer& peer, Time when) {
  if (when < peer.next_look) return false;
  peer.next_look = when + kBetweenLooks;
  std::vector<std::byte> ignored;
  TcpGot got = TcpGot::kBytes;
  while (got == TcpGot::kBytes)
    got = peer.talk->receive(ignored);
  return got == TcpGot::kEnd;
}

}  // namespace

void VerbsFabric::end_dropped(Time when) {
  std::erase_if(dropped_, [this, when](const std::unique_ptr<VerbsPeer>& peer) {
    MessageLane& messages = peer->messages;
    messages.tend();
    const bool is_over = messages.has_settled() || !messages.lane.is_up() ||
                         when - peer->since > kLastWords || has_left(*peer, when);
    if (is_over) forget_pairs(*peer);
    return is_over;
  });
}

void VerbsFabric::drop(FabricPeer id) {
  VerbsPeer& peer = *peers_[id.value];
  if (peer.phase == VerbsPeer::Phase::kAnswered && !peer.is_gone)
    static_cast<void>(peer.talk->send(
        encode(VerbsFrameKind::kNoUse,
               std::as_bytes(std::span(std::string_view("it was closed before it was open"))))));
  free_peer(peer);
}

void VerbsFabric::say(VerbsPeer& peer, std::span<const std::byte> frame) {
  if (!peer.talk->send(frame))
    lose(peer, "the connection by which it was found takes nothing any more: " + in_words(errno));
}

// A connection that we wanted does not come about.
void VerbsFabric::give_up(VerbsPeer& peer, std::string cause) {
  if (peer.is_gone) return;
  peer.is_gone = true;
  peer.is_gone_told = true;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer.talk->fd(), nullptr);
  tell({.kind = FabricEvent::Kind::kRefused, .peer = peer.id, .cause = std::move(cause)});
}

void VerbsFabric::lose(VerbsPeer& peer, std::string cause) {
  if (peer.is_gone) return;
  const bool was_wanted = peer.has_called && !peer.is_open();
  if (was_wanted) {
    give_up(peer, std::move(cause));
    return;
  }
  peer.is_gone = true;
  ++gone_untold_;
  peer.cause = std::move(cause);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer.talk->fd(), nullptr);  // readable for ever
  if (!peer.is_open()) return;
  take_work();  // what arrived before
  for (std::size_t i = 0; i < peer.lanes.size(); ++i)
    fail_lane(peer, static_cast<std::uint16_t>(i), "the peer is gone");
  fail_lane(peer, kVerbsMessageLane, "the peer is gone");
}

void VerbsFabric::tell_gone(VerbsPeer& peer) {
  peer.is_gone_told = true;
  --gone_untold_;
  tell({.kind = FabricEvent::Kind::kGone, .peer = peer.id, .cause = peer.cause});
}

void VerbsFabric::look_at_peer(VerbsPeer& peer) {
  const FabricPeer id = peer.id;
  if (peer.phase == VerbsPeer::Phase::kDialing) {
    on_dialed(peer);
    return;
  }
  std::vector<std::byte> bytes;
  TcpGot got = TcpGot::kBytes;
  for (int looks = 0; looks < kMostLooks && got == TcpGot::kBytes; ++looks)
    got = peer.talk->receive(bytes);
  peer.frames.append(bytes);
  VerbsFrame frame;
  while (peers_[id.value].get() == &peer && !peer.is_gone) {
    const VerbsFrameReader::Got next = peer.frames.next(frame);
    if (next == VerbsFrameReader::Got::kNothing) break;
    if (next == VerbsFrameReader::Got::kFrame) {
      on_frame(peer, frame);
      continue;
    }
    ++nonsense_;
    if (next == VerbsFrameReader::Got::kOtherVersion)
      lose(peer, "it speaks version " + std::to_string(peer.frames.other_version()) +
                     " of the verbs exchange, this side version " + std::to_string(kVerbsVersion) +
                     "; update the older one");
    else
      lose(peer, "it said by TCP what does not belong there");
  }
  if (peers_[id.value].get() != &peer) return;
  if (got == TcpGot::kEnd && !peer.is_gone)
    lose(peer,
         "its end of the connection was closed without farewell: it was killed, crashed or has "
         "exited");
  if (peer.is_gone && peer.phase == VerbsPeer::Phase::kCalled) free_peer(peer);
}

void VerbsFabric::take_callers(std::uint16_t listener) {
  while (opening_ < kMostStrangers) {
    VerbsListener::Caller caller = listeners_[listener].calls->accept();
    if (caller.talk == nullptr) return;
    const int fd = caller.talk->fd();
    const auto taken = take_peer(std::move(caller.talk), caller.from.to_string());
    if (!taken.ok()) return;  // its end is closed
    VerbsPeer& peer = *taken.value();
    peer.address = listener;
    if (const Status watched = watch(fd, peer.id.value, EPOLLIN | EPOLLRDHUP); !watched.ok())
      free_peer(peer);
  }
}

// Who has called and does not say what it wants, and ways that carry nothing: a device may try for
// ever.
void VerbsFabric::end_vain_attempts(Time when) {
  for (const auto& holder : peers_) {
    if (!holder || holder->is_gone) continue;
    if (holder->phase == VerbsPeer::Phase::kProbing && when - holder->since > kLongestProbe)
      on_probed(*holder, kVerbsMessageLane, false);
    else if (holder->phase == VerbsPeer::Phase::kCalled && when - holder->since > kSilentCaller)
      free_peer(*holder);
  }
}

void VerbsFabric::look_around() {
  if (--turns_to_look_ != 0) return;
  std::array<epoll_event, 64> ready;
  const int count = ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), 0);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t what = ready[static_cast<std::size_t>(i)].data.u64;
    const std::uint64_t mark = what & ~0xffffffffULL;
    const auto index = static_cast<std::uint32_t>(what);
    if (mark == kListenerMark)
      take_callers(static_cast<std::uint16_t>(index));
    else if (mark == kDeviceMark)
      take_device_events(index);
    else if (mark == 0 && index < peers_.size() && peers_[index])
      look_at_peer(*peers_[index]);
  }
  if (opening_ != 0) end_vain_attempts(now());
  if (troubles_ != 0) mend(now());
  const bool is_idle = open_peers_.empty() || opening_ != 0;
  turns_to_look_ = is_idle ? 1 : troubles_ != 0 ? kTurnsInTrouble : kTurnsBetweenLooks;
}

std::size_t VerbsFabric::poll_events(std::span<FabricEvent> out) {
  look_around();
  if (opening_ != 0 || gone_untold_ != 0) [[unlikely]]
    take_work();  // what was sent there and back, and what comes back of queue pairs that ended
  if (gone_untold_ != 0) [[unlikely]]
    for (const auto& peer : peers_)
      if (peer && peer->is_gone && !peer->is_gone_told && has_drained(*peer)) tell_gone(*peer);
  std::size_t count = 0;
  while (count < out.size() && !events_.empty()) {
    out[count++] = std::move(events_.front());
    events_.pop_front();
  }
  return count;
}

}  // namespace spindrift
