#pragma once
// Endpoints without a transport: connections by address, SENDs that meet RECEIVEs in order, writes
// into registered memory; what happens when is said by a seeded generator. One thread; time
// advances by one microsecond per poll.
#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "spindrift/endpoint.h"

#include "transport/base/rng.h"

namespace spindrift::collectives {

class FakeEndpoint;

struct FakeMessage {
  WorkRequest request{};
  std::vector<std::byte> bytes;  // of inline messages
  Sge piece{};
};

// One side of a connection.
struct FakeSide {
  FakeEndpoint* owner = nullptr;
  ConnId conn{};
  FakeSide* other = nullptr;
  bool is_open = false;
  bool is_over = false;
  std::vector<std::byte> private_data;  // of the other side
  std::deque<FakeMessage> sends;
  std::deque<FakeMessage> receives;
};

class FakeWorld {
 public:
  explicit FakeWorld(std::uint64_t seed) : rng(seed) {}
  // Moves some messages, perhaps none.
  void turn();
  bool move_one(FakeSide& from);

  Rng rng;
  Time now{};
  std::map<std::string, FakeEndpoint*> addresses;
  std::vector<std::unique_ptr<FakeSide>> sides;
  std::map<std::uint64_t, std::span<std::byte>> regions;  // by remote key
  std::uint64_t next_key = 1;
  std::uint32_t move_percent = 50;  // chance of each side's next message per turn
  // What a hostile sender does to its messages: bytes of SENDs, immediates of writes.
  std::function<void(std::vector<std::byte>& bytes, std::uint32_t& immediate)> meddle{};
};

class FakeEndpoint final : public Endpoint {
 public:
  FakeEndpoint(FakeWorld& world, std::string address)
      : world_(world), address_(std::move(address)) {
    world_.addresses[address_] = this;
  }

  Result<MemoryRegion> register_memory(std::span<std::byte> bytes, Access access,
                                       const RegisterOptions& = {}) override {
    ++regions_registered;
    const std::uint64_t key = world_.next_key++;
    if (has_access(access, Access::kRemoteWrite)) world_.regions[key] = bytes;
    return MemoryRegion{.bytes = bytes,
                        .local = {.value = static_cast<std::uint32_t>(key)},
                        .remote = {.key = key, .bytes = bytes.size(), .rights = access}};
  }
  Status deregister_memory(const MemoryRegion& region) override {
    ++regions_deregistered;
    world_.regions.erase(region.remote.key);
    return ok_status();
  }
  Result<ListenerId> listen(std::string_view, const ListenOptions& = {}) override {
    return ListenerId{1};
  }
  void stop_listening(ListenerId) override {}
  std::vector<std::string> local_addresses() const override { return {address_}; }
  Result<ConnId> connect(std::string_view address, const ConnectOptions& options) override {
    FakeEndpoint* const peer = world_.addresses.at(std::string(address));
    FakeSide& own = add_side();
    FakeSide& other = peer->add_side();
    own.other = &other;
    other.other = &own;
    other.private_data = options.private_data;
    peer->events.push_back({.kind = ConnEvent::Kind::kRequest, .conn = other.conn});
    return own.conn;
  }
  Status accept(ConnId conn, const ConnectOptions&) override {
    FakeSide& own = *find(conn);
    for (FakeSide* side : {&own, own.other}) {
      side->is_open = true;
      side->owner->events.push_back({.kind = ConnEvent::Kind::kEstablished, .conn = side->conn});
    }
    return ok_status();
  }
  Status reject(ConnId conn, std::string_view reason) override {
    FakeSide& own = *find(conn);
    own.other->owner->error = std::string(reason);
    end(*own.other, OpStatus::kFlushed, ConnEvent::Kind::kFailed);
    return ok_status();
  }
  void close(ConnId conn) override { end_both(conn, ConnEvent::Kind::kClosed); }
  void abort(ConnId conn) override { end_both(conn, ConnEvent::Kind::kFailed); }
  void release(ConnId) override {}
  bool take_event(ConnEvent::Kind, ConnEvent&) override { return false; }
  std::size_t poll_events(std::span<ConnEvent> out) override {
    std::size_t count = 0;
    for (; count < out.size() && !events.empty(); ++count) {
      out[count] = events.front();
      events.pop_front();
    }
    return count;
  }
  Result<ConnInfo> info(ConnId conn) const override {
    const FakeSide* const side = find(conn);
    ConnInfo info;
    info.state = side->is_over ? ConnState::kClosed : ConnState::kOpen;
    info.private_data = side->private_data;
    return info;
  }
  Status deny_path(ConnId, PathId, bool) override { return ok_status(); }
  Result<SharedQueueId> create_shared_receive_queue(std::uint32_t) override {
    return SharedQueueId{1};
  }
  PostResult post(std::span<const WorkRequest> work) override {
    const WorkRequest& request = work[0];
    FakeSide* const side = find(request.conn);
    const bool is_receive = request.kind == OpKind::kReceive;
    if (!is_receive && world_.rng.below(100) < full_percent) return {0, PostStatus::kQueueFull};
    if (side->is_over || (!is_receive && !side->is_open)) return {0, PostStatus::kNotConnected};
    FakeMessage message{.request = request, .bytes = {}, .piece = request.local[0]};
    if (request.is_inline) {
      message.bytes.assign(message.piece.data, message.piece.data + message.piece.bytes);
    }
    (is_receive ? side->receives : side->sends).push_back(std::move(message));
    if (!is_receive) ++posted;
    return {1, PostStatus::kOk};
  }
  PostResult post_shared(SharedQueueId, std::span<const WorkRequest>) override { return {}; }
  void progress() override { world_.turn(); }
  std::size_t poll(std::span<Completion> out) override {
    if (completions.empty()) progress();
    std::size_t count = 0;
    for (; count < out.size() && !completions.empty(); ++count) {
      out[count] = completions.front();
      completions.pop_front();
    }
    return count;
  }
  int wait_fd() override { return -1; }
  bool arm() override { return false; }
  void wait(Duration timeout) override { world_.now += timeout; }
  Time next_deadline() const override { return kNever; }
  Time now() const override { return world_.now; }
  std::string last_error(ConnId) const override { return error; }
  void counters(CounterWriter&) const override {}
  void counters(ConnId, CounterWriter&) const override {}
  void describe(ConnId, StateWriter&) const override {}
  std::vector<PathReport> paths(ConnId) const override { return {}; }

