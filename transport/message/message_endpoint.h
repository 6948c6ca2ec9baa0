#pragma once
// The endpoint over a MessageFabric: the loop, and the user's calls under the loop's lock.
#include <memory>
#include <string>
#include <vector>

#include "spindrift/endpoint.h"

#include "transport/guardian.h"
#include "transport/message/message_context.h"
#include "transport/trace_file.h"

namespace spindrift {

class MessageEndpoint final : public Endpoint, private GuardedLoop {
 public:
  MessageEndpoint(std::unique_ptr<MessageFabric> fabric, const EndpointConfig& config,
                  const Registry& registry, const EngineIdentity& identity);
  ~MessageEndpoint() override;
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
  int wait_fd() override { return guardian_.caller_fd(); }
  bool arm() override;
  void wait(Duration timeout) override;
  Time next_deadline() const override;
  Time now() const override { return fabric_->now(); }
  std::string last_error(ConnId conn) const override;
  void counters(CounterWriter& out) const override;
  void counters(ConnId conn, CounterWriter& out) const override;
  void describe(ConnId conn, StateWriter& out) const override;
  std::vector<PathReport> paths(ConnId conn) const override;
  Trace trace() const override;
  Status write_trace() override;

 private:
  // GuardedLoop
  Time clock() const override { return fabric_->now(); }
  void guarded_turn() override;
  bool has_news() const override { return !ctx_.completions.is_empty() || !ctx_.events.is_empty(); }
  Time next_work() const override;
  bool begin_sleep() override { return fabric_->arm(); }

  void turn();
  void take_events();
  void take_completions();
  void serve_ready();
  void serve(MessageConnection& c);
  void look_at_stirred();
  void settle_all();
  void read_clock();

  // Addresses of a URL, without the scheme.
  Result<std::vector<std::string>> resolve(std::string_view address, bool needs_host) const;
  Result<std::uint16_t> find_or_add(std::string_view address);
  Result<std::vector<std::string>> own_addresses(const std::vector<std::string>& urls);
  std::string url_of(const std::string& address) const;
  Error remember(ConnId conn, Error error);
  Status append_trace();

  std::unique_ptr<MessageFabric> fabric_;
  mutable LoopLock lock_;
  MessageContext ctx_;
  std::vector<FabricCompletion> done_;
  std::vector<FabricEvent> fabric_events_;
  Guardian guardian_;
  TraceFile trace_file_;
  std::uint64_t traced_failures_ = 0;  // connections_failed when it was written last
  std::uint32_t turns_to_clock_ = 0;
};

}  // namespace spindrift
