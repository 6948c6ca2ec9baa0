#include "plugins/nccl/engine.h"

#include <algorithm>
#include <array>
#include <thread>

#include <pthread.h>

#include "spindrift/open.h"

#include "plugins/nccl/handle.h"
#include "plugins/nccl/log.h"

namespace spindrift::nccl {
namespace {

constexpr std::size_t kBatch = 64;
// A turn that finds nothing may cost a system call, or several: this many calls share it.
constexpr std::uint32_t kIdleCalls = 12;
constexpr std::uint32_t kIdleCallsShm = 3;
// After so many of them nothing seems to be near: no other is made before as much time has passed
// as the last one took, up to kLongestPause if it was preempted.
constexpr std::uint32_t kPatientTurns = 48;
constexpr Duration kLongestPause = std::chrono::microseconds(5);
constexpr std::uint32_t kTurnsPerEvents = 64;
constexpr Duration kLinger = std::chrono::milliseconds(200);
constexpr std::uint32_t kIndexBits = 16;  // of a link's number; the rest is its generation
constexpr int kTurnsAfterAbort = 64;

std::atomic<std::uint32_t>& forks() {
  static std::atomic<std::uint32_t> count{0};
  return count;
}

void count_fork() {
  forks().fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

std::uint32_t fork_count() {
  // Where it cannot be registered, for want of memory, children are not told apart.
  static const int registered = ::pthread_atfork(nullptr, nullptr, count_fork);
  static_cast<void>(registered);
  return forks().load(std::memory_order_relaxed);
}

Result<std::unique_ptr<Engine>> Engine::open(const Place& place, const PluginSettings& settings) {
  auto endpoint = open_endpoint(place.open, settings.open);
  if (!endpoint.ok()) return endpoint.error();
  const auto listening = endpoint.value()->listen(place.listen);
  if (!listening.ok()) return listening.error();
  return std::unique_ptr<Engine>(new Engine(std::move(endpoint).value(), settings, place));
}

Engine::Engine(std::unique_ptr<Endpoint> endpoint, const PluginSettings& settings,
               const Place& place)
    : endpoint_(std::move(endpoint)),
      connect_(settings.connect),
      addresses_(endpoint_->local_addresses()),
      name_(place.listen.substr(0, place.listen.find("://"))),
      shm_id_(place.shm_id),
      forks_(fork_count()) {
  if (place.has_several_rails) connect_.path_selector = settings.merged_path_selector;
}

Engine::~Engine() {
  if (endpoint_ == nullptr) return;
  const Time give_up = endpoint_->now() + kLinger;
  const auto has_farewell = [this] {
    for (const Slot& slot : slots_)
      if (slot.is_closing) return true;
    return false;
  };
  while (has_farewell() && endpoint_->now() < give_up) {
    endpoint_->progress();
    take_events();
    std::array<Completion, kBatch> ignored;
    static_cast<void>(endpoint_->poll(ignored));
    if (has_farewell()) endpoint_->wait(std::chrono::milliseconds(1));
  }
  endpoint_.reset();
}

void Engine::abandon() {
  static_cast<void>(endpoint_.release());
  for (Slot& slot : slots_)
    static_cast<void>(slot.mailbox.memory.release());
}

bool Engine::is_foreign() const {
  return forks().load(std::memory_order_relaxed) != forks_;
}

void Engine::lock() {
  while (!try_lock())
    std::this_thread::yield();
}

// Everything that is complete goes to its link; returns how many.
std::size_t Engine::take_completions() {
  std::array<Completion, kBatch> done;
  std::size_t count = 0;
  std::size_t total = 0;
  do {
    count = endpoint_->poll(done);
    total += count;
    for (std::size_t i = 0; i < count; ++i) {
      has_trouble_ = has_trouble_ || done[i].status != OpStatus::kOk;
      Slot* slot = find(static_cast<std::uint32_t>(done[i].user_data >> 32));
      if (slot != nullptr && slot->link != nullptr) slot->link->on_completion(done[i]);
    }
  } while (count == kBatch);
  return total;
}

void Engine::progress() {
  if (idle_calls_to_skip_ != 0) {
    --idle_calls_to_skip_;
    return;
  }
  const bool is_patient = idle_turns_ >= kPatientTurns && !is_shm();
  const Time begin = is_patient ? endpoint_->now() : Time{};
  if (is_patient && begin < next_turn_) {
    idle_calls_to_skip_ = kIdleCalls;
    return;
  }
  if (take_completions() == 0) {
    ++idle_turns_;
    idle_calls_to_skip_ = is_shm() ? kIdleCallsShm : kIdleCalls;
    if (is_patient) {
      const Time end = endpoint_->now();
      next_turn_ = end + std::min(end - begin, kLongestPause);
    }
  } else {
    idle_turns_ = 0;
  }
  if (has_trouble_ || turns_to_events_ == 0) {
    has_trouble_ = false;
    turns_to_events_ = kTurnsPerEvents;
    take_events();
  }
  --turns_to_events_;
}

void Engine::progress_now() {
  expect_news();
  progress();
  take_events();
}

void Engine::take_events() {
  std::array<ConnEvent, 16> events;
  for (;;) {
    const std::size_t count = endpoint_->poll_events(events);
    for (std::size_t i = 0; i < count; ++i)
      on_event(events[i]);
    if (count < events.size()) return;
  }
}

void Engine::on_event(const ConnEvent& event) {
  if (event.kind == ConnEvent::Kind::kRequest) {
    on_request(event.conn);
    return;
  }
  Slot* slot = find(event.conn);
  if (slot == nullptr) {
    if (event.kind != ConnEvent::Kind::kEstablished) endpoint_->release(event.conn);
    return;
  }
  if (event.kind == ConnEvent::Kind::kEstablished) {
    if (slot->link != nullptr) slot->link->on_open();
    return;
  }
  if (slot->link != nullptr) {
    // What had arrived before the end is not lost.
    static_cast<void>(take_completions());
    std::string why = endpoint_->last_error(event.conn);
    if (why.empty()) why = "the peer has closed the connection";
    slot->link->on_failed(why);
    return;  // its owner detaches it
  }
  free(*slot);
}

void Engine::on_request(ConnId conn) {
  const auto info = endpoint_->info(conn);
  if (!info.ok()) return;
  const auto greeting = read_greeting(info.value().private_data);
  std::string reason;
  if (!greeting.ok()) {
    reason = greeting.error().message();
  } else {
    for (const Expected& one : expected_) {
      if (one.nonce != greeting.value().nonce) continue;
      one.caller->on_request(*this, conn, greeting.value().mailbox);
      return;
    }
    reason = "nobody here waits for that connection: its listener is closed, or was another job's";
  }
  inform(kLogNet, "refused a connection from " + info.value().remote_address + ": " + reason);
  static_cast<void>(endpoint_->reject(conn, reason));
}

Engine::Slot* Engine::find(std::uint32_t number) {
  const std::uint32_t index = number & ((1U << kIndexBits) - 1);
  if (index >= slots_.size() || slots_[index].number != number) return nullptr;
  return &slots_[index];
}

Engine::Slot* Engine::find(ConnId conn) {
  if (conn == ConnId{}) return nullptr;
  for (Slot& slot : slots_)
    if (slot.conn == conn) return &slot;
  return nullptr;
}

std::uint32_t Engine::attach(Link& link, ConnId conn) {
  std::size_t index = 0;
  while (index < slots_.size() && slots_[index].number != 0)
    ++index;
  if (index == slots_.size()) slots_.emplace_back();
  Slot& slot = slots_[index];
  slot.link = &link;
  slot.conn = conn;
  slot.is_closing = false;
  // Never zero, so that no work of an earlier link is taken for this one's.
  next_generation_ = (next_generation_ % 0xffff) + 1;
  slot.number = next_generation_ << kIndexBits | static_cast<std::uint32_t>(index);
  return slot.number;
}

void Engine::set_connection(std::uint32_t number, ConnId conn) {
  if (Slot* slot = find(number)) slot->conn = conn;
}

void Engine::detach(std::uint32_t number, Ending ending, Mailbox mailbox) {
  Slot* slot = find(number);
  if (slot == nullptr) return;
  slot->link = nullptr;
  slot->mailbox = std::move(mailbox);
  expect_news();
  const auto info = endpoint_->info(slot->conn);
  if (!info.ok() || info.value().state == ConnState::kFailed ||
      info.value().state == ConnState::kClosed) {
    free(*slot);
    return;
  }
  slot->is_closing = ending != Ending::kAbort;
  if (ending == Ending::kFarewell) endpoint_->close(slot->conn);
  if (ending == Ending::kAbort) endpoint_->abort(slot->conn);
  endpoint_->progress();  // what has to be said leaves now
  take_events();
}

void Engine::free(Slot& slot) {
  if (slot.conn != ConnId{}) endpoint_->release(slot.conn);
  if (slot.mailbox.memory != nullptr)
    static_cast<void>(endpoint_->deregister_memory(slot.mailbox.region));
  slot = Slot{};
}

void Engine::expect(std::uint64_t nonce, Caller& caller) {
  expected_.push_back({.nonce = nonce, .caller = &caller});
}

void Engine::forget(std::uint64_t nonce) {
  std::erase_if(expected_, [&](const Expected& one) { return one.nonce == nonce; });
}

Result<MemoryRegion> Engine::region_of(std::uint32_t registration, std::span<std::byte> bytes) {
  if (registration < regions_.size() && regions_[registration].remote.key != 0)
    return regions_[registration];
  auto made = endpoint_->register_memory(bytes, Access::kLocalWrite | Access::kRemoteWrite,
                                         {.is_line_ordered = true});
  if (!made.ok()) return made;
  if (registration >= regions_.size()) regions_.resize(registration + 1);
  regions_[registration] = made.value();
  return made;
}

void Engine::drop_region(std::uint32_t registration) {
  if (registration >= regions_.size() || regions_[registration].remote.key == 0) return;
  Status dropped = endpoint_->deregister_memory(regions_[registration]);
  if (!dropped.ok()) {
    // Its owner takes it away while requests are under way: what names it must end first.
    for (Slot& slot : slots_)
      if (slot.link != nullptr && slot.link->uses(registration)) endpoint_->abort(slot.conn);
    for (int i = 0; i < kTurnsAfterAbort && !dropped.ok(); ++i) {
      expect_news();
      progress();
      dropped = endpoint_->deregister_memory(regions_[registration]);
    }
  }
  if (!dropped.ok()) warn("memory stays registered: " + dropped.error().message());
  regions_[registration] = MemoryRegion{};
}

}  // namespace spindrift::nccl
