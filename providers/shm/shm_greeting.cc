// How connections of the shared-memory fabric come about and end.
#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spindrift/tunables.h"

#include "providers/monotonic_clock.h"
#include "providers/shm/shm_copy.h"
#include "providers/shm/shm_host.h"
#include "providers/shm/shm_names.h"
#include "transport/base/printable.h"
#include "transport/base/random.h"

namespace spindrift {
namespace {

// Looking at the sockets costs a system call: while connections come about at every turn, later at
// every so many.
constexpr std::uint32_t kTurnsBetweenLooks = 256;
constexpr Duration kSilentCaller = std::chrono::seconds(5);
constexpr std::uint64_t kListenerMark = 1ULL << 32;  // in what epoll says

Error refused(const char* what) {
  return Error(ErrorCode::kIo, std::string(what) + ": " + std::system_category().message(errno));
}

}  // namespace

ShmFabric::~ShmFabric() {
  for (const Listener& listener : listeners_) {
    struct stat found {};
    if (::stat(listener.path.c_str(), &found) == 0 && found.st_dev == listener.device &&
        found.st_ino == listener.inode)
      ::unlink(listener.path.c_str());
  }
}

Status ShmFabric::open() {
  epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.is_open()) return refused("epoll_create1 (RLIMIT_NOFILE too low? see ulimit -n)");
  return ok_status();
}

Status ShmFabric::watch(int fd, std::uint64_t what) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u64 = what;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return refused("epoll_ctl");
  return ok_status();
}

Status ShmFabric::check_address(std::string_view address) const {
  const auto path = shm_socket_path(address);
  if (!path.ok()) return path.error();
  return ok_status();
}

Result<std::uint16_t> ShmFabric::add_address(std::string_view address) {
  std::string name(address);
  if (name.empty()) {
    remove_left_behind();
    name = make_shm_name();
  }
  const auto path = shm_socket_path(name);
  if (!path.ok()) return path.error();
  auto socket = listen_shm(path.value());
  if (!socket.ok()) return socket.error();
  const auto index = static_cast<std::uint16_t>(listeners_.size());
  const Status watched = watch(socket.value().get(), kListenerMark | index);
  if (!watched.ok()) return watched.error();
  Listener listener{.path = path.value(), .socket = std::move(socket).value()};
  struct stat found {};
  if (::stat(listener.path.c_str(), &found) == 0) {
    listener.device = found.st_dev;
    listener.inode = found.st_ino;
  }
  listeners_.push_back(std::move(listener));
  names_.push_back(name);
  return index;
}

Result<ShmPeer*> ShmFabric::take_peer(UniqueFd socket, Time now) {
  std::uint32_t index = 0;
  if (!free_peers_.empty()) {
    index = free_peers_.back();
    free_peers_.pop_back();
  } else {
    if (peers_.size() == kMaxShmPeers)
      return Error(ErrorCode::kNoMemory, "too many peers of one shared-memory endpoint");
    index = static_cast<std::uint32_t>(peers_.size());
    peers_.emplace_back();
  }
  peers_[index] = std::make_unique<ShmPeer>();
  ShmPeer& peer = *peers_[index];
  peer.id = FabricPeer{index};
  peer.socket = std::move(socket);
  peer.since = now;
  peer.process = peer_process(peer.socket.get());
  peer.own_probe = random_u64();
  ++opening_;
  turns_to_look_ = 1;
  const Status watched = watch(peer.socket.get(), index);
  if (!watched.ok()) {
    free_peer(peer);
    return watched.error();
  }
  return &peer;
}

void ShmFabric::free_peer(ShmPeer& peer) {
  if (peer.is_gone && !peer.is_gone_told) --gone_untold_;
  if (peer.phase != ShmPeer::Phase::kOpen) --opening_;
  std::erase(open_peers_, &peer);
  const std::uint32_t index = peer.id.value;
  std::erase_if(events_, [&peer](const FabricEvent& event) { return event.peer == peer.id; });
  for (std::size_t i = reads_done_.size(); i != 0; --i) {
    const ReadDone done = reads_done_.front();
    reads_done_.pop_front();
    if (done.peer != peer.id) reads_done_.push_back(done);
  }
  peers_[index].reset();  // closes the socket: the peer is told
  free_peers_.push_back(index);
}

