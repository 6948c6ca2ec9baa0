#include "transport/message/message_open.h"

#include <algorithm>

#include "spindrift/tunables.h"

#include "absl/strings/str_cat.h"
#include "transport/cc_recorder.h"
#include "transport/open_connection.h"
#include "transport/wire/hello.h"

namespace spindrift {
namespace {

// A reliable medium says nothing of queues: what is measured is when the other process gets its
// turn, which takes up to so long. Windows are made for it.
constexpr Duration kTurnOfPeer = std::chrono::milliseconds(1);
constexpr std::size_t kBurstsUnderWay = 1024;

// Of the packets that a read becomes, as congestion control counts them: the MTU of RDMA networks.
constexpr std::uint32_t kReadMtu = 4096;

Rate link_rate(const MessageContext& ctx, const MessageConnection& c) {
  constexpr std::uint64_t kDefaultRate = 100'000'000'000;
  if (!c.options.link_rate.is_unlimited()) return c.options.link_rate;
  const Rate own = ctx.fabric.caps().link_rate;
  return own.is_unlimited() ? Rate::bits_per_second(kDefaultRate) : own;
}

FlowInfo flow_info(const MessageContext& ctx, const MessageConnection& c) {
  FlowInfo info;
  info.now = ctx.now;
  info.base_rtt = c.options.base_rtt != Duration{} ? c.options.base_rtt : kTurnOfPeer;
  info.host_latency = kTurnOfPeer;
  info.link_rate = link_rate(ctx, c);
  info.mtu_bytes = c.payload_mtu;
  info.max_window_bytes = std::uint64_t{ctx.config.window_packets} * info.mtu_bytes;
  return info;
}

// Reads are answered by the device of the peer: what they measure is the network.
FlowInfo fetch_info(const MessageContext& ctx, const MessageConnection& c) {
  const FabricCaps& caps = ctx.fabric.caps();
  FlowInfo info;
  info.now = ctx.now;
  info.base_rtt = c.options.base_rtt != Duration{} ? c.options.base_rtt : caps.read_rtt;
  info.link_rate = link_rate(ctx, c);
  info.mtu_bytes = std::min(kReadMtu, c.payload_mtu);
  const std::uint32_t lane = std::max(c.options.lane_bytes, caps.read_chunk_bytes);
  info.max_window_bytes =
      std::max(std::uint64_t{c.options.path_count} * lane, own_window_bytes(caps));
  return info;
}

Error not_made(std::string_view kind, const std::string& chosen) {
  return Error(ErrorCode::kUnavailable,
               absl::StrCat(std::string(kind), " ", chosen,
                            ": the plug-in could not make an instance; its own documentation may "
                            "say what it needs"));
}

Status check_algorithm(const MessageContext& ctx, const ConnectOptions& options,
                       const CcTraits& traits) {
  const std::string& name = ctx.fabric.caps().name;
  if (traits.needs_telemetry)
    return Error(ErrorCode::kUnsupported,
                 absl::StrCat(options.congestion_control,
                              " needs in-band telemetry of the switches, which provider ", name,
                              " does not bring; choose another, such as nscc"));
  if (traits.is_receiver_driven)
    return Error(ErrorCode::kUnsupported,
                 absl::StrCat(options.congestion_control,
                              " needs credit from the receiver's link, and provider ", name,
                              " shares none with others; choose another, such as nscc"));
  return ok_status();
}

Result<Flow> make_flow(const MessageContext& ctx, MessageConnection& c, const FlowInfo& info,
                       std::uint32_t burst_bytes) {
  auto algorithm = c.cc.info->create(info, c.cc.values);
  if (algorithm == nullptr) return not_made("congestion control", c.options.congestion_control);
  if (!ctx.config.cc_record.empty())
    algorithm =
        std::make_unique<CcRecorder>(std::move(algorithm), c.cc, info, ctx.config.cc_record);
  return Flow(std::move(algorithm), std::max(burst_bytes, info.mtu_bytes), info.max_window_bytes,
              LimitCheck(info, c.cc.info->traits, c.counters.cc_limits_clamped));
}

Status open_fetching(const MessageContext& ctx, MessageConnection& c) {
  const FlowInfo info = fetch_info(ctx, c);
  auto flow = make_flow(ctx, c, info, c.options.chunk_bytes);
  if (!flow.ok()) return flow.error();
  c.fetching.emplace(std::move(flow).value(), c.options.path_count);
  c.fetching->link_rate = info.link_rate;
  c.fetching->measures_base_rtt = c.options.base_rtt == Duration{};
  return ok_status();
}

}  // namespace

MessageConnection* take_slot(MessageContext& ctx) {
  if (ctx.free_slots.empty()) return nullptr;
  const std::uint16_t index = ctx.free_slots.front();
  ctx.free_slots.erase(ctx.free_slots.begin());
  auto c = std::make_unique<MessageConnection>();
  const std::uint16_t generation = ++ctx.generations[index];
  c->index = index;
  c->id = ConnId{(static_cast<std::uint32_t>(generation) << 16) | index};
  if (c->id.value == 0) c->id.value = (1U << 16) | index;
  c->nonce = ctx.rng.next() | 1;
  ctx.connections[index] = std::move(c);
  return ctx.connections[index].get();
}

Status set_options(MessageContext& ctx, MessageConnection& c, const ConnectOptions& options) {
  Status status = check_connect_options(options, ctx.shared_queues.size());
  if (!status.ok()) return status;
  auto cc = ctx.registry.find_congestion_control(options.congestion_control);
  if (!cc.ok()) return cc.error();
  status = check_algorithm(ctx, options, cc.value().info->traits);
  if (!status.ok()) return status;
  const auto selector = ctx.registry.find_path_selector(options.path_selector);
  if (!selector.ok()) return selector.error();
  const auto loss_rule = ctx.registry.find_loss_rule(options.loss_rule);
  if (!loss_rule.ok()) return loss_rule.error();
  c.options = options;
  c.cc = std::move(cc).value();
  c.selector = selector.value();
  SharedReceiveQueue* shared = nullptr;
  if (options.shared_receive_queue.value != 0)
    shared = ctx.shared_queues[options.shared_receive_queue.value - 1].get();
  if (!c.receives || shared != nullptr) c.receives.emplace(ctx.config.receive_queue, shared);
  return status;
}

Status make_bounces(MessageContext& ctx) {
  if (!ctx.bounce.empty()) return ok_status();
  ctx.bounce.resize(std::size_t{kBounceBytes} * kBounces);
  const Status added = ctx.fabric.add_region(kBounceRegion, ctx.bounce);
  if (!added.ok()) {
    ctx.bounce = {};
    return added;
  }
  for (std::uint8_t number = kBounces; number != 0; --number)
    ctx.free_bounces.push_back(number);
  return ok_status();
}

Status open_data(MessageContext& ctx, MessageConnection& c) {
  // A medium may have fewer than were asked for, and the peer may want fewer.
  const std::uint32_t paths =
      std::min<std::uint32_t>(c.options.path_count, ctx.fabric.reach(c.peer).lanes);
  c.options.path_count = paths;
  auto selector = c.selector->create(paths, ctx.rng.next());
  if (selector == nullptr) return not_made("path selector", c.options.path_selector);
  auto flow = make_flow(ctx, c, flow_info(ctx, c), c.options.burst_bytes);
  if (!flow.ok()) return flow.error();
  c.paths.emplace(std::move(selector), paths);
  c.paths->count_wild_picks_in(c.counters.path_picks_out_of_range);
  c.flow.emplace(std::move(flow).value());
  const MessageFabric::Reach reach = ctx.fabric.reach(c.peer);
  if (reach.reads_peer) {
    const Status opened = open_fetching(ctx, c);
    if (!opened.ok()) return opened;
  }
  c.sprays_messages = ctx.fabric.caps().sprays_messages;
  c.may_offer = !c.has_crc && reach.is_read_by_peer;
  c.requests.emplace(ctx.config.send_queue);
  c.responses.emplace(std::size_t{ctx.config.max_reads});
  c.bursts.emplace(kBurstsUnderWay);
  c.arrivals.emplace(ctx.fabric.caps().max_held);
  c.heard_since = ctx.now;
  return ok_status();
}

}  // namespace spindrift
