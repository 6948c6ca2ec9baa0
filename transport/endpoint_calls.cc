// The user's control calls: memory, connections, reports. None is on the hot path.
#include <algorithm>
#include <mutex>
#include <utility>

#include "spindrift/region_user.h"

#include "absl/strings/str_cat.h"
#include "transport/base/random.h"
#include "transport/completions.h"
#include "transport/connection_timers.h"
#include "transport/describe.h"
#include "transport/endpoint_impl.h"
#include "transport/endpoint_queues.h"
#include "transport/loss_detector.h"
#include "transport/open_connection.h"

namespace spindrift {
namespace {

Error no_such_connection() {
  return Error(ErrorCode::kNotFound,
               "no such connection: it was released, or the id is another endpoint's");
}

double to_us(Duration duration) {
  return static_cast<double>(duration.count()) / 1e3;
}

}  // namespace

Error EndpointImpl::remember(ConnId conn, Error error) {
  Connection* c = ctx_.find(conn);
  (c != nullptr ? c->error : ctx_.last_error) = error.message();
  return error;
}

std::string EndpointImpl::url_of(const NetAddress& address) const {
  return absl::StrCat(io_->caps().name, "://", address.to_string());
}

Result<MemoryRegion> EndpointImpl::register_memory(std::span<std::byte> bytes, Access access,
                                                   const RegisterOptions& options) {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return remember(ConnId{}, used_in_child());
  if (options.type != MemoryType::kHost)
    return remember(ConnId{}, Error(ErrorCode::kUnsupported,
                                    "device memory (dma-buf) cannot be registered with a packet "
                                    "provider: it copies payload with the CPU. Register host "
                                    "memory and copy"));
  auto region = ctx_.memory.add(bytes, access, options, random_u64());
  if (!region.ok()) return remember(ConnId{}, region.error());
  if (auto* user = dynamic_cast<RegionUser*>(io_.get()))
    user->add_region(region.value().local, bytes);
  return region;
}

Status EndpointImpl::deregister_memory(const MemoryRegion& region) {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return remember(ConnId{}, used_in_child());
  on_released(ctx_, io_->released());
  Status status = ctx_.memory.remove(region, ctx_.released);
  if (!status.ok()) return remember(ConnId{}, status.error());
  if (auto* user = dynamic_cast<RegionUser*>(io_.get())) user->remove_region(region.local);
  return status;
}

void EndpointImpl::stop_listening(ListenerId listener) {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return;
  for (Listener& one : ctx_.listeners)
    if (one.id == listener) one.is_open = false;
}

std::vector<std::string> EndpointImpl::local_addresses() const {
  const std::lock_guard guard(lock_);
  std::vector<std::string> out;
  for (const NetAddress& rail : io_->rails())
    out.push_back(url_of(rail));
  return out;
}

Result<ConnId> EndpointImpl::connect(std::string_view address, const ConnectOptions& options) {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return remember(ConnId{}, used_in_child());
  auto remotes = resolve(address, true);
  if (!remotes.ok()) return remember(ConnId{}, remotes.error());
  auto local = rails_for(remotes.value(), options);
  if (!local.ok()) return remember(ConnId{}, local.error());
  ConnectTarget target;
  target.remotes = std::move(remotes).value();
  target.rails = std::move(local).value();
  guardian_.wake();
  auto conn = start_connect(ctx_, target, options, io_->now());
  if (!conn.ok()) return remember(ConnId{}, conn.error());
  return conn;
}

Status EndpointImpl::accept(ConnId conn, const ConnectOptions& options) {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return remember(ConnId{}, used_in_child());
  Connection* c = ctx_.find(conn);
  if (c == nullptr) return remember(ConnId{}, no_such_connection());
  auto local = named_rails(options.local_addresses);
  if (!local.ok()) return remember(conn, local.error());
  guardian_.wake();
  Status status = accept_request(ctx_, *c, options, std::move(local).value(), io_->now());
  if (!status.ok()) {
    if (c->is_ready) transmit_some(io_->now());  // the refusal, while there is somebody to send it
    return remember(conn, status.error());
  }
  return status;
}

Status EndpointImpl::reject(ConnId conn, std::string_view reason) {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return remember(ConnId{}, used_in_child());
  Connection* c = ctx_.find(conn);
  if (c == nullptr) return remember(ConnId{}, no_such_connection());
  guardian_.wake();
  return reject_request(ctx_, *c, reason);
}

void EndpointImpl::close(ConnId conn) {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return;
  guardian_.wake();
  if (Connection* c = ctx_.find(conn)) engine_.close(*c, io_->now());
}

void EndpointImpl::abort(ConnId conn) {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return;
  guardian_.wake();
  if (Connection* c = ctx_.find(conn)) engine_.abort(*c);
}

void EndpointImpl::release(ConnId conn) {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return;
  Connection* c = ctx_.find(conn);
  if (c == nullptr) return;
  if (!is_over(c->phase)) engine_.abort(*c);
  if (c->is_ready) transmit_some(io_->now());  // the peer is told before it is forgotten
  engine_.release(*c);
}

Result<ConnInfo> EndpointImpl::info(ConnId conn) const {
  const std::lock_guard guard(lock_);
  const Connection* c = ctx_.find(conn);
  if (c == nullptr) return no_such_connection();
  ConnInfo out;
  out.state = state_of(c->phase);
  if (!c->rails.empty()) out.local_address = url_of(io_->rails()[c->rails[0]]);
  if (!c->remotes.empty()) out.remote_address = url_of(c->remotes[0]);
  out.private_data = c->peer.private_data;
  out.payload_mtu = c->payload_mtu;
  out.path_count = static_cast<std::uint32_t>(c->routes.size());
  out.has_crc = c->has_crc;
  out.peer_progresses_alone = c->peer.progresses_alone;
  if (c->cc.info != nullptr) out.congestion_control = std::string(c->cc.info->name);
  if (c->selector != nullptr) out.path_selector = std::string(c->selector->name);
  out.loss_rule = c->options.loss_rule;
  return out;
}

Status EndpointImpl::deny_path(ConnId conn, PathId path, bool is_denied) {
  const std::lock_guard guard(lock_);
  Connection* c = ctx_.find(conn);
  if (c == nullptr) return remember(ConnId{}, no_such_connection());
  if (!c->paths || path.value >= c->paths->size())
    return remember(conn, Error(ErrorCode::kInvalidArgument,
                                absl::StrCat("path ", path.value, " of ", c->routes.size(),
                                             ", or the connection is not open")));
  const bool was_denied = c->paths->state(path) == PathState::kDenied;
  c->paths->deny(path, is_denied);
  if (is_denied != was_denied) ctx_.trace_path(*c, path);
  if (is_denied && !was_denied) ++c->denied_paths;
  if (!is_denied && was_denied) --c->denied_paths;
  ctx_.make_ready(*c);
  return ok_status();
}

Result<SharedQueueId> EndpointImpl::create_shared_receive_queue(std::uint32_t capacity) {
  const std::lock_guard guard(lock_);
  const Status status = add_shared_queue(ctx_.shared_queues, capacity);
  if (!status.ok()) return remember(ConnId{}, status.error());
  return SharedQueueId{static_cast<std::uint32_t>(ctx_.shared_queues.size())};
}

std::string EndpointImpl::last_error(ConnId conn) const {
  const std::lock_guard guard(lock_);
  const Connection* c = ctx_.find(conn);
  if (c == nullptr) return ctx_.last_error;
  if (c->error.empty()) return describe_misfits(*c);
  return c->error;
}

void EndpointImpl::counters(CounterWriter& out) const {
  const std::lock_guard guard(lock_);
  EndpointCounters own = ctx_.counters;
  own.guardian_turns = guardian_.turns();
  own.write(out);
  ConnectionCounters sum = ctx_.closed_totals;
  for (const auto& holder : ctx_.connections)
    if (holder) sum.add(holder->counters);
  sum.write(out);
  io_->counters(out);
}

void EndpointImpl::counters(ConnId conn, CounterWriter& out) const {
  const std::lock_guard guard(lock_);
  const Connection* c = ctx_.find(conn);
  if (c != nullptr) c->counters.write(out);
}

void EndpointImpl::describe(ConnId conn, StateWriter& out) const {
  const std::lock_guard guard(lock_);
  const Connection* c = ctx_.find(conn);
  if (c == nullptr || !c->flow) return;
  out.field("window_bytes", static_cast<double>(c->flow->window_bytes()));
  out.field("in_flight_bytes", static_cast<double>(c->flow->in_flight()));
  out.field("pacing_rate_bps",
            static_cast<double>(c->flow->limits().pacing_rate.bits_per_second()));
  out.field("rtt_us", to_us(c->rtt.smoothed()));
  out.field("rtt_min_us", to_us(c->rtt.min()));
  out.field("rto_us", to_us(current_rto(*c)));
  out.field("paths_usable", static_cast<double>(c->paths->usable()));
  out.field("peer_credits",
            static_cast<double>(c->send->peer_credits - c->send->queue.next_receive_sequence));
  c->flow->algorithm().describe(out);
  c->paths->describe(out);
}

std::vector<PathReport> EndpointImpl::paths(ConnId conn) const {
  const std::lock_guard guard(lock_);
  std::vector<PathReport> out;
  const Connection* c = ctx_.find(conn);
  if (c == nullptr || !c->paths) return out;
  for (std::uint32_t i = 0; i < c->paths->size(); ++i) {
    const PathId path{static_cast<std::uint16_t>(i)};
    const PathCounters& counted = c->paths->counters(path);
    PathReport report;
    report.local_address = url_of(io_->rails()[c->routes[i].rail]);
    report.remote_address = url_of(c->remotes[c->routes[i].remote]);
    report.state = name_of(c->paths->state(path));
    report.packets_sent = counted.packets_sent;
    report.bytes_sent = counted.bytes_sent;
    report.packets_lost = counted.packets_lost;
    report.packets_marked = counted.packets_marked;
    report.rtt = counted.rtt;
    out.push_back(std::move(report));
  }
  return out;
}

}  // namespace spindrift
