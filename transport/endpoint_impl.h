#pragma once
// The endpoint over a PacketIo: the loop, and the user's calls under the loop's lock.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "spindrift/endpoint.h"

#include "transport/answer_predictor.h"
#include "transport/endpoint_waiter.h"
#include "transport/packet_engine.h"

namespace spindrift {

// Held by whoever runs the loop. Free of cost when there is no guardian.
class LoopLock {
 public:
  explicit LoopLock(bool is_shared) : is_shared_(is_shared) {}
  void lock() {
    if (!is_shared_) return;
    while (taken_.test_and_set(std::memory_order_acquire))
      std::this_thread::yield();
  }
  bool try_lock() { return !is_shared_ || !taken_.test_and_set(std::memory_order_acquire); }
  void unlock() {
    if (is_shared_) taken_.clear(std::memory_order_release);
  }

 private:
  const bool is_shared_;
  std::atomic_flag taken_;
};

class EndpointImpl final : public Endpoint, private RailDirectory {
 public:
  EndpointImpl(std::unique_ptr<PacketIo> io, const EndpointConfig& config, const Registry& registry,
               const EngineIdentity& identity);
  ~EndpointImpl() override;
  Status start();  // descriptors and the guardian

  Result<MemoryRegion> register_memory(std::span<std::byte> bytes, Access access,
                                       const RegisterOptions& options) override;
  Status deregister_memory(const MemoryRegion& region) override;
  Result<ListenerId> listen(std::string_view address, const ListenOptions& options) override;
  void stop_listening(ListenerId listener) override;
  std::vector<std::string> local_addresses() const override;
  Result<ConnId> connect(std::string_view address, const ConnectOptions& options) override;
  Status accept(ConnId conn, const ConnectOptions& options) override;
  Status reject(ConnId conn, std::string_view reason) override;
  void close(ConnId conn) override;
  void abort(ConnId conn) override;
  void release(ConnId conn) override;
  std::size_t poll_events(std::span<ConnEvent> out) override;
  bool take_event(ConnEvent::Kind kind, ConnEvent& out) override;
  Result<ConnInfo> info(ConnId conn) const override;
  Status deny_path(ConnId conn, PathId path, bool is_denied) override;
  Result<SharedQueueId> create_shared_receive_queue(std::uint32_t capacity) override;
  PostResult post(std::span<const WorkRequest> work) override;
  PostResult post_shared(SharedQueueId queue, std::span<const WorkRequest> receives) override;
  void progress() override;
  std::size_t poll(std::span<Completion> out) override;
  int wait_fd() override;
  bool arm() override;
  void wait(Duration timeout) override;
  Time next_deadline() const override;
  Time now() const override { return io_->now(); }
  std::string last_error(ConnId conn) const override;
  void counters(CounterWriter& out) const override;
  void counters(ConnId conn, CounterWriter& out) const override;
  void describe(ConnId conn, StateWriter& out) const override;
  std::vector<PathReport> paths(ConnId conn) const override;
  Trace trace() const override;
  Status write_trace() override;

 private:
  // RailDirectory
  std::span<const NetAddress> rails() const override { return io_->rails(); }
  const PacketIoCaps& caps() const override { return io_->caps(); }
  std::uint32_t max_packet_bytes(std::uint16_t rail, const NetAddress& remote) const override {
    return io_->max_packet_bytes(rail, remote);
  }
  Status open_entropies(std::uint16_t rail, std::uint16_t count) override {
    return io_->open_entropies(rail, count);
  }

  void turn();
  void receive_some(Time now);
  void transmit_some(Time now);
  void transmit_posted(ConnId conn, Time now);
  bool has_news() const;
  void watch_provider();
  void run_guardian();
  void wake_guardian();  // the caller changed something; it may not call progress() soon
  bool caller_was_here(Time now) const;

  Result<std::vector<NetAddress>> resolve(std::string_view address, bool needs_host) const;
  Result<std::uint16_t> find_or_add_rail(const NetAddress& local);
  Result<std::vector<std::uint16_t>> rails_for(const std::vector<NetAddress>& remotes,
                                               const ConnectOptions& options);
  Result<std::vector<std::uint16_t>> named_rails(const std::vector<std::string>& addresses);
  std::string url_of(const NetAddress& address) const;
  Error remember(ConnId conn, Error error);
  Status append_trace();
  void trace_failures();

  std::unique_ptr<PacketIo> io_;
  mutable LoopLock lock_;
  PacketEngine engine_;
  EngineContext& ctx_;
  std::vector<RxPacket> rx_;
  std::vector<TxPacket> tx_;
  AnswerPredictor answers_;
  EndpointWaiter waiter_;           // the caller's
  EndpointWaiter guardian_waiter_;  // the guardian's
  bool has_descriptors_ = false;
  std::uint64_t traced_events_ = 0;    // of the recorder, already in EndpointConfig::trace
  std::uint64_t traced_failures_ = 0;  // connections_failed when it was written last
  std::atomic<std::int64_t> last_call_ns_{0};
  std::atomic<bool> is_armed_{false};  // the caller sleeps on wait_fd()
  std::atomic<bool> guardian_stops_{false};
  std::atomic<bool> guardian_sleeps_{false};  // until a packet or the deadline it knew of
  std::thread guardian_;
};

}  // namespace spindrift
