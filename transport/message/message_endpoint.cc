// The loop: the only place where messages meet time and the fabric.
#include "transport/message/message_endpoint.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "spindrift/tunables.h"

#include "transport/base/host_identity.h"
#include "transport/base/random.h"
#include "transport/cc_recorder.h"
#include "transport/endpoint_queues.h"
#include "transport/message/message_arrivals.h"
#include "transport/message/message_completions.h"
#include "transport/message/message_handshake.h"
#include "transport/message/message_lanes.h"
#include "transport/message/message_poster.h"
#include "transport/message/message_reads.h"
#include "transport/message/message_receiver.h"
#include "transport/message/message_sender.h"
#include "transport/message/message_timers.h"

namespace spindrift {
namespace {

constexpr std::size_t kBatch = 32;
// Bytes that one turn takes in, give or take a batch.
constexpr std::uint64_t kTurnBytes = 1U << 20U;
// The clock costs more than an idle turn does; deadlines may be late by so many turns of a caller
// that polls. One that sleeps reads it every time.
constexpr std::uint32_t kTurnsPerClock = 16;

}  // namespace

Result<std::unique_ptr<Endpoint>> Endpoint::create(std::unique_ptr<MessageFabric> fabric,
                                                   const EndpointConfig& config,
                                                   const Registry& registry) {
  const Status status = check_bounds(config);
  if (!status.ok()) return status.error();
  EngineIdentity identity;
  identity.host_id = host_identity(config.host_id);
  identity.progresses_alone = config.has_guardian;
  identity.seed = config.seed == 0 ? random_u64() : config.seed;
  auto endpoint = std::make_unique<MessageEndpoint>(std::move(fabric), config, registry, identity);
  const Status started = endpoint->start();
  if (!started.ok()) return started.error();
  return std::unique_ptr<Endpoint>(std::move(endpoint));
}

MessageEndpoint::MessageEndpoint(std::unique_ptr<MessageFabric> fabric,
                                 const EndpointConfig& config, const Registry& registry,
                                 const EngineIdentity& identity)
    : fabric_(std::move(fabric)),
      lock_(config.has_guardian),
      ctx_(config, registry, *fabric_, identity),
      done_(kBatch),
      fabric_events_(kBatch),
      guardian_(*this, lock_, config),
      trace_file_(config.trace) {
  ctx_.now = fabric_->now();
}

MessageEndpoint::~MessageEndpoint() {
  guardian_.stop();
  if (guardian_.is_in_child()) {
    static_cast<void>(fabric_.release());  // the parent's
    return;
  }
  for (auto& holder : ctx_.connections)
    if (holder) abort_connection(ctx_, *holder);
  static_cast<void>(append_trace());  // nobody is left to hear of it
}

Status MessageEndpoint::start() {
  const Status writable = CcRecorder::check(ctx_.config.cc_record);
  if (!writable.ok()) return writable;
  std::vector<int> fds;
  fabric_->append_wait_fds(fds);
  return guardian_.start(fds);
}

void MessageEndpoint::read_clock() {
  // Virtual time costs nothing to read, and passes between two turns.
  turns_to_clock_ = guardian_.has_descriptors() ? kTurnsPerClock : 1;
  ctx_.now = fabric_->now();
  ctx_.recorder.set_time(ctx_.now);
  run_timers(ctx_);
}

void MessageEndpoint::take_events() {
  for (;;) {
    const std::size_t count = fabric_->poll_events(fabric_events_);
    if (count == 0) return;
    read_clock();
    for (std::size_t i = 0; i < count; ++i)
      on_fabric_event(ctx_, fabric_events_[i]);
  }
}

void MessageEndpoint::take_completions() {
  ctx_.turn_bytes = 0;
  std::size_t total = 0;
  while (total < ctx_.config.turn_packets && ctx_.turn_bytes < kTurnBytes) {
    const std::size_t count = fabric_->poll(done_);
    if (count == 0) {
      if (!ctx_.stirred.is_empty()) look_at_stirred();
      if (ctx_.settling != 0) [[unlikely]]
        settle_all();
      return;
    }
    if (count != 0 && done_[0].kind == FabricCompletion::Kind::kRead) ctx_.now = fabric_->now();
    for (std::size_t i = 0; i < count; ++i)
      on_completion(ctx_, done_[i]);
    look_at_stirred();
    total += count;
    // Whoever waits for what has come is not kept waiting for what may still be on its way.
    if (count < done_.size() && !ctx_.completions.is_empty()) return;
  }
}

void MessageEndpoint::look_at_stirred() {
  for (; !ctx_.stirred.is_empty(); ctx_.stirred.pop_front()) {
    MessageConnection* c = ctx_.connections[ctx_.stirred.front()].get();
    if (c == nullptr) continue;
    c->is_stirred = false;
    look_at_arrivals(ctx_, *c);
  }
}

void MessageEndpoint::settle_all() {
  for (auto& holder : ctx_.connections)
    if (holder && holder->settles) settle(ctx_, *holder);
}

void MessageEndpoint::serve(MessageConnection& c) {
  if (!carries_data(c.phase)) return;
  if (is_fetching(c)) look_at_arrivals(ctx_, c);
  if (!carries_data(c.phase)) return;
  if (c.read_dones_owed != 0) send_read_dones(ctx_, c);
  if (c.lane_notes_owed != 0) send_lane_notes(ctx_, c);
  send_responses(ctx_, c);
  send_requests(ctx_, c);
  flush_hopeless(ctx_, c);
  if (!carries_data(c.phase)) return;
  if (c.pending_fault != OpStatus::kOk && c.responses->is_empty()) {
    tell_refusal(ctx_, c);
    return;
  }
  advance_close(ctx_, c);
  if (c.owes_bulletin) show(ctx_, c);
}

// Those that are made ready meanwhile have their turn next time.
void MessageEndpoint::serve_ready() {
  for (std::size_t i = ctx_.ready.size(); i != 0; --i) {
    MessageConnection* c = ctx_.connections[ctx_.ready.front()].get();
    ctx_.ready.pop_front();
    if (c == nullptr) continue;
    c->is_ready = false;
    serve(*c);
  }
}

// What became ready in the turn before is served first: a caller that answers at once has told the
// peer by then what a bulletin would.
void MessageEndpoint::turn() {
  if (turns_to_clock_ == 0 || --turns_to_clock_ == 0) read_clock();
  if (!ctx_.ready.is_empty()) serve_ready();
  take_events();
  take_completions();
  if (ctx_.counters.connections_failed != traced_failures_) [[unlikely]] {
    traced_failures_ = ctx_.counters.connections_failed;
    static_cast<void>(append_trace());  // last_error() has the reason; the turn goes on
  }
}

void MessageEndpoint::guarded_turn() {
  read_clock();
  turn();
  if (!ctx_.ready.is_empty()) serve_ready();
}

void MessageEndpoint::progress() {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return;
  guardian_.caller_is_here();
  turn();
}

std::size_t MessageEndpoint::poll(std::span<Completion> out) {
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

PostResult MessageEndpoint::post(std::span<const WorkRequest> work) {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return refuse_post_in_child(ctx_.last_error);
  guardian_.wake();
  return post_work(ctx_, work);
}

PostResult MessageEndpoint::post_shared(SharedQueueId queue,
                                        std::span<const WorkRequest> receives) {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return refuse_post_in_child(ctx_.last_error);
  if (queue.value == 0 || queue.value > ctx_.shared_queues.size()) {
    ctx_.last_error = "post_shared: no such shared receive queue";
    return {.accepted = 0, .status = PostStatus::kInvalid};
  }
  guardian_.wake();
  return post_shared_receives(ctx_, *ctx_.shared_queues[queue.value - 1], receives);
}

std::size_t MessageEndpoint::poll_events(std::span<ConnEvent> out) {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return 0;
  return drain(ctx_.events, out);
}

bool MessageEndpoint::take_event(ConnEvent::Kind kind, ConnEvent& out) {
  const std::lock_guard guard(lock_);
  return take_first(ctx_.events, kind, out);
}

Time MessageEndpoint::next_work() const {
  return ctx_.ready.is_empty() && ctx_.settling == 0 ? ctx_.timers.next() : fabric_->now();
}

// Before a sleep everything is done that waits for a later turn.
bool MessageEndpoint::arm() {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return false;
  if (!ctx_.ready.is_empty()) serve_ready();
  turns_to_clock_ = 1;  // who wakes up does so for a deadline, perhaps
  return guardian_.arm();
}

void MessageEndpoint::wait(Duration timeout) {
  if (guardian_.has_descriptors() && arm()) guardian_.sleep(timeout);
}

Time MessageEndpoint::next_deadline() const {
  const std::lock_guard guard(lock_);
  return next_work();
}

}  // namespace spindrift
