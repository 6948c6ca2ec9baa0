#include "transport/message/message_handshake.h"

#include <algorithm>
#include <utility>

#include "spindrift/version.h"

#include "absl/strings/str_cat.h"
#include "transport/base/printable.h"
#include "transport/message/message_completions.h"
#include "transport/message/message_open.h"
#include "transport/message/message_receiver.h"
#include "transport/message/message_sender.h"
#include "transport/wire/hello.h"

namespace spindrift {
namespace {

wire::Hello hello_of(const MessageContext& ctx, const MessageConnection& c, wire::HelloKind kind) {
  wire::Hello hello;
  hello.kind = kind;
  hello.version_min = kWireVersionMin;
  hello.version_max = kWireVersionMax;
  hello.nonce = c.nonce;
  hello.peer_nonce = kind == wire::HelloKind::kConnect ? 0 : c.peer_nonce;
  hello.partition_key = ctx.config.partition_key;
  hello.payload_mtu = c.payload_mtu;
  hello.path_count = static_cast<std::uint16_t>(c.options.path_count);
  hello.crc = static_cast<std::uint8_t>(c.options.crc);
  if (kind == wire::HelloKind::kAccept)
    hello.crc = static_cast<std::uint8_t>(c.has_crc ? CrcChoice::kOn : CrcChoice::kOff);
  hello.host_id = ctx.identity.host_id;
  hello.receive_credits = c.receives ? c.receives->credits() : 0;
  hello.window_packets = ctx.config.window_packets;
  hello.max_reads = static_cast<std::uint16_t>(ctx.config.max_reads);
  hello.progresses_alone = ctx.identity.progresses_alone;
  hello.private_bytes = static_cast<std::uint16_t>(c.options.private_data.size());
  std::copy(c.options.private_data.begin(), c.options.private_data.end(),
            hello.private_data.begin());
  return hello;
}

std::vector<std::byte> encoded(const wire::Hello& hello) {
  std::vector<std::byte> out(wire::kMaxHelloBytes);
  out.resize(wire::encode(hello, out));
  return out;
}

std::vector<std::byte> refusal(std::uint64_t nonce, wire::RefuseCode code,
                               const std::string& reason) {
  wire::Hello hello;
  hello.kind = wire::HelloKind::kRefuse;
  hello.version_min = kWireVersionMin;
  hello.version_max = kWireVersionMax;
  hello.peer_nonce = nonce;
  hello.refuse_code = code;
  hello.set_reason(reason);
  return encoded(hello);
}

void take_peer_traits(MessageConnection& c, const wire::Hello& hello) {
  c.peer_nonce = hello.nonce;
  c.peer_mtu = hello.payload_mtu;
  c.peer_crc = hello.crc;
  c.peer_max_reads = hello.max_reads;
  c.peer_credits = hello.receive_credits;
  c.peer_progresses_alone = hello.progresses_alone;
  c.private_data.assign(hello.private_data.begin(),
                        hello.private_data.begin() + hello.private_bytes);
}

std::uint32_t largest_mtu(const MessageContext& ctx, const ConnectOptions& options) {
  return std::min(options.max_payload_mtu, ctx.fabric.caps().max_payload_bytes) /
         wire::kPayloadMtuStep * wire::kPayloadMtuStep;
}

std::uint16_t lanes_wanted(const MessageContext& ctx, const MessageConnection& c) {
  return static_cast<std::uint16_t>(
      std::min<std::uint32_t>(c.options.path_count, ctx.fabric.caps().max_lanes));
}

MessageListener* listener_for(MessageContext& ctx, std::uint16_t address) {
  for (MessageListener& listener : ctx.listeners)
    if (listener.is_open && std::find(listener.addresses.begin(), listener.addresses.end(),
                                      address) != listener.addresses.end())
      return &listener;
  return nullptr;
}

void leave_waiting(MessageContext& ctx, const MessageConnection& c) {
  for (MessageListener& listener : ctx.listeners)
    if (listener.id == c.listener && listener.waiting != 0) --listener.waiting;
}

// Empty: nothing speaks against it.
std::pair<wire::RefuseCode, std::string> judge(const MessageContext& ctx,
                                               const MessageListener* listener,
                                               const wire::Hello& hello) {
  if (listener == nullptr)
    return {wire::RefuseCode::kNobodyListens,
            "the process at this address does not listen for connections"};
  if (hello.version_min > kWireVersionMax || hello.version_max < kWireVersionMin)
    return {wire::RefuseCode::kVersion,
            absl::StrCat("it speaks wire versions ", hello.version_min, "..", hello.version_max,
                         ", this side ", kWireVersionMin, "..", kWireVersionMax,
                         "; update the older one")};
  if (hello.partition_key != ctx.config.partition_key)
    return {wire::RefuseCode::kPartition,
            "its partition key differs from this side's; both need the same "
            "EndpointConfig::partition_key"};
  if (listener->waiting >= listener->options.backlog)
    return {wire::RefuseCode::kNoRoom, absl::StrCat(listener->waiting,
                                                    " requests already wait for accept() "
                                                    "(ListenOptions::backlog)")};
  if (ctx.free_slots.empty())
    return {wire::RefuseCode::kNoRoom, absl::StrCat("all ", ctx.config.max_connections,
                                                    " connections of this endpoint are in use "
                                                    "(EndpointConfig::max_connections)")};
  return {};
}

void on_call(MessageContext& ctx, const FabricEvent& event) {
  ++ctx.counters.hellos_received;
  wire::Hello hello;
  const bool is_sound = wire::parse(event.hello, hello) == wire::ParseError::kOk &&
                        hello.kind == wire::HelloKind::kConnect && hello.nonce != 0 &&
                        hello.crc <= 2 && hello.payload_mtu >= wire::kMinPayloadMtu;
  if (!is_sound) {
    ++ctx.counters.malformed_strangers;
    ctx.fabric.drop(event.peer);
    return;
  }
  MessageListener* listener = listener_for(ctx, event.address);
  const auto [code, reason] = judge(ctx, listener, hello);
  if (!reason.empty()) {
    ++ctx.counters.hellos_refused;
    ctx.fabric.refuse(event.peer, refusal(hello.nonce, code, reason));
    return;
  }
  MessageConnection* c = take_slot(ctx);
  ctx.bind(*c, event.peer);
  ctx.set_phase(*c, Phase::kRequested);
  c->listener = listener->id;
  c->remotes = {ctx.fabric.describe_peer(event.peer)};
  c->locals = {std::string(ctx.fabric.addresses()[event.address])};
  take_peer_traits(*c, hello);
  c->receives.emplace(ctx.config.receive_queue, nullptr);
  c->started = ctx.now;
  ++ctx.half_open;
  ++listener->waiting;
  ctx.push_event(ConnEvent::Kind::kRequest, *c);
}

// Only where a side insists: a medium that is reliable checks what it carries by itself.
bool decide_crc(const MessageConnection& c) {
  return c.options.crc == CrcChoice::kOn || static_cast<CrcChoice>(c.peer_crc) == CrcChoice::kOn;
}

void refuse_peer(MessageContext& ctx, MessageConnection& c, wire::RefuseCode code,
                 const std::string& reason) {
  ctx.fabric.refuse(c.peer, refusal(c.peer_nonce, code, reason));
  c.has_peer = false;
}

Error refuse_at_accept(MessageContext& ctx, MessageConnection& c, wire::RefuseCode code,
                       std::string reason) {
  refuse_peer(ctx, c, code, reason);
  fail_connection(ctx, c, OpStatus::kFlushed,
                  absl::StrCat("refused ", describe_peer(ctx, c), ": ", reason));
  return Error(ErrorCode::kUnavailable, std::move(reason));
}

void open(MessageContext& ctx, MessageConnection& c) {
  ctx.set_phase(c, Phase::kOpen);
  ++ctx.counters.connections_opened;
  c.rtt.add(ctx.now - c.started);
  ctx.push_event(ConnEvent::Kind::kEstablished, c);
  // Shown once, whatever it is: RECEIVEs may have been posted since the HELLO.
  show(ctx, c);
  ctx.arm(c, c.earliest_deadline);
}

void on_accepted(MessageContext& ctx, MessageConnection& c, const FabricEvent& event) {
  wire::Hello hello;
  const bool is_sound = wire::parse(event.hello, hello) == wire::ParseError::kOk &&
                        hello.kind == wire::HelloKind::kAccept && hello.peer_nonce == c.nonce &&
                        hello.payload_mtu >= wire::kMinPayloadMtu &&
                        hello.payload_mtu <= c.payload_mtu &&
                        hello.payload_mtu % wire::kPayloadMtuStep == 0;
  if (!is_sound) {
    ++c.counters.malformed_received;
    fail_connection(ctx, c, OpStatus::kPeerGone,
                    absl::StrCat(describe_peer(ctx, c),
                                 " answered what no version of this "
                                 "library answers"));
    return;
  }
  take_peer_traits(c, hello);
  c.payload_mtu = hello.payload_mtu;
  c.has_crc = hello.crc == static_cast<std::uint8_t>(CrcChoice::kOn);
  const Status opened = open_data(ctx, c);
  if (!opened.ok()) {
    fail_connection(ctx, c, OpStatus::kFlushed, opened.error().message());
    return;
  }
  if (Bulletin::unpack(ctx.fabric.status(c.peer)).flags != 0) {
    fail_connection(ctx, c, OpStatus::kPeerGone,
                    absl::StrCat(describe_peer(ctx, c),
                                 " took its acceptance back: closed before it was open"));
    return;
  }
  open(ctx, c);
}

void on_opened(MessageContext& ctx, MessageConnection& c) {
  --ctx.half_open;
  const Status opened = open_data(ctx, c);
  if (opened.ok()) {
    open(ctx, c);
    return;
  }
  ++ctx.half_open;
  fail_connection(ctx, c, OpStatus::kFlushed, opened.error().message());
}

void on_refused(MessageContext& ctx, MessageConnection& c, const FabricEvent& event) {
  wire::Hello hello;
  std::string reason = event.cause;
  if (reason.empty()) {
    const bool is_sound = wire::parse(event.hello, hello) == wire::ParseError::kOk &&
                          hello.kind == wire::HelloKind::kRefuse && hello.peer_nonce == c.nonce;
    reason = is_sound ? printable(hello.reason_text()) : "it did not say why";
  }
  fail_connection(ctx, c, OpStatus::kPeerGone,
                  absl::StrCat(describe_peer(ctx, c), " refused the connection: ", reason));
}

void on_gone(MessageContext& ctx, MessageConnection& c, const std::string& cause) {
  if (c.phase == Phase::kRequested) leave_waiting(ctx, c);
  if (carries_data(c.phase)) {
    c.peer_shows = Bulletin::unpack(ctx.fabric.status(c.peer));
    if (c.peer_shows.is_over()) {
      on_told(ctx, c, c.peer_shows.done, c.peer_shows.credits);
      if (is_over(c.phase)) return;
      c.has_drained = true;
      settle(ctx, c);
      return;
    }
  }
  if (c.phase == Phase::kClosing) {
    c.error = absl::StrCat(describe_peer(ctx, c), " did not answer the farewell: ", cause);
    end_connection(ctx, c, Phase::kClosed, Bulletin::kClosed);
    return;
  }
  fail_connection(ctx, c, OpStatus::kPeerGone,
                  absl::StrCat(describe_peer(ctx, c), " is gone: ", cause));
}

}  // namespace

Result<ConnId> start_connect(MessageContext& ctx, const MessageTarget& target,
                             const ConnectOptions& options) {
  MessageConnection* c = take_slot(ctx);
  if (c == nullptr)
    return Error(ErrorCode::kNoMemory,
                 absl::StrCat("all ", ctx.config.max_connections,
                              " connections of this endpoint are in use; release closed ones or "
                              "raise EndpointConfig::max_connections"));
  c->is_initiator = true;
  ctx.set_phase(*c, Phase::kConnecting);
  c->remotes = target.remotes;
  c->locals = target.locals;
  Status status = set_options(ctx, *c, options);
  if (status.ok()) {
    c->payload_mtu = largest_mtu(ctx, options);
    c->started = ctx.now;
    c->gives_up = ctx.now + options.connect_timeout;
    const auto peer =
        ctx.fabric.connect(target.remotes[0], encoded(hello_of(ctx, *c, wire::HelloKind::kConnect)),
                           lanes_wanted(ctx, *c));
    if (peer.ok())
      ctx.bind(*c, peer.value());
    else
      status = peer.error();
  }
  if (!status.ok()) {
    free_connection(ctx, *c);
    return status.error();
  }
  ctx.arm(*c, c->gives_up);
  return c->id;
}

Status accept_request(MessageContext& ctx, MessageConnection& c, const ConnectOptions& options,
                      std::vector<std::string> locals) {
  if (c.phase != Phase::kRequested)
    return Error(ErrorCode::kInvalidArgument,
                 c.phase == Phase::kFailed ? c.error : "accept: the connection is not a request");
  Status status = set_options(ctx, c, options);
  if (!status.ok()) return status;
  if (!locals.empty()) c.locals = std::move(locals);
  leave_waiting(ctx, c);
  const auto theirs = static_cast<CrcChoice>(c.peer_crc);
  if ((options.crc == CrcChoice::kOn && theirs == CrcChoice::kOff) ||
      (options.crc == CrcChoice::kOff && theirs == CrcChoice::kOn))
    return refuse_at_accept(ctx, c, wire::RefuseCode::kCrc,
                            "one side insists on CRC, the other on none; set one to auto");
  c.payload_mtu = std::min(largest_mtu(ctx, options),
                           c.peer_mtu / wire::kPayloadMtuStep * wire::kPayloadMtuStep);
  c.has_crc = decide_crc(c);
  c.started = ctx.now;
  c.gives_up = ctx.now + options.connect_timeout;
  status = ctx.fabric.accept(c.peer, encoded(hello_of(ctx, c, wire::HelloKind::kAccept)),
                             lanes_wanted(ctx, c));
  if (!status.ok())
    return refuse_at_accept(ctx, c, wire::RefuseCode::kOther, status.error().message());
  ctx.set_phase(c, Phase::kAccepting);
  ctx.arm(c, c.gives_up);
  return ok_status();
}

Status reject_request(MessageContext& ctx, MessageConnection& c, std::string_view reason) {
  if (c.phase != Phase::kRequested)
    return Error(ErrorCode::kInvalidArgument, "reject: the connection is not a request");
  leave_waiting(ctx, c);
  const std::string why =
      reason.empty() ? std::string("the application gave no reason") : std::string(reason);
  refuse_peer(ctx, c, wire::RefuseCode::kRejected, why);
  c.close_event_sent = true;  // the caller knows
  fail_connection(ctx, c, OpStatus::kFlushed, absl::StrCat("rejected: ", std::string(reason)));
  return ok_status();
}

void on_fabric_event(MessageContext& ctx, const FabricEvent& event) {
  if (event.kind == FabricEvent::Kind::kRequest) {
    on_call(ctx, event);
    return;
  }
  MessageConnection* c = ctx.find(event.peer);
  if (c == nullptr) return;
  switch (event.kind) {
    case FabricEvent::Kind::kRequest:
      return;
    case FabricEvent::Kind::kAccepted:
      on_accepted(ctx, *c, event);
      return;
    case FabricEvent::Kind::kOpened:
      on_opened(ctx, *c);
      return;
    case FabricEvent::Kind::kRefused:
      on_refused(ctx, *c, event);
      return;
    case FabricEvent::Kind::kGone:
      on_gone(ctx, *c, event.cause);
      return;
  }
}

void close_connection(MessageContext& ctx, MessageConnection& c) {
  switch (c.phase) {
    case Phase::kRequested:
      static_cast<void>(reject_request(ctx, c, "closed before it was accepted"));
      return;
    case Phase::kConnecting:
    case Phase::kAccepting:
      c.error = "closed before it was open";
      c.shows.flags |= Bulletin::kUnopened;
      end_connection(ctx, c, Phase::kClosed, Bulletin::kAborted);
      return;
    case Phase::kOpen:
      ctx.set_phase(c, Phase::kDraining);
      c.shows.flags |= Bulletin::kClosing;
      show(ctx, c);
      ctx.make_ready(c);
      return;
    default:
      return;
  }
}

void abort_connection(MessageContext& ctx, MessageConnection& c) {
  if (is_over(c.phase)) return;
  if (c.phase == Phase::kRequested) {
    leave_waiting(ctx, c);
    refuse_peer(ctx, c, wire::RefuseCode::kRejected, "aborted before it was accepted");
  }
  if (c.error.empty()) c.error = "aborted by this side";
  end_connection(ctx, c, Phase::kClosed, Bulletin::kAborted);
}

void advance_close(MessageContext& ctx, MessageConnection& c) {
  if (c.phase != Phase::kDraining || !c.requests->is_empty() || !c.responses->is_empty() ||
      c.read_dones_owed != 0 || !c.arrivals->is_empty())
    return;
  ctx.set_phase(c, Phase::kClosing);
  c.shows.flags |= Bulletin::kClosed;
  show(ctx, c);
  c.close_gives_up = ctx.now + c.options.close_timeout;
  ctx.arm(c, c.close_gives_up);
}

void free_connection(MessageContext& ctx, MessageConnection& c) {
  const std::uint16_t index = c.index;
  if (c.has_peer) ctx.fabric.drop(c.peer);
  if (c.is_blocked_on_queue) --ctx.blocked_on_queue;
  if (c.requests)
    for (std::size_t i = 0; i < c.requests->size(); ++i)
      let_go(ctx, (*c.requests)[i]);
  if (c.receives)
    for (std::size_t i = 0; i < c.receives->size(); ++i)
      if (c.receives->at(i).state != ReceiveSlot::State::kVacant)
        drop_all(ctx.memory, c.receives->at(i).posted.list());
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
  ctx.connections[index].reset();
  ctx.free_slots.push_back(index);
}

std::string describe_peer(const MessageContext& ctx, const MessageConnection& c) {
  const std::string who = c.has_peer ? ctx.fabric.describe_peer(c.peer) : std::string();
  if (c.remotes.empty()) return "peer " + who;
  if (who.empty() || who == c.remotes[0]) return "peer " + c.remotes[0];
  return absl::StrCat("peer ", ctx.fabric.caps().name, "://", c.remotes[0], " (", who, ")");
}

}  // namespace spindrift