ShmGreeting ShmFabric::greeting(const ShmPeer& peer, ShmGreetingKind kind,
                                std::span<const std::byte> hello) const {
  ShmGreeting out;
  out.version = kShmVersion;
  out.kind = kind;
  out.ring_bytes = peer.layout.ring_bytes;
  if (options_.single_copy != SingleCopy::kOff) {
    out.probe_address = reinterpret_cast<std::uintptr_t>(&peer.own_probe);
    out.probe_value = peer.own_probe;
  }
  out.reads_peer = peer.reach.reads_peer ? 1 : 0;
  out.set_hello(hello);
  return out;
}

Result<FabricPeer> ShmFabric::connect(std::string_view address, std::span<const std::byte> hello,
                                      std::uint16_t lanes) {
  const auto path = shm_socket_path(address);
  if (!path.ok()) return path.error();
  auto socket = connect_shm(path.value());
  if (!socket.ok()) return socket.error();
  const auto taken = take_peer(std::move(socket).value(), now());
  if (!taken.ok()) return taken.error();
  ShmPeer& peer = *taken.value();
  peer.phase = ShmPeer::Phase::kCalling;
  peer.reach.lanes = lanes;
  peer.side = 0;
  peer.layout.ring_bytes = options_.ring_bytes;
  auto file = make_shm_file(peer.layout);
  Status status = file.ok() ? map(peer, file.value().get()) : Status(file.error());
  if (status.ok())
    status = send_greeting(peer.socket.get(), greeting(peer, ShmGreetingKind::kCall, hello),
                           file.value().get());
  if (!status.ok()) {
    free_peer(peer);
    return status.error();
  }
  return peer.id;
}

Status ShmFabric::map(ShmPeer& peer, int fd) {
  auto mapped = ShmMemory::map(fd, peer.layout);
  if (!mapped.ok()) return mapped.error();
  peer.memory = std::move(mapped).value();
  const int other = 1 - peer.side;
  peer.writer.open(peer.memory.slots(peer.side), peer.memory.payload(peer.side),
                   &peer.memory.block(other));
  peer.reader.open(peer.memory.slots(other), peer.memory.payload(other),
                   &peer.memory.block(peer.side));
  open_peers_.push_back(&peer);
  return ok_status();
}

void ShmFabric::probe(ShmPeer& peer, const ShmGreeting& theirs) {
  if (options_.single_copy == SingleCopy::kOff) return;
  peer.reach.reads_peer = can_read_process(peer.process, theirs.probe_address, theirs.probe_value);
}

bool ShmFabric::lacks_single_copy(const ShmPeer& peer) const {
  return options_.single_copy == SingleCopy::kOn && !peer.reach.reads_peer;
}

Status ShmFabric::accept(FabricPeer id, std::span<const std::byte> hello, std::uint16_t lanes) {
  ShmPeer& peer = *peers_[id.value];
  peer.reach.lanes = lanes;
  if (peer.is_gone) return Error(ErrorCode::kUnavailable, "the caller has gone: " + peer.cause);
  Status status = map(peer, peer.file.get());
  if (!status.ok()) return status;
  peer.file = UniqueFd();
  ShmGreeting theirs;
  theirs.probe_address = peer.probe_address;
  theirs.probe_value = peer.probe_value;
  probe(peer, theirs);
  if (lacks_single_copy(peer))
    return Error(ErrorCode::kUnsupported,
                 "shm_single_copy is on, but the kernel does not let this process read the memory "
                 "of the caller (another user, Yama, or another PID namespace)");
  status = send_greeting(peer.socket.get(), greeting(peer, ShmGreetingKind::kAnswer, hello), -1);
  if (status.ok()) peer.phase = ShmPeer::Phase::kAnswered;
  return status;
}

