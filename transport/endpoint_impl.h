#pragma once
// The endpoint over a PacketIo: the loop, and the user's calls under the loop's lock.
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "spindrift/endpoint.h"

#include "transport/answer_predictor.h"
#include "transport/guardian.h"
#include "transport/packet_engine.h"
#include "transport/trace_file.h"

namespace spindrift {

class EndpointImpl final : public Endpoint, private RailDirectory, private GuardedLoop {
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

  // GuardedLoop
  Time clock() const override { return io_->now(); }
  void guarded_turn() override { turn(); }
  bool has_news() const override;
  Time next_work() const override;

  void turn();
  void receive_some(Time now);
  void transmit_some(Time now);
  void transmit_posted(ConnId conn, Time now);
  void watch_provider();

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
  std::array<IoError, 8> errors_{};
  AnswerPredictor answers_;
  Guardian guardian_;
  TraceFile trace_file_;
  std::uint64_t traced_failures_ = 0;  // connections_failed when it was written last
};

}  // namespace spindrift
