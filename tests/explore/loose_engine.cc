#include "tests/explore/loose_engine.h"

#include <array>

#include "spindrift/open.h"

#include "transport/completions.h"
#include "transport/handshake.h"
#include "transport/poster.h"

namespace spindrift::test {
namespace {

constexpr std::size_t kBatch = 16;

void append(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

}  // namespace

NetAddress host_address(std::uint8_t number) {
  NetAddress address{.port = kDefaultPort, .family = 4};
  address.ip = {10, 0, 0, number};
  return address;
}

LooseEngine::LooseEngine(std::uint8_t number, const EndpointConfig& config, std::uint64_t seed)
    : rails_{host_address(number)} {
  caps_.name = "loose";
  caps_.max_packet_bytes = 1500;
  caps_.entropies = 8;
  caps_.has_ecn = true;
  caps_.copies_on_send = true;
  EngineIdentity identity;
  identity.host_id = number;
  identity.seed = seed;
  identity.progresses_alone = config.has_guardian;
  engine_ = std::make_unique<PacketEngine>(config, builtin_registry(), *this, identity);
}

void LooseEngine::listen(const ListenOptions& options) {
  Listener listener;
  listener.id = ListenerId{static_cast<std::uint32_t>(context().listeners.size() + 1)};
  listener.options = options;
  listener.rails = {0};
  listener.is_open = true;
  context().listeners.push_back(listener);
}

Connection* LooseEngine::connect(const NetAddress& remote, const ConnectOptions& options,
                                 Time now) {
  ConnectTarget target;
  target.remotes = {remote};
  target.rails = {0};
  const auto conn = start_connect(context(), target, options, now);
  return conn.ok() ? context().find(conn.value()) : nullptr;
}

PostResult LooseEngine::post(const WorkRequest& work, Time now) {
  return post_work(context(), {&work, 1}, now);
}

void LooseEngine::deliver(const Datagram& datagram, Time now) {
  RxPacket packet;
  packet.bytes = datagram.bytes;
  packet.arrival = now;
  packet.source = datagram.source;
  packet.ecn = Ecn::kEct0;
  engine_->on_packets({&packet, 1}, now);
}

void LooseEngine::turn(Time now, std::vector<Datagram>& out) {
  std::array<std::array<std::byte, kMaxHeaderBytes>, kBatch> headers{};
  std::array<TxPacket, kBatch> packets{};
  engine_->on_timers(now);
  while (engine_->has_something_to_send()) {
    for (std::size_t i = 0; i < kBatch; ++i) {
      packets[i] = TxPacket{};
      packets[i].header = headers[i];
    }
    const std::size_t count = engine_->poll_transmit(packets, now);
    for (std::size_t i = 0; i < count; ++i) {
      const TxPacket& packet = packets[i];
      Datagram& datagram = out.emplace_back();
      datagram.bytes.reserve(packet.total_bytes());
      append(datagram.bytes, packet.header);
      for (std::size_t k = 0; k < packet.payload_pieces; ++k)
        append(datagram.bytes, packet.payload[k]);
      append(datagram.bytes, std::span(packet.trailer).first(packet.trailer_bytes));
      datagram.source = rails_[0];
      datagram.to = *packet.to;
    }
  }
  on_released(context(), context().transmissions);
}

void LooseEngine::take_completions(std::vector<Completion>& out) {
  EngineContext& ctx = context();
  while (!ctx.completions.is_empty()) {
    while (!ctx.completions.is_empty()) {
      out.push_back(ctx.completions.front());
      ctx.completions.pop_front();
    }
    if (ctx.blocked_on_queue != 0) resume_blocked(ctx);
  }
}

void LooseEngine::take_events(std::vector<ConnEvent>& out) {
  EngineContext& ctx = context();
  for (; !ctx.events.is_empty(); ctx.events.pop_front())
    out.push_back(ctx.events.front());
}

}  // namespace spindrift::test
