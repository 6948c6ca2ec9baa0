#pragma once
// Endpoints without a transport: SENDs meet RECEIVEs in order, completions come when a seeded
// generator says so. One thread; time advances by one microsecond per poll.
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "spindrift/endpoint.h"

#include "transport/base/rng.h"

namespace spindrift::collectives {

class FakeEndpoint;

// One direction of a connection: the sender's queue and the receiver's.
struct FakePipe {
  FakeEndpoint* sender = nullptr;
  FakeEndpoint* receiver = nullptr;
  ConnId sender_conn{};
  ConnId receiver_conn{};
  std::deque<WorkRequest> sends;
  std::deque<Sge> send_pieces;
  std::deque<WorkRequest> receives;
  std::deque<Sge> receive_pieces;
};

class FakeWorld {
 public:
  explicit FakeWorld(std::uint64_t seed) : rng(seed) {}
  // Moves some messages, perhaps none.
  void turn();
  FakePipe& pipe(FakeEndpoint& sender, ConnId sender_conn, FakeEndpoint& receiver,
                 ConnId receiver_conn) {
    pipes.push_back(std::make_unique<FakePipe>());
    FakePipe& made = *pipes.back();
    made.sender = &sender;
    made.sender_conn = sender_conn;
    made.receiver = &receiver;
    made.receiver_conn = receiver_conn;
    return made;
  }

  Rng rng;
  Time now{};
  std::vector<std::unique_ptr<FakePipe>> pipes;
  std::uint32_t move_percent = 50;  // chance of each pipe's next message per turn
};

class FakeEndpoint final : public Endpoint {
 public:
  explicit FakeEndpoint(FakeWorld& world) : world_(world) {}

  Result<MemoryRegion> register_memory(std::span<std::byte> bytes, Access access,
                                       const RegisterOptions&) override {
    ++regions_registered;
    return MemoryRegion{.bytes = bytes,
                        .local = {.value = ++next_key_},
                        .remote = {.bytes = bytes.size(), .rights = access}};
  }
  Status deregister_memory(const MemoryRegion&) override {
    ++regions_deregistered;
    return ok_status();
  }
  Result<ListenerId> listen(std::string_view, const ListenOptions&) override {
    return ListenerId{1};
  }
  void stop_listening(ListenerId) override {}
  std::vector<std::string> local_addresses() const override { return {"fake://0"}; }
  Result<ConnId> connect(std::string_view, const ConnectOptions&) override { return ConnId{1}; }
  Status accept(ConnId, const ConnectOptions&) override { return ok_status(); }
  Status reject(ConnId, std::string_view) override { return ok_status(); }
  void close(ConnId) override {}
  void abort(ConnId conn) override { end(conn, OpStatus::kFlushed); }
  void release(ConnId) override {}
  bool take_event(ConnEvent::Kind kind, ConnEvent& out) override {
    const auto found = std::find_if(events.begin(), events.end(),
                                    [kind](const ConnEvent& one) { return one.kind == kind; });
    if (found == events.end()) return false;
    out = *found;
    events.erase(found);
    return true;
  }
  std::size_t poll_events(std::span<ConnEvent> out) override {
    std::size_t count = 0;
    for (; count < out.size() && !events.empty(); ++count) {
      out[count] = events.front();
      events.pop_front();
    }
    return count;
  }
  Result<ConnInfo> info(ConnId) const override { return ConnInfo{}; }
  Status deny_path(ConnId, PathId, bool) override { return ok_status(); }
  Result<SharedQueueId> create_shared_receive_queue(std::uint32_t) override {
    return SharedQueueId{1};
  }
  PostResult post(std::span<const WorkRequest> work) override {
    PostResult result;
    for (const WorkRequest& request : work) {
      if (world_.rng.below(100) < full_percent) return {result.accepted, PostStatus::kQueueFull};
      FakePipe* pipe = find(request.conn, request.kind == OpKind::kSend);
      if (pipe == nullptr || is_dead_) return {result.accepted, PostStatus::kNotConnected};
      (request.kind == OpKind::kSend ? pipe->send_pieces : pipe->receive_pieces)
          .push_back(request.local[0]);
      (request.kind == OpKind::kSend ? pipe->sends : pipe->receives).push_back(request);
      ++result.accepted;
    }
    return result;
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

  // Completes everything of a connection of this endpoint with `status`.
  void end(ConnId conn, OpStatus status) {
    for (const std::unique_ptr<FakePipe>& pipe : world_.pipes) {
      const bool is_sender = pipe->sender == this && pipe->sender_conn == conn;
      const bool is_receiver = pipe->receiver == this && pipe->receiver_conn == conn;
      if (!is_sender && !is_receiver) continue;
      auto& queue = is_sender ? pipe->sends : pipe->receives;
      (is_sender ? pipe->send_pieces : pipe->receive_pieces).clear();
      for (const WorkRequest& request : queue)
        complete(request, 0, status);
      queue.clear();
    }
    is_dead_ = true;
  }
  void complete(const WorkRequest& request, std::uint64_t bytes, OpStatus status) {
    completions.push_back({.user_data = request.user_data,
                           .bytes = bytes,
                           .conn = request.conn,
                           .kind = request.kind,
                           .status = status});
  }

  std::deque<Completion> completions;
  std::deque<ConnEvent> events;
  std::string error;
  std::uint32_t full_percent = 0;  // chance that post() finds its queue full
  std::uint32_t regions_registered = 0;
  std::uint32_t regions_deregistered = 0;

 private:
  FakePipe* find(ConnId conn, bool is_send) {
    for (const std::unique_ptr<FakePipe>& pipe : world_.pipes) {
      if (is_send && pipe->sender == this && pipe->sender_conn == conn) return pipe.get();
      if (!is_send && pipe->receiver == this && pipe->receiver_conn == conn) return pipe.get();
    }
    return nullptr;
  }

  FakeWorld& world_;
  std::uint32_t next_key_ = 0;
  bool is_dead_ = false;
};

inline void FakeWorld::turn() {
  now += std::chrono::microseconds(1);
  for (const std::unique_ptr<FakePipe>& pipe : pipes) {
    while (!pipe->sends.empty() && !pipe->receives.empty() && rng.below(100) < move_percent) {
      const Sge& from = pipe->send_pieces.front();
      const Sge& to = pipe->receive_pieces.front();
      const bool fits = from.bytes <= to.bytes;
      if (fits && from.bytes > 0) std::memcpy(to.data, from.data, from.bytes);
      pipe->receiver->complete(pipe->receives.front(), from.bytes,
                               fits ? OpStatus::kOk : OpStatus::kLocalLength);
      pipe->sender->complete(pipe->sends.front(), from.bytes,
                             fits ? OpStatus::kOk : OpStatus::kRemoteLength);
      pipe->sends.pop_front();
      pipe->send_pieces.pop_front();
      pipe->receives.pop_front();
      pipe->receive_pieces.pop_front();
    }
  }
}

}  // namespace spindrift::collectives
