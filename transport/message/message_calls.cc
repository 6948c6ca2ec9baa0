// The user's control calls: memory, addresses, connections, reports. None is on the hot path.
#include <algorithm>
#include <mutex>
#include <utility>

#include "spindrift/tunables.h"

#include "absl/strings/str_cat.h"
#include "transport/base/random.h"
#include "transport/base/url_options.h"
#include "transport/describe.h"
#include "transport/endpoint_queues.h"
#include "transport/message/message_endpoint.h"
#include "transport/message/message_handshake.h"
#include "transport/message/message_lanes.h"
#include "transport/message/message_open.h"
#include "transport/message/message_receiver.h"

namespace spindrift {
namespace {

constexpr std::size_t kMostAddresses = 16;

Error no_such_connection() {
  return Error(ErrorCode::kNotFound,
               "no such connection: it was released, or the id is another endpoint's");
}

// The fields of one part, told from those of another.
class Prefixed final : public StateWriter {
 public:
  Prefixed(std::string_view prefix, StateWriter& out) : prefix_bytes_(prefix.size()), out_(out) {
    std::copy(prefix.begin(), prefix.end(), name_.begin());
  }
  void field(std::string_view name, double value) override {
    name = name.substr(0, name_.size() - prefix_bytes_);
    std::copy(name.begin(), name.end(), name_.data() + prefix_bytes_);
    out_.field({name_.data(), prefix_bytes_ + name.size()}, value);
  }

