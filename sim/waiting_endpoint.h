#pragma once
// An endpoint whose wait() lets simulated time pass: for programs that sleep while they wait. All
// else is the endpoint's below.
#include <functional>
#include <string>
#include <vector>

#include "spindrift/endpoint.h"

namespace spindrift::sim {

class WaitingEndpoint final : public Endpoint {
 public:
  using Sleep = std::function<void(Duration)>;
  WaitingEndpoint(Endpoint& below, Sleep sleep) : below_(below), sleep_(std::move(sleep)) {}

  void wait(Duration timeout) override { sleep_(timeout); }

  Result<MemoryRegion> register_memory(std::span<std::byte> bytes, Access access,
                                       const RegisterOptions& options) override {
    return below_.register_memory(bytes, access, options);
  }
  Status deregister_memory(const MemoryRegion& region) override {
    return below_.deregister_memory(region);
  }
  Result<ListenerId> listen(std::string_view address, const ListenOptions& options) override {
    return below_.listen(address, options);
  }
  void stop_listening(ListenerId listener) override { below_.stop_listening(listener); }
  std::vector<std::string> local_addresses() const override { return below_.local_addresses(); }
  Result<ConnId> connect(std::string_view address, const ConnectOptions& options) override {
    return below_.connect(address, options);
  }
  Status accept(ConnId conn, const ConnectOptions& options) override {
    return below_.accept(conn, options);
  }
  Status reject(ConnId conn, std::string_view reason) override {
    return below_.reject(conn, reason);
  }
  void close(ConnId conn) override { below_.close(conn); }
  void abort(ConnId conn) override { below_.abort(conn); }
  void release(ConnId conn) override { below_.release(conn); }
  std::size_t poll_events(std::span<ConnEvent> out) override { return below_.poll_events(out); }
  bool take_event(ConnEvent::Kind kind, ConnEvent& out) override {
    return below_.take_event(kind, out);
  }
  Result<ConnInfo> info(ConnId conn) const override { return below_.info(conn); }
  Status deny_path(ConnId conn, PathId path, bool is_denied) override {
    return below_.deny_path(conn, path, is_denied);
  }
  Result<SharedQueueId> create_shared_receive_queue(std::uint32_t capacity) override {
    return below_.create_shared_receive_queue(capacity);
  }
  PostResult post(std::span<const WorkRequest> work) override { return below_.post(work); }
  PostResult post_shared(SharedQueueId queue, std::span<const WorkRequest> receives) override {
    return below_.post_shared(queue, receives);
  }
  void progress() override { below_.progress(); }
  std::size_t poll(std::span<Completion> out) override { return below_.poll(out); }
  int wait_fd() override { return below_.wait_fd(); }
  bool arm() override { return below_.arm(); }
  Time next_deadline() const override { return below_.next_deadline(); }
  Time now() const override { return below_.now(); }
  std::string last_error(ConnId conn) const override { return below_.last_error(conn); }
  void counters(CounterWriter& out) const override { below_.counters(out); }
  void counters(ConnId conn, CounterWriter& out) const override { below_.counters(conn, out); }
  void describe(ConnId conn, StateWriter& out) const override { below_.describe(conn, out); }
  std::vector<PathReport> paths(ConnId conn) const override { return below_.paths(conn); }
  Trace trace() const override { return below_.trace(); }
  Status write_trace() override { return below_.write_trace(); }

 private:
  Endpoint& below_;
  Sleep sleep_;
};

}  // namespace spindrift::sim
