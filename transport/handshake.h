#pragma once
// Opening a connection: HELLO, ACCEPT, REFUSE, the padded probe of the payload MTU, cookies under a
// flood. docs/WIRE.md, "Opening".
#include <string_view>

#include "spindrift/provider.h"

#include "transport/engine_context.h"

namespace spindrift {

struct ConnectTarget {
  std::vector<NetAddress> remotes;   // at least one
  std::vector<std::uint16_t> rails;  // at least one of a matching family
};
Result<ConnId> start_connect(EngineContext& ctx, const ConnectTarget& target,
                             const ConnectOptions& options, Time now);
// `rails`: empty for the listener's.
Status accept_request(EngineContext& ctx, Connection& c, const ConnectOptions& options,
                      std::vector<std::uint16_t> rails, Time now);
Status reject_request(EngineContext& ctx, Connection& c, std::string_view reason);

// A request that belongs to opening: its delivery header, what follows it, the packet it came in.
struct OpeningRequest {
  const wire::RudRequest& pds;
  std::span<const std::byte> rest;
  const RxPacket& packet;
};
// A packet with SYN: a HELLO from somebody who wants to connect.
void on_hello(EngineContext& ctx, const OpeningRequest& request, Time now);
// ACCEPT or REFUSE for a connection of ours that is connecting.
void on_hello_reply(EngineContext& ctx, Connection& c, const OpeningRequest& reply, Time now);
// ACK of our HELLO (it waits for the application there) or NACK (cookie, no room) while connecting.
void on_hello_ack(Connection& c, const wire::Ack& ack, Time now);
void on_hello_nack(EngineContext& ctx, Connection& c, const wire::Nack& nack, Time now);
// A target that has accepted cannot go on: the initiator is refused, open or not.
void take_acceptance_back(Connection& c, std::string reason);
// The first packet that proves the initiator has our ACCEPT.
void on_first_packet(EngineContext& ctx, Connection& c, Time now);
// The network says that packets of this size do not pass.
void on_too_big(EngineContext& ctx, Connection& c, std::uint32_t max_packet_bytes);

// Several HELLOs or answers of this size brought nothing back: the next one is smaller.
void lower_mtu_if_unanswered(Connection& c);

// How long a request is remembered after its initiator stopped asking.
inline constexpr Duration kForgetRequest = std::chrono::seconds(2);
// The request no longer counts against its listener's backlog.
void leave_waiting(EngineContext& ctx, const Connection& c);

[[nodiscard]] std::size_t send_handshake(EngineContext& ctx, Connection& c, std::span<TxPacket> out,
                                         Time now);
void handshake_timer(EngineContext& ctx, Connection& c, Time now);
[[nodiscard]] Time handshake_deadline(const Connection& c);

}  // namespace spindrift
