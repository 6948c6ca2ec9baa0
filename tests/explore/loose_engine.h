#pragma once
// A packet engine without a network: what it sends is handed out as datagrams, and whoever holds
// them delivers, drops, repeats or forges. Time is an argument; nothing is random.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "spindrift/work.h"

#include "transport/packet_engine.h"

namespace spindrift::test {

struct Datagram {
  std::vector<std::byte> bytes{};
  NetAddress source{};
  NetAddress to{};
};

NetAddress host_address(std::uint8_t number);

class LooseEngine final : public RailDirectory {
 public:
  // `seed` decides nonces and PSNs. Capacities are those of `config`: choose small ones.
  LooseEngine(std::uint8_t number, const EndpointConfig& config, std::uint64_t seed);

  EngineContext& context() { return engine_->context(); }
  PacketEngine& engine() { return *engine_; }
  NetAddress address() const { return rails_[0]; }
  void listen(const ListenOptions& options = {});
  // Null when the engine refuses.
  Connection* connect(const NetAddress& remote, const ConnectOptions& options, Time now);
  PostResult post(const WorkRequest& work, Time now);
  void deliver(const Datagram& datagram, Time now);
  // Timers that are due, then everything that may leave now is appended to `out`.
  void turn(Time now, std::vector<Datagram>& out);
  void take_completions(std::vector<Completion>& out);
  void take_events(std::vector<ConnEvent>& out);

 private:
  std::span<const NetAddress> rails() const override { return rails_; }
  const PacketIoCaps& caps() const override { return caps_; }
  std::uint32_t max_packet_bytes(std::uint16_t, const NetAddress&) const override {
    return caps_.max_packet_bytes;
  }
  Status open_entropies(std::uint16_t, std::uint16_t) override { return ok_status(); }

  std::vector<NetAddress> rails_;
  PacketIoCaps caps_;
  std::unique_ptr<PacketEngine> engine_;
};

// What no input may break, inside an engine: counts, in-flight accounting, the sent log, timers.
// Empty, or a sentence that says what is broken.
std::string broken_invariant(EngineContext& ctx, Time now);

}  // namespace spindrift::test