  // This process is gone: all its connections fail at the other end, with `cause`.
  void die(const std::string& cause) {
    for (const std::unique_ptr<FakeSide>& side : world_.sides) {
      if (side->owner != this || side->is_over) continue;
      side->other->owner->error = cause;
      end(*side->other, OpStatus::kPeerGone, ConnEvent::Kind::kFailed);
      side->is_over = true;
    }
  }
  void complete(const WorkRequest& request, std::uint64_t bytes, OpStatus status) {
    if (request.is_unsignaled && status == OpStatus::kOk) return;
    completions.push_back({.user_data = request.user_data,
                           .bytes = bytes,
                           .conn = request.conn,
                           .kind = request.kind,
                           .status = status});
  }

  std::deque<Completion> completions;
  std::deque<ConnEvent> events;
  std::string error;
  std::uint32_t full_percent = 0;  // chance that post() finds its send queue full
  std::uint32_t regions_registered = 0;
  std::uint32_t regions_deregistered = 0;
  std::uint64_t posted = 0;  // sends and writes

 private:
  FakeSide& add_side() {
    world_.sides.push_back(std::make_unique<FakeSide>());
    FakeSide& side = *world_.sides.back();
    side.owner = this;
    side.conn = ConnId{static_cast<std::uint32_t>(world_.sides.size())};
    return side;
  }
  FakeSide* find(ConnId conn) const { return world_.sides.at(conn.value - 1).get(); }
  void end_both(ConnId conn, ConnEvent::Kind kind) {
    FakeSide& own = *find(conn);
    if (own.is_over) return;
    // What was posted still arrives, as far as there is room.
    while (own.is_open && world_.move_one(own)) {
    }
    end(own, OpStatus::kFlushed, ConnEvent::Kind::kClosed);
    if (own.other != nullptr) end(*own.other, OpStatus::kFlushed, kind);
  }
  static void end(FakeSide& side, OpStatus status, ConnEvent::Kind kind) {
    if (side.is_over) return;
    side.is_over = true;
    for (std::deque<FakeMessage>* queue : {&side.sends, &side.receives}) {
      for (const FakeMessage& message : *queue)
        side.owner->complete(message.request, 0, status);
      queue->clear();
    }
    side.owner->events.push_back({.kind = kind, .conn = side.conn});
  }

  FakeWorld& world_;
  const std::string address_;
};

inline bool FakeWorld::move_one(FakeSide& from) {
  FakeSide& to = *from.other;
  if (from.sends.empty() || to.receives.empty() || to.is_over) return false;
  const FakeMessage message = std::move(from.sends.front());
  const FakeMessage target = std::move(to.receives.front());
  from.sends.pop_front();
  to.receives.pop_front();
  const std::byte* source = message.bytes.empty() ? message.piece.data : message.bytes.data();
  std::uint32_t bytes = message.piece.bytes;
  std::uint32_t immediate = message.request.immediate;
  std::vector<std::byte> changed;
  if (meddle) {
    changed.assign(source, source + bytes);
    meddle(changed, immediate);
    source = changed.data();
    bytes = static_cast<std::uint32_t>(changed.size());
  }
  Completion arrived{.user_data = target.request.user_data,
                     .bytes = bytes,
                     .conn = to.conn,
                     .kind = OpKind::kReceive};
  OpStatus status = OpStatus::kOk;
  if (message.request.kind == OpKind::kWriteImm) {
    const auto region = regions.find(message.request.remote_key);
    const bool fits =
        region != regions.end() && message.request.remote_offset + bytes <= region->second.size();
    if (fits) std::memcpy(region->second.data() + message.request.remote_offset, source, bytes);
    status = fits ? OpStatus::kOk : OpStatus::kRemoteBounds;
    arrived.immediate = immediate;
    arrived.has_immediate = true;
  } else if (bytes <= target.piece.bytes) {
    if (bytes > 0) std::memcpy(target.piece.data, source, bytes);
  } else {
    status = OpStatus::kRemoteLength;
  }
  if (status == OpStatus::kOk) to.owner->completions.push_back(arrived);
  from.owner->complete(message.request, bytes, status);
  return true;
}

inline void FakeWorld::turn() {
  now += std::chrono::microseconds(1);
  // A call may add a side. NOLINTNEXTLINE(modernize-loop-convert)
  for (std::size_t i = 0; i < sides.size(); ++i) {
    while (sides[i]->is_open && rng.below(100) < move_percent && move_one(*sides[i])) {
    }
  }
}

}  // namespace spindrift::collectives
