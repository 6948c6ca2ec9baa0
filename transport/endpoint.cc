// The loop: the only place where packets meet time and the provider.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "spindrift/tunables.h"

#include "transport/base/host_identity.h"
#include "transport/base/random.h"
#include "transport/cc_recorder.h"
#include "transport/completions.h"
#include "transport/endpoint_impl.h"
#include "transport/endpoint_queues.h"
#include "transport/poster.h"

namespace spindrift {
namespace {

constexpr std::size_t kBatch = 64;
// More than this on a connection is a stream: it goes by turns.
constexpr std::uint32_t kFewInFlight = 2;

}  // namespace

Result<std::unique_ptr<Endpoint>> Endpoint::create(std::unique_ptr<PacketIo> io,
                                                   const EndpointConfig& config,
                                                   const Registry& registry) {
  const Status status = check_bounds(config);
  if (!status.ok()) return status.error();
  EngineIdentity identity;
  identity.host_id = host_identity(config.host_id);
  identity.progresses_alone = config.has_guardian;
  identity.seed = config.seed == 0 ? random_u64() : config.seed;
  if (config.seed == 0) {
    fill_random(std::as_writable_bytes(std::span(identity.cookie_key)));
  } else {  // cookies become PSNs, and with a seed all PSNs repeat
    const std::uint64_t words[] = {~config.seed, config.seed};
    std::memcpy(identity.cookie_key.data(), words, sizeof(words));
  }
  auto endpoint = std::make_unique<EndpointImpl>(std::move(io), config, registry, identity);
  const Status started = endpoint->start();
  if (!started.ok()) return started.error();
  return std::unique_ptr<Endpoint>(std::move(endpoint));
}

EndpointImpl::EndpointImpl(std::unique_ptr<PacketIo> io, const EndpointConfig& config,
                           const Registry& registry, const EngineIdentity& identity)
    : io_(std::move(io)),
      lock_(config.has_guardian),
      engine_(config, registry, *this, identity),
      ctx_(engine_.context()),
      rx_(kBatch),
      tx_(kBatch),
      guardian_(*this, lock_, config),
      trace_file_(config.trace) {}

EndpointImpl::~EndpointImpl() {
  guardian_.stop();
  if (guardian_.is_in_child()) {
    static_cast<void>(io_.release());  // the parent's
    return;
  }
  bool has_open = false;
  for (auto& holder : ctx_.connections) {
    if (!holder) continue;
    has_open = has_open || !is_over(holder->phase);
    engine_.abort(*holder);
  }
  if (has_open) transmit_some(io_->now());
  if (!ctx_.config.trace.empty())
    static_cast<void>(append_trace());  // nobody is left to hear of it
}

Status EndpointImpl::start() {
  if (const Status writable = CcRecorder::check(ctx_.config.cc_record); !writable.ok())
    return writable;
  std::vector<int> fds;
  io_->append_wait_fds(fds);
  return guardian_.start(fds);
}

void EndpointImpl::receive_some(Time now) {
  std::size_t total = 0;
  std::uint64_t bytes = 0;
  while (total < ctx_.config.turn_packets) {
    const std::size_t count = io_->receive(rx_);
    if (count == 0) break;
    const std::span<const RxPacket> packets(rx_.data(), count);
    engine_.on_packets(packets, now);
    for (const RxPacket& packet : packets)
      bytes += packet.bytes.size();
    io_->release(packets);
    total += count;
    if (count < rx_.size())
      break;  // most likely all: asking again would cost a system call for nothing
  }
  engine_.note_backlog(bytes);
  const std::size_t count = io_->poll_errors(errors_);
  for (std::size_t i = 0; i < count; ++i)
    engine_.on_io_error(errors_[i], now);
}

void EndpointImpl::transmit_some(Time now) {
  std::size_t total = 0;
  while (engine_.has_something_to_send() && total < ctx_.config.turn_packets) {
    const std::size_t reserved = io_->reserve(tx_);
    if (reserved == 0) break;
    const std::size_t count = engine_.poll_transmit(std::span<TxPacket>(tx_).first(reserved), now);
    if (count == 0) continue;  // what was ready had nothing to send after all
    io_->send(std::span<const TxPacket>(tx_).first(count));
    total += count;
  }
}

void EndpointImpl::turn() {
  const Time now = io_->now();
  on_released(ctx_, io_->released());  // before acknowledgements come: what they finish needs it
  ctx_.has_new_data = false;
  receive_some(now);
  if (!answers_.defers_after(ctx_.has_new_data, now)) {
    engine_.on_timers(now);
    transmit_some(now);
  }
  if (ctx_.counters.connections_failed != traced_failures_) [[unlikely]]
    trace_failures();
}

// A request that is alone on its connection, or answers what has just come, leaves at once; others
// wait for the turn and go together.
void EndpointImpl::transmit_posted(ConnId conn, Time now) {
  Connection* c = ctx_.find(conn);
  if (c == nullptr || c->phase != Phase::kOpen) return;
  const std::uint32_t most_in_flight = answers_.is_prompt() ? kFewInFlight : 0;
  if (c->send->log.in_flight_packets() > most_in_flight ||
      c->send->queue.requests.size() > kFewInFlight)
    return;
  const std::size_t packets =
      c->send->queue.requests.front().length / c->payload_mtu + kFewInFlight + 2;
  const std::size_t reserved =
      io_->reserve(std::span<TxPacket>(tx_).first(std::min(packets, tx_.size())));
  const std::size_t count =
      engine_.transmit_posted(*c, std::span<TxPacket>(tx_).first(reserved), now);
  if (count == 0) return;
  io_->send(std::span<const TxPacket>(tx_).first(count));
  if (engine_.sends_acks_along()) answers_.on_answer_sent();
}

void EndpointImpl::progress() {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return;
  guardian_.caller_is_here();
  turn();
}

std::size_t EndpointImpl::poll(std::span<Completion> out) {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return 0;
  if (ctx_.completions.is_empty()) {
    guardian_.caller_is_here();
    turn();
  }
  const std::size_t count = drain(ctx_.completions, out);
  if (count != 0 && ctx_.blocked_on_queue != 0) resume_blocked(ctx_);
  return count;
}

PostResult EndpointImpl::post(std::span<const WorkRequest> work) {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return refuse_post_in_child(ctx_.last_error);
  guardian_.wake();
  const Time now = io_->now();
  const PostResult result = post_work(ctx_, work, now);
  if (result.accepted == 0 || work[result.accepted - 1].kind == OpKind::kReceive) return result;
  answers_.on_post(now);
  transmit_posted(work[result.accepted - 1].conn, now);
  return result;
}

PostResult EndpointImpl::post_shared(SharedQueueId queue, std::span<const WorkRequest> receives) {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return refuse_post_in_child(ctx_.last_error);
  if (queue.value == 0 || queue.value > ctx_.shared_queues.size()) {
    ctx_.last_error = "post_shared: no such shared receive queue";
    return {.accepted = 0, .status = PostStatus::kInvalid};
  }
  guardian_.wake();
  return post_shared_receives(ctx_, *ctx_.shared_queues[queue.value - 1], receives);
}

std::size_t EndpointImpl::poll_events(std::span<ConnEvent> out) {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return 0;
  return drain(ctx_.events, out);
}

bool EndpointImpl::take_event(ConnEvent::Kind kind, ConnEvent& out) {
  const std::lock_guard guard(lock_);
  return take_first(ctx_.events, kind, out);
}

bool EndpointImpl::has_news() const {
  return !ctx_.completions.is_empty() || !ctx_.events.is_empty();
}

Time EndpointImpl::next_work() const {
  return engine_.has_something_to_send() || io_->has_unsent() ? io_->now()
                                                              : engine_.next_deadline();
}

int EndpointImpl::wait_fd() {
  return guardian_.caller_fd();
}

bool EndpointImpl::arm() {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return false;
  return guardian_.arm();
}

void EndpointImpl::wait(Duration timeout) {
  if (guardian_.has_descriptors() && arm()) guardian_.sleep(timeout);
}

Time EndpointImpl::next_deadline() const {
  const std::lock_guard guard(lock_);
  return next_work();
}

}  // namespace spindrift
