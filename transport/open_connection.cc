#include "transport/open_connection.h"

#include <algorithm>

#include "spindrift/tunables.h"

#include "absl/strings/str_cat.h"
#include "transport/cc_recorder.h"
#include "transport/describe.h"
#include "transport/receiver_credit.h"

namespace spindrift {
namespace {

constexpr std::uint32_t kMtuStep = 128;
constexpr std::array<std::uint32_t, 6> kMtuLadder = {16256, 8832, 4096, 1408, 1152, 512};
constexpr Duration kUnknownRtt = std::chrono::microseconds(50);
constexpr Duration kShortestRtt = std::chrono::microseconds(5);

// Of a HELLO as long as the largest packet nothing is needed once the connection is open.
void retire_hello(EngineContext& ctx, Connection& c) {
  if (!c.hello_bytes.empty() && ctx.transmissions > ctx.released) {
    ctx.orphaned_hellos.push_back(
        {.bytes = std::move(c.hello_bytes), .last_transmission = ctx.transmissions});
    ctx.is_release_awaited = true;
  }
  c.hello_bytes = std::vector<std::byte>{};  // "= {}" would keep the memory
}

FlowInfo flow_info(const EngineContext& ctx, const Connection& c, Time now) {
  constexpr std::uint64_t kDefaultRate = 100'000'000'000;
  std::uint64_t rate = c.options.link_rate.bits_per_second();
  if (rate == 0) {
    const std::uint64_t own = ctx.rails.caps().link_rate.bits_per_second();
    rate = std::min(own == 0 ? UINT64_MAX : own,
                    c.peer.link_rate_bps == 0 ? UINT64_MAX : c.peer.link_rate_bps);
    if (rate == UINT64_MAX) rate = kDefaultRate;
  }
  FlowInfo info;
  info.now = now;
  info.base_rtt = c.options.base_rtt;
  if (info.base_rtt == Duration{})
    info.base_rtt = c.rtt.has_sample() ? std::max(c.rtt.min(), kShortestRtt) : kUnknownRtt;
  info.host_latency = ctx.rails.caps().host_latency;
  info.link_rate = Rate::bits_per_second(rate);
  info.mtu_bytes = c.payload_mtu + kMaxPacketOverhead + kNominalOverheadBytes;
  info.max_window_bytes = std::uint64_t{ctx.config.window_packets} * info.mtu_bytes;
  if (c.peer.receive_buffer_bytes != 0)
    info.max_window_bytes = std::min(info.max_window_bytes, c.peer.receive_buffer_bytes);
  info.max_window_bytes = std::max<std::uint64_t>(info.max_window_bytes, info.mtu_bytes);
  return info;
}

Error not_made(std::string_view kind, const std::string& chosen, std::string_view name) {
  return Error(ErrorCode::kUnavailable,
               absl::StrCat(std::string(kind), chosen, ": the plug-in could not make an instance (",
                            std::string(name),
                            " returned none from make); its own documentation "
                            "may say what it needs"));
}

}  // namespace

Status check_connect_options(const ConnectOptions& o, std::size_t shared_queues) {
  Status status = check_bounds(o);
  if (!status.ok()) return status;
  if (o.private_data.size() > wire::kMaxPrivateBytes)
    return Error(ErrorCode::kInvalidArgument,
                 absl::StrCat("ConnectOptions::private_data has ", o.private_data.size(),
                              " bytes; it must have at most ", wire::kMaxPrivateBytes));
  if (o.shared_receive_queue.value > shared_queues)
    return Error(ErrorCode::kNotFound, "ConnectOptions::shared_receive_queue names no queue");
  return status;
}

Connection* take_slot(EngineContext& ctx) {
  std::uint16_t index = 0;
  if (ctx.free_slots.empty()) return nullptr;
  index = ctx.free_slots.front();
  ctx.free_slots.erase(ctx.free_slots.begin());
  auto c = std::make_unique<Connection>();
  const std::uint16_t generation = ++ctx.generations[index];
  c->index = index;
  c->id = ConnId{(static_cast<std::uint32_t>(generation) << 16) | index};
  if (c->id.value == 0) c->id.value = (1U << 16) | index;
  c->pdcid = static_cast<std::uint16_t>(index + 1);
  c->nonce = ctx.rng.next() | 1;
  // 2^32 away from zero, so that arithmetic below the first PSN cannot wrap; the wire sees the
  // rest.
  c->first_psn = Psn{(1ULL << 32) + (1ULL << 16) + ctx.rng.below((1ULL << 31) - (1ULL << 16))};
  ctx.connections[index] = std::move(c);
  return ctx.connections[index].get();
}

void free_slot(EngineContext& ctx, Connection& c) {
  const std::uint16_t index = c.index;
  if (c.is_blocked_on_queue) --ctx.blocked_on_queue;
  if (c.credit) close_credit(ctx, c);
  ctx.closed_totals.add(c.counters);
  ctx.timers.arm(index, kNever);
  for (std::size_t i = ctx.ready.size(); i != 0; --i) {
    const std::uint16_t other = ctx.ready.front();
    ctx.ready.pop_front();
    if (other != index) ctx.ready.push_back(other);
  }
  // Nobody can ask about it any more, and unread events must not crowd out later ones.
  for (std::size_t i = ctx.events.size(); i != 0; --i) {
    const ConnEvent event = ctx.events.front();
    ctx.events.pop_front();
    if (event.conn != c.id) ctx.events.push_back(event);
  }
  const auto nonce = ctx.by_nonce.find(c.peer_nonce);
  if (nonce != ctx.by_nonce.end() && nonce->second == index) ctx.by_nonce.erase(nonce);
  retire_hello(ctx, c);
  ctx.connections[index].reset();
  ctx.free_slots.push_back(index);
}

Status set_options(EngineContext& ctx, Connection& c, const ConnectOptions& options) {
  Status status = check_connect_options(options, ctx.shared_queues.size());
  if (!status.ok()) return status;
  auto cc = ctx.registry.find_congestion_control(options.congestion_control);
  if (!cc.ok()) return cc.error();
  if (cc.value().info->traits.needs_telemetry && !ctx.rails.caps().echoes_telemetry)
    return Error(
        ErrorCode::kUnsupported,
        absl::StrCat(options.congestion_control,
                     " needs in-band telemetry of the switches, which provider ",
                     ctx.rails.caps().name, " does not bring; choose another, such as nscc"));
  auto selector = ctx.registry.find_path_selector(options.path_selector);
  if (!selector.ok()) return selector.error();
  const auto loss_rule = ctx.registry.find_loss_rule(options.loss_rule);
  if (!loss_rule.ok()) return loss_rule.error();
  c.options = options;
  c.loss_rule = loss_rule.value()->rule;
  c.cc = std::move(cc).value();
  c.selector = selector.value();
  SharedReceiveQueue* shared =
      options.shared_receive_queue.value == 0
          ? nullptr
          : ctx.shared_queues[options.shared_receive_queue.value - 1].get();
  if (!c.receives || shared != nullptr) {
    if (c.receives && !c.receives->is_empty())
      return Error(ErrorCode::kInvalidArgument,
                   "RECEIVEs were posted on this connection before accept() named a shared queue");
    c.receives.emplace(ctx.config.receive_queue, shared);
  }
  return ok_status();
}

Status make_routes(EngineContext& ctx, Connection& c) {
  struct Pair {
    std::uint16_t rail;
    std::uint16_t remote;
  };
  std::vector<Pair> pairs;
  const std::size_t count = std::max(c.rails.size(), c.remotes.size());
  for (std::size_t k = 0; k < count; ++k) {
    const std::uint16_t rail = c.rails[k % c.rails.size()];
    const auto remote = static_cast<std::uint16_t>(k % c.remotes.size());
    if (ctx.rails.rails()[rail].family == c.remotes[remote].family) pairs.push_back({rail, remote});
  }
  if (pairs.empty())
    return Error(ErrorCode::kInvalidArgument,
                 absl::StrCat("no local rail has the address family of ", describe_peer(c)));
  // A device that has fewer ways out than the caller wishes for gives what it has.
  const auto most = static_cast<std::uint32_t>(pairs.size() * ctx.rails.caps().entropies);
  const std::uint32_t paths = std::min(c.options.path_count, most);
  const auto share = static_cast<std::uint16_t>((paths + pairs.size() - 1) / pairs.size());
  for (const Pair& pair : pairs) {
    Status opened = ctx.rails.open_entropies(pair.rail, share);
    if (!opened.ok()) return opened;
  }
  c.routes.clear();
  for (std::uint32_t p = 0; p < paths; ++p) {
    const Pair& pair = pairs[p % pairs.size()];
    c.routes.push_back({.rail = pair.rail,
                        .entropy = static_cast<std::uint16_t>(p / pairs.size()),
                        .remote = pair.remote});
  }
  return ok_status();
}

void take_peer_traits(Connection& c, const wire::Hello& hello, const NetAddress& source) {
  c.peer_nonce = hello.nonce;
  c.peer.host_id = hello.host_id;
  c.peer.receive_buffer_bytes = hello.receive_buffer_bytes;
  c.peer.link_rate_bps = hello.link_rate_bps;
  c.peer.window_packets = hello.window_packets;
  c.peer.payload_mtu = hello.payload_mtu;
  c.peer.max_reads = hello.max_reads;
  c.peer.progresses_alone = hello.progresses_alone;
  c.peer.private_data.assign(hello.private_data.begin(),
                             hello.private_data.begin() + hello.private_bytes);
  // The rail it was met on comes first: it is known to work. The others follow in the order they
  // had, as put_first() leaves our own: what lay across from each other still does.
  std::vector<NetAddress> rails(hello.rails.begin(), hello.rails.begin() + hello.rail_count);
  const auto met = std::find_if(rails.begin(), rails.end(), [&source](const NetAddress& rail) {
    return rail.is_same_host(source);
  });
  if (met != rails.end()) std::rotate(rails.begin(), met, rails.end());
  if (!rails.empty()) c.remotes = std::move(rails);
  c.last_remote = 0;
}

Status open_data(EngineContext& ctx, Connection& c, std::uint32_t peer_credits, Time now) {
  const auto paths = static_cast<std::uint32_t>(c.routes.size());
  auto selector = c.selector->create(paths, ctx.rng.next());
  if (selector == nullptr)
    return not_made("path selector ", c.options.path_selector, c.selector->name);
  const FlowInfo info = flow_info(ctx, c, now);
  auto algorithm = c.cc.info->create(info, c.cc.values);
  if (algorithm == nullptr)
    return not_made("congestion control ", c.options.congestion_control, c.cc.info->name);
  c.paths.emplace(std::move(selector), paths);
  c.paths->count_wild_picks_in(c.counters.path_picks_out_of_range);
  if (!ctx.config.cc_record.empty() && !c.cc.info->traits.needs_telemetry)
    algorithm =
        std::make_unique<CcRecorder>(std::move(algorithm), c.cc, info, ctx.config.cc_record);
  c.flow.emplace(
      std::move(algorithm), std::max<std::uint64_t>(c.options.burst_bytes, info.mtu_bytes),
      info.max_window_bytes, LimitCheck(info, c.cc.info->traits, c.counters.cc_limits_clamped));
  const std::uint32_t window = std::min(ctx.config.window_packets,
                                        c.peer.window_packets == 0 ? 128U : c.peer.window_packets);
  retire_hello(ctx, c);
  c.send.emplace(ctx.config, window, paths, Psn{c.first_psn.value + 1});
  c.send->peer_window = std::max<std::uint64_t>(c.peer.window_packets, 1);
  c.send->peer_credits = peer_credits;
  c.receive.emplace(ctx.config.window_packets, Psn{c.peer_first_psn.value + 1});
  c.receive->waiting.reserve(std::size_t{2} * ctx.config.max_reads + 1);
  c.receive->ack.told_credits = c.receives->credits();
  c.receive->ack.is_due_per_burst = ctx.rails.caps().max_burst_bytes != 0;
  c.last_heard = now;
  if (c.cc.info->traits.is_receiver_driven) open_credit(ctx, c);
  if (ctx.identity.progresses_alone && c.options.keepalive != Duration{})
    c.next_keepalive = now + c.options.keepalive;
  return ok_status();
}

std::uint32_t largest_payload_mtu(const EngineContext& ctx, const Connection& c) {
  std::uint32_t packet = UINT32_MAX;
  for (const PathRoute& route : c.routes)
    packet = std::min(packet, ctx.rails.max_packet_bytes(route.rail, c.remotes[route.remote]));
  if (packet < kMinPayloadMtu + kMaxPacketOverhead) return 0;
  const std::uint32_t payload = (packet - kMaxPacketOverhead) / kMtuStep * kMtuStep;
  return std::min({payload, c.options.max_payload_mtu, kMaxPayloadMtu});
}

std::uint32_t next_smaller_mtu(std::uint32_t payload_mtu) {
  for (const std::uint32_t step : kMtuLadder)
    if (step < payload_mtu) return step;
  return 0;
}

}  // namespace spindrift