void ShmFabric::refuse(FabricPeer id, std::span<const std::byte> hello) {
  ShmPeer& peer = *peers_[id.value];
  static_cast<void>(  // who has gone needs no answer
      send_greeting(peer.socket.get(), greeting(peer, ShmGreetingKind::kRefuse, hello), -1));
  free_peer(peer);
}

void ShmFabric::drop(FabricPeer id) {
  free_peer(*peers_[id.value]);
}

std::string ShmFabric::describe_peer(FabricPeer id) const {
  const pid_t process = peers_[id.value]->process;
  return process == 0 ? "a process of another PID namespace" : "process " + std::to_string(process);
}

void ShmFabric::start(ShmPeer& peer) {
  peer.phase = ShmPeer::Phase::kOpen;
  --opening_;
}

void ShmFabric::lose(ShmPeer& peer, std::string cause) {
  if (peer.is_gone) return;
  peer.is_gone = true;
  ++gone_untold_;
  peer.cause = std::move(cause);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer.socket.get(), nullptr);  // readable for ever
}

void ShmFabric::tell_gone(ShmPeer& peer) {
  peer.is_gone_told = true;
  --gone_untold_;
  tell({.kind = FabricEvent::Kind::kGone, .peer = peer.id, .cause = peer.cause});
}

void ShmFabric::refuse_call(ShmPeer& peer, const std::string& reason) {
  static_cast<void>(
      send_greeting(peer.socket.get(),
                    greeting(peer, ShmGreetingKind::kNoUse, std::as_bytes(std::span(reason))), -1));
  free_peer(peer);
}

Status ShmFabric::on_call(ShmPeer& peer, ShmReceived& received) {
  const ShmGreeting& call = received.greeting;
  if (call.version != kShmVersion)
    return Error(ErrorCode::kUnsupported, "it speaks version " + std::to_string(call.version) +
                                              " of the shared-memory protocol, this side version " +
                                              std::to_string(kShmVersion) +
                                              "; update the older one");
  const Status bounds = check_bounds(ShmOptions{.ring_bytes = call.ring_bytes});
  if (!bounds.ok()) return bounds;
  peer.layout.ring_bytes = call.ring_bytes;
  const Status file = check_shm_file(received.fd.get(), peer.layout);
  if (!file.ok()) return file;
  peer.side = 1;
  peer.file = std::move(received.fd);
  peer.probe_address = call.probe_address;
  peer.probe_value = call.probe_value;
  peer.phase = ShmPeer::Phase::kAsking;
  const auto hello = call.hello_span();
  tell({.kind = FabricEvent::Kind::kRequest,
        .peer = peer.id,
        .address = peer.address,
        .hello = {hello.begin(), hello.end()}});
  return ok_status();
}

void ShmFabric::on_answer(ShmPeer& peer, const ShmGreeting& answer) {
  const auto hello = answer.hello_span();
  FabricEvent event{
      .kind = FabricEvent::Kind::kAccepted, .peer = peer.id, .hello = {hello.begin(), hello.end()}};
  if (answer.kind == ShmGreetingKind::kRefuse) {
    event.kind = FabricEvent::Kind::kRefused;
    tell(std::move(event));
    return;
  }
  if (answer.kind == ShmGreetingKind::kNoUse) {
    event.kind = FabricEvent::Kind::kRefused;
    event.cause = printable({reinterpret_cast<const char*>(hello.data()), hello.size()});
    event.hello.clear();
    tell(std::move(event));
    return;
  }
  peer.reach.is_read_by_peer = answer.reads_peer != 0;
  probe(peer, answer);
  if (lacks_single_copy(peer)) {
    event.kind = FabricEvent::Kind::kRefused;
    event.hello.clear();
    event.cause =
        "shm_single_copy is on, but the kernel does not let this process read the memory of the "
        "other (another user, Yama, or another PID namespace)";
    tell(std::move(event));
    return;
  }
  static_cast<void>(  // who has gone meanwhile is heard of as such, and may have left a reason
      send_greeting(peer.socket.get(), greeting(peer, ShmGreetingKind::kConfirm, {}), -1));
  start(peer);
  tell(std::move(event));
}