 private:
  std::array<char, 80> name_{};  // nothing is allocated here
  std::size_t prefix_bytes_;
  StateWriter& out_;
};

double to_us(Duration duration) {
  return static_cast<double>(duration.count()) / 1e3;
}

}  // namespace

Error MessageEndpoint::remember(ConnId conn, Error error) {
  MessageConnection* c = ctx_.find(conn);
  (c != nullptr ? c->error : ctx_.last_error) = error.message();
  return error;
}

std::string MessageEndpoint::url_of(const std::string& address) const {
  return absl::StrCat(fabric_->caps().name, "://", address);
}

Result<MemoryRegion> MessageEndpoint::register_memory(std::span<std::byte> bytes, Access access,
                                                      const RegisterOptions& options) {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return remember(ConnId{}, used_in_child());
  auto region = ctx_.memory.add(bytes, access, options, random_u64());
  if (!region.ok()) return remember(ConnId{}, region.error());
  const LocalKey key = region.value().local;
  Status added = options.type == MemoryType::kDmaBuf
                     ? fabric_->add_device_region(key, bytes, options.dmabuf_fd)
                     : fabric_->add_region(key, bytes);
  if (added.ok() && options.is_line_ordered) added = make_bounces(ctx_);
  if (!added.ok()) {
    static_cast<void>(ctx_.memory.remove(region.value(), 0));
    return remember(ConnId{}, added.error());
  }
  return region;
}

Status MessageEndpoint::deregister_memory(const MemoryRegion& region) {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return remember(ConnId{}, used_in_child());
  stop_using(ctx_, region);
  Status status = ctx_.memory.remove(region, 0);
  if (!status.ok()) return remember(ConnId{}, status.error());
  fabric_->remove_region(region.local);
  return status;
}

Result<std::vector<std::string>> MessageEndpoint::resolve(std::string_view address,
                                                          bool needs_host) const {
  auto url = parse_url(address);
  if (!url.ok()) return url.error();
  const std::string& name = fabric_->caps().name;
  if (url.value().scheme != name)
    return Error(ErrorCode::kInvalidArgument,
                 absl::StrCat(std::string(address), ": this endpoint speaks ", name, "://, not ",
                              url.value().scheme, "://"));
  if (const Status plain = refuse_url_options(url.value()); !plain.ok()) return plain.error();
  if (needs_host && url.value().hosts.empty())
    return Error(
        ErrorCode::kInvalidArgument,
        absl::StrCat(std::string(address), " names nobody to connect to; write ", name, "://name"));
  if (url.value().hosts.size() > kMostAddresses)
    return Error(
        ErrorCode::kInvalidArgument,
        absl::StrCat(url.value().hosts.size(), " addresses at once; at most ", kMostAddresses));
  for (const std::string& host : url.value().hosts)
    if (const Status checked = fabric_->check_address(host); !checked.ok()) return checked.error();
  return url.value().hosts;
}

Result<std::uint16_t> MessageEndpoint::find_or_add(std::string_view address) {
  const auto known = fabric_->addresses();
  const auto found = std::find(known.begin(), known.end(), address);
  if (found != known.end()) return static_cast<std::uint16_t>(found - known.begin());
  return fabric_->add_address(address);
}

Result<ListenerId> MessageEndpoint::listen(std::string_view address, const ListenOptions& options) {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return remember(ConnId{}, used_in_child());
  const Status status = check_bounds(options);
  if (!status.ok()) return remember(ConnId{}, status.error());
  auto own = resolve(address, false);
  if (!own.ok()) return remember(ConnId{}, own.error());
  MessageListener listener{.options = options, .is_open = true};
  if (own.value().empty()) {
    for (std::size_t i = 0; i < fabric_->addresses().size(); ++i)
      listener.addresses.push_back(static_cast<std::uint16_t>(i));
    if (listener.addresses.empty()) own.value().emplace_back();
  }
  for (const std::string& one : own.value()) {
    const auto index = find_or_add(one);
    if (!index.ok()) return remember(ConnId{}, index.error());
    listener.addresses.push_back(index.value());
  }
  guardian_.wake();
  listener.id = ListenerId{static_cast<std::uint32_t>(ctx_.listeners.size() + 1)};
  ctx_.listeners.push_back(listener);
  return listener.id;
}

void MessageEndpoint::stop_listening(ListenerId listener) {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return;
  for (MessageListener& one : ctx_.listeners)
    if (one.id == listener) one.is_open = false;
}

std::vector<std::string> MessageEndpoint::local_addresses() const {
  const std::lock_guard guard(lock_);
  std::vector<std::string> out;
  for (const std::string& address : fabric_->addresses())
    out.push_back(url_of(address));
  return out;
}

// Of ConnectOptions::local_addresses; with or without the scheme.
Result<std::vector<std::string>> MessageEndpoint::own_addresses(
    const std::vector<std::string>& urls) {
  std::vector<std::string> out;
  for (const std::string& url : urls) {
    std::string_view address = url;
    const std::string scheme = fabric_->caps().name + "://";
    if (address.starts_with(scheme)) address.remove_prefix(scheme.size());
    const auto index = find_or_add(address);
    if (!index.ok()) return index.error();
    out.push_back(fabric_->addresses()[index.value()]);
  }
  if (out.empty()) out.assign(fabric_->addresses().begin(), fabric_->addresses().end());
  return out;
}

Result<ConnId> MessageEndpoint::connect(std::string_view address, const ConnectOptions& options) {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return remember(ConnId{}, used_in_child());
  MessageTarget target;
  auto remotes = resolve(address, true);
  if (!remotes.ok()) return remember(ConnId{}, remotes.error());
  auto own = own_addresses(options.local_addresses);
  if (!own.ok()) return remember(ConnId{}, own.error());
  target.remotes = std::move(remotes).value();
  target.locals = std::move(own).value();
  guardian_.wake();
  ctx_.now = fabric_->now();
  auto conn = start_connect(ctx_, target, options);
  if (!conn.ok()) return remember(ConnId{}, conn.error());
  return conn;
}

Status MessageEndpoint::accept(ConnId conn, const ConnectOptions& options) {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return remember(ConnId{}, used_in_child());
  MessageConnection* c = ctx_.find(conn);
  if (c == nullptr) return remember(ConnId{}, no_such_connection());
  std::vector<std::string> locals;
  if (!options.local_addresses.empty()) {
    auto own = own_addresses(options.local_addresses);
    if (!own.ok()) return remember(conn, own.error());
    locals = std::move(own).value();
  }
  guardian_.wake();
  ctx_.now = fabric_->now();
  Status status = accept_request(ctx_, *c, options, std::move(locals));
  if (!status.ok()) return remember(conn, status.error());
  return status;
}

Status MessageEndpoint::reject(ConnId conn, std::string_view reason) {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return remember(ConnId{}, used_in_child());
  MessageConnection* c = ctx_.find(conn);
  if (c == nullptr) return remember(ConnId{}, no_such_connection());
  return reject_request(ctx_, *c, reason);
}

void MessageEndpoint::close(ConnId conn) {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return;
  guardian_.wake();
  ctx_.now = fabric_->now();
  if (MessageConnection* c = ctx_.find(conn)) close_connection(ctx_, *c);
}

void MessageEndpoint::abort(ConnId conn) {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return;
  if (MessageConnection* c = ctx_.find(conn)) abort_connection(ctx_, *c);
}

void MessageEndpoint::release(ConnId conn) {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return;
  MessageConnection* c = ctx_.find(conn);
  if (c == nullptr) return;
  abort_connection(ctx_, *c);
  free_connection(ctx_, *c);
}

Result<ConnInfo> MessageEndpoint::info(ConnId conn) const {
  const std::lock_guard guard(lock_);
  const MessageConnection* c = ctx_.find(conn);
  if (c == nullptr) return no_such_connection();
  ConnInfo out;
  out.state = state_of(c->phase);
  out.local_address = url_of(c->locals.empty() ? std::string() : c->locals[0]);
  if (!c->remotes.empty()) out.remote_address = url_of(c->remotes[0]);
  out.private_data = c->private_data;
  out.payload_mtu = c->payload_mtu;
  out.path_count = c->options.path_count;
  out.has_crc = c->has_crc;
  out.peer_progresses_alone = c->peer_progresses_alone;
  if (c->cc.info != nullptr) out.congestion_control = std::string(c->cc.info->name);
  if (c->selector != nullptr) out.path_selector = std::string(c->selector->name);
  out.loss_rule = c->options.loss_rule;
  return out;
}

Status MessageEndpoint::deny_path(ConnId conn, PathId path, bool is_denied) {
  const std::lock_guard guard(lock_);
  MessageConnection* c = ctx_.find(conn);
  if (c == nullptr) return remember(ConnId{}, no_such_connection());
  if (!c->paths || path.value >= c->paths->size())
    return remember(conn, Error(ErrorCode::kInvalidArgument,
                                absl::StrCat("path ", path.value, " of ", c->options.path_count,
                                             ", or the connection is not open")));
  deny_lane(ctx_, *c, path, is_denied);
  return ok_status();
}

Result<SharedQueueId> MessageEndpoint::create_shared_receive_queue(std::uint32_t capacity) {
  const std::lock_guard guard(lock_);
  const Status status = add_shared_queue(ctx_.shared_queues, capacity);
  if (!status.ok()) return remember(ConnId{}, status.error());
  return SharedQueueId{static_cast<std::uint32_t>(ctx_.shared_queues.size())};
}

std::string MessageEndpoint::last_error(ConnId conn) const {
  const std::lock_guard guard(lock_);
  const MessageConnection* c = ctx_.find(conn);
  return c == nullptr ? ctx_.last_error : c->error;
}

void MessageEndpoint::counters(CounterWriter& out) const {
  const std::lock_guard guard(lock_);
  EndpointCounters own = ctx_.counters;
  own.guardian_turns = guardian_.turns();
  own.write(out);
  ConnectionCounters sum = ctx_.closed_totals;
  for (const auto& holder : ctx_.connections)
    if (holder) sum.add(holder->counters);
  sum.write(out);
  fabric_->counters(out);
}

void MessageEndpoint::counters(ConnId conn, CounterWriter& out) const {
  const std::lock_guard guard(lock_);
  const MessageConnection* c = ctx_.find(conn);
  if (c != nullptr) c->counters.write(out);
}

void MessageEndpoint::describe(ConnId conn, StateWriter& out) const {
  const std::lock_guard guard(lock_);
  const MessageConnection* c = ctx_.find(conn);
  if (c == nullptr || !c->flow) return;
  out.field("window_bytes", static_cast<double>(c->flow->window_bytes()));
  out.field("in_flight_bytes", static_cast<double>(c->flow->in_flight()));
  out.field("rtt_us", to_us(c->rtt.smoothed()));
  out.field("rtt_min_us", to_us(c->rtt.min()));
  out.field("paths_usable", static_cast<double>(c->paths->usable()));
  out.field("peer_credits", static_cast<double>(c->peer_credits - c->messages_begun));
  out.field("is_read_by_peer", c->may_offer ? 1 : 0);
  c->flow->algorithm().describe(out);
  c->paths->describe(out);
  if (!c->fetching) return;
  const Fetching& fetching = *c->fetching;
  Prefixed fetch("fetch_", out);
  fetch.field("reads_posted", fetching.posted);
  fetch.field("limit_bytes", static_cast<double>(fetching.flow.window_bytes()));
  fetch.field("in_flight_bytes", static_cast<double>(fetching.flow.in_flight()));
  fetch.field("smoothed_rtt_us", to_us(fetching.rtt.smoothed()));
  fetch.field("rtt_min_us", to_us(fetching.rtt.min()));
  fetching.flow.algorithm().describe(fetch);
}

std::vector<PathReport> MessageEndpoint::paths(ConnId conn) const {
  const std::lock_guard guard(lock_);
  std::vector<PathReport> out;
  const MessageConnection* c = ctx_.find(conn);
  if (c == nullptr || !c->paths) return out;
  // The addresses of both sides are joined in the order in which they were named.
  const std::size_t pairs = std::max<std::size_t>(1, std::min(c->locals.size(), c->remotes.size()));
  for (std::uint32_t i = 0; i < c->paths->size(); ++i) {
    const PathId path{static_cast<std::uint16_t>(i)};
    const PathCounters& counted = c->paths->counters(path);
    // What is counted when it is over.
    const bool is_open = c->sprays_messages && c->burst.path == path;
    PathReport report;
    if (!c->locals.empty()) report.local_address = url_of(c->locals[i % pairs]);
    if (!c->remotes.empty()) report.remote_address = url_of(c->remotes[i % pairs]);
    report.state = name_of(c->paths->state(path));
    report.packets_sent = counted.packets_sent + (is_open ? c->burst.packets : 0);
    report.bytes_sent = counted.bytes_sent + (is_open ? c->burst.bytes : 0);
    report.packets_lost = counted.packets_lost;
    report.packets_marked = counted.packets_marked;
    report.rtt = counted.rtt;
    out.push_back(std::move(report));
  }
  return out;
}

Trace MessageEndpoint::trace() const {
  const std::lock_guard guard(lock_);
  return ctx_.recorder.snapshot();
}

Status MessageEndpoint::write_trace() {
  const std::lock_guard guard(lock_);
  return append_trace();
}

Status MessageEndpoint::append_trace() {
  if (!trace_file_.is_wanted()) return ok_status();
  std::vector<TracedConnection> connections;
  for (const auto& holder : ctx_.connections)
    if (holder)
      connections.push_back({.id = holder->id,
                             .peer = holder->remotes.empty() ? "" : url_of(holder->remotes[0]),
                             .error = holder->error});
  const Status written = trace_file_.append(ctx_.recorder, connections);
  if (!written.ok()) return remember(ConnId{}, written.error());
  return ok_status();
}

}  // namespace spindrift
