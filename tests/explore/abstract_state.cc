#include <algorithm>
#include <bit>
#include <string_view>

#include "tests/explore/explorer.h"
#include "transport/connection_timers.h"

namespace spindrift::test {
namespace {

class Digest {
 public:
  void add(std::uint64_t value) {
    state_ = (state_ ^ value) * 0x9E3779B97F4A7C15ULL;
    state_ ^= state_ >> 29;
  }
  void add_bytes(std::span<const std::byte> bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    add(std::hash<std::string_view>{}(text));
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0x243F6A8885A308D3ULL;
};

// Whether a timer runs and about how long: 1, 2, 4, ... microseconds.
std::uint64_t roughly(Time when, Time now) {
  if (when == kNever) return 100;
  if (when <= now) return 0;
  return 1 + static_cast<std::uint64_t>(
                 std::bit_width(static_cast<std::uint64_t>((when - now).count()) / 1000));
}

void add_sender(Digest& digest, Connection& c, Time now) {
  SendState& send = *c.send;
  for (Psn psn = send.log.oldest(); psn < send.log.next(); ++psn.value) {
    const SentUnit& unit = *send.log.find(psn);
    digest.add(static_cast<std::uint64_t>(unit.state) << 8 |
               std::min<std::uint64_t>(unit.transmissions, 3));
  }
  digest.add(send.log.next().value);
  for (std::size_t i = 0; i < send.queue.requests.size(); ++i) {
    const Request& request = send.queue.requests[i];
    digest.add(static_cast<std::uint64_t>(request.state) << 40 |
               std::uint64_t{request.sent_bytes} << 20 | request.response_bytes);
  }
  digest.add(send.queue.responses.size());
  digest.add(send.peer_credits);
  digest.add(send.stalled ? send.stalled->value : 0);
  digest.add(std::min(send.timeouts_in_row, 2U));
  digest.add(send.wants_close ? 1 : 0);
  for (const Time when : {send.tail_probe, send.confirm_probe, send.stalled_retry,
                          send.credit_probe, send.loss.next_check})
    digest.add(when == kNever ? 0 : 1);
  digest.add(roughly(next_timer(c, now), now));
}

void add_receiver(Digest& digest, Connection& c) {
  ReceiveState& receive = *c.receive;
  digest.add(receive.log.cumulative().value);
  digest.add(receive.log.newest().value);
  digest.add(receive.log.newest() > receive.log.cumulative()
                 ? receive.log.bitmap(Psn{receive.log.cumulative().value + 1})
                 : 0);
  digest.add(receive.waiting.size());
  digest.add(receive.has_fault ? receive.fault_psn.value : 0);
  digest.add(receive.has_close ? receive.close_psn.value : 0);
  for (std::size_t i = 0; i < c.receives->size(); ++i)
    digest.add(static_cast<std::uint64_t>(c.receives->at(i).state) << 32 |
               c.receives->at(i).received_bytes);
}

void add_connection(Digest& digest, Connection& c, Time now) {
  digest.add(c.id.value);
  digest.add(static_cast<std::uint64_t>(c.phase));
  digest.add(c.first_psn.value);
  digest.add(c.peer_first_psn.value);
  digest.add(c.peer_nonce);
  digest.add(c.unknown_since == kNever ? 0 : 1);
  const HandshakeState& h = c.handshake;
  digest.add(std::min(h.attempts, 4U) << 1 | (h.is_pending_at_peer ? 1U : 0U));
  digest.add(h.proposed_mtu);
  if (!carries_data(c.phase)) {
    digest.add(roughly(next_timer(c, now), now));
    return;
  }
  add_sender(digest, c, now);
  add_receiver(digest, c);
}

}  // namespace

std::uint64_t abstract_state(EngineWorld& world) {
  Digest digest;
  for (const Side side : {Side::kA, Side::kB}) {
    EngineContext& ctx = world.engine(side).context();
    digest.add(ctx.half_open);
    for (auto& holder : ctx.connections)
      if (holder) add_connection(digest, *holder, world.now());
    digest.add(world.packets_to(side));
    for (std::size_t i = 0; i < world.packets_to(side); ++i)
      digest.add_bytes(world.packet_to(side, i).bytes);
  }
  std::vector<std::uint64_t> applications;
  world.describe(applications);
  for (const std::uint64_t value : applications)
    digest.add(value);
  return digest.value();
}

}  // namespace spindrift::test