void ShmFabric::on_greeting(ShmPeer& peer, ShmReceived& received) {
  const ShmGreeting& theirs = received.greeting;
  switch (theirs.kind) {
    case ShmGreetingKind::kCall:
      if (peer.phase != ShmPeer::Phase::kCalled) break;
      if (const Status status = on_call(peer, received); !status.ok())
        refuse_call(peer, status.error().message());
      return;
    case ShmGreetingKind::kAnswer:
    case ShmGreetingKind::kRefuse:
    case ShmGreetingKind::kNoUse:
      if (peer.phase != ShmPeer::Phase::kCalling) break;
      on_answer(peer, theirs);
      return;
    case ShmGreetingKind::kConfirm:
      if (peer.phase != ShmPeer::Phase::kAnswered) break;
      peer.reach.is_read_by_peer = theirs.reads_peer != 0;
      start(peer);
      tell({.kind = FabricEvent::Kind::kOpened, .peer = peer.id});
      return;
  }
  ++nonsense_;
  lose(peer, "it said on its socket what does not belong there");
}

void ShmFabric::look_at_peer(ShmPeer& peer) {
  const FabricPeer id = peer.id;
  while (peers_[id.value].get() == &peer && !peer.is_gone) {
    ShmReceived received = receive_greeting(peer.socket.get());
    switch (received.kind) {
      case ShmReceived::Kind::kNothing:
        return;
      case ShmReceived::Kind::kWakeUp:
        break;
      case ShmReceived::Kind::kGreeting:
        on_greeting(peer, received);
        break;
      case ShmReceived::Kind::kNonsense:
        ++nonsense_;
        lose(peer, "it said on its socket what does not belong there");
        break;
      case ShmReceived::Kind::kEnd:
        lose(peer,
             "its end of the connection was closed without farewell: it was killed, crashed "
             "or has exited");
        break;
    }
  }
  if (peers_[id.value].get() == &peer && peer.phase == ShmPeer::Phase::kCalled) free_peer(peer);
}

void ShmFabric::take_callers(std::uint16_t listener) {
  const Time when = now();
  for (;;) {
    UniqueFd socket(::accept4(listeners_[listener].socket.get(), nullptr, nullptr,
                              SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.is_open()) return;
    const auto taken = take_peer(std::move(socket), when);
    if (!taken.ok()) return;  // its end is closed
    taken.value()->address = listener;
    look_at_peer(*taken.value());
  }
}

void ShmFabric::drop_silent_callers(Time when) {
  for (const auto& holder : peers_)
    if (holder && holder->phase == ShmPeer::Phase::kCalled && when - holder->since > kSilentCaller)
      free_peer(*holder);
}

void ShmFabric::look_at_sockets() {
  if (--turns_to_look_ != 0) return;
  const bool is_idle = open_peers_.empty() || opening_ != 0;
  turns_to_look_ = is_idle ? 1 : kTurnsBetweenLooks;
  std::array<epoll_event, 64> ready;
  const int count = ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), 0);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t what = ready[static_cast<std::size_t>(i)].data.u64;
    if ((what & kListenerMark) != 0) {
      take_callers(static_cast<std::uint16_t>(what));
      continue;
    }
    if (what < peers_.size() && peers_[what]) look_at_peer(*peers_[what]);
  }
  if (opening_ != 0 && count == 0) drop_silent_callers(now());
}

std::size_t ShmFabric::poll_events(std::span<FabricEvent> out) {
  look_at_sockets();
  if (gone_untold_ != 0) [[unlikely]]
    for (const auto& peer : peers_)
      if (peer && peer->is_gone && !peer->is_gone_told && !has_news(*peer)) tell_gone(*peer);
  std::size_t count = 0;
  while (count < out.size() && !events_.empty()) {
    out[count++] = std::move(events_.front());
    events_.pop_front();
  }
  return count;
}

}  // namespace spindrift
