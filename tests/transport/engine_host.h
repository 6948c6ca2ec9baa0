#pragma once
// A packet engine on a host of an in-memory network, without the endpoint around it: tests reach
// the engine's state and count its allocations.
#include <memory>
#include <vector>

#include "spindrift/open.h"

#include "providers/memory/memory_network.h"
#include "providers/wrap/fault_io.h"
#include "tests/paths/allocation_count.h"
#include "transport/completions.h"
#include "transport/handshake.h"
#include "transport/packet_engine.h"
#include "transport/poster.h"

namespace spindrift::test {

class EngineHost final : public RailDirectory {
 public:
  EngineHost(MemoryNetwork& network, std::uint8_t number, const EndpointConfig& config,
             std::uint16_t entropies = MemoryHostConfig{}.entropies)
      : address_{.port = 0, .family = 4} {
    address_.ip = {10, 0, 0, number};
    MemoryHostConfig host;
    host.addresses = {address_};
    host.entropies = entropies;
    host.copies_on_send = true;
    io_ = network.add_host(host);
    static_cast<void>(io_->add_rail(address_).ok());
    EngineIdentity identity;
    identity.seed = number;
    engine_ = std::make_unique<PacketEngine>(config, builtin_registry(), *this, identity);
  }

  // From now on, what this host sends meets these faults.
  void harm(const FaultConfig& faults) { io_ = wrap_with_faults(std::move(io_), faults); }
  EngineContext& context() { return engine_->context(); }
  PacketEngine& engine() { return *engine_; }
  PacketIo& io() { return *io_; }
  NetAddress address() const { return io_->rails()[0]; }
  void listen() {
    Listener listener;
    listener.id = ListenerId{1};
    listener.rails = {0};
    listener.is_open = true;
    context().listeners.push_back(listener);
    static_cast<void>(io_->open_entropies(0, 1).ok());
  }
  Connection* connect(const NetAddress& remote, const ConnectOptions& options) {
    ConnectTarget target;
    target.remotes = {remote};
    target.rails = {0};
    const auto conn = start_connect(context(), target, options, io_->now());
    return conn.ok() ? context().find(conn.value()) : nullptr;
  }
  void turn() {
    const Time now = io_->now();
    RxPacket rx[64];
    TxPacket tx[64];
    for (std::size_t n = io_->receive(rx); n != 0; n = io_->receive(rx)) {
      const std::uint64_t before = allocation_count();
      engine_->on_packets({rx, n}, now);
      allocations += allocation_count() - before;
      io_->release({rx, n});
    }
    IoError errors[8];
    const std::size_t said = io_->poll_errors(errors);
    for (std::size_t i = 0; i < said; ++i)
      engine_->on_io_error(errors[i], now);
    const std::uint64_t before = allocation_count();
    engine_->on_timers(now);
    allocations += allocation_count() - before;
    while (engine_->has_something_to_send()) {
      const std::size_t reserved = io_->reserve(tx);
      const std::uint64_t start = allocation_count();
      const std::size_t count = engine_->poll_transmit({tx, reserved}, now);
      allocations += allocation_count() - start;
      if (count == 0) break;
      io_->send({tx, count});
    }
    on_released(context(), io_->released());
  }
  bool post(const WorkRequest& work) {
    return post_work(context(), {&work, 1}, io_->now()).accepted == 1;
  }
  std::size_t take_completions(std::vector<Completion>& out) {
    std::size_t count = 0;
    for (; !context().completions.is_empty(); ++count) {
      out.push_back(context().completions.front());
      context().completions.pop_front();
    }
    return count;
  }

  std::uint64_t allocations = 0;  // inside the engine

 private:
  std::span<const NetAddress> rails() const override { return io_->rails(); }
  const PacketIoCaps& caps() const override { return io_->caps(); }
  std::uint32_t max_packet_bytes(std::uint16_t rail, const NetAddress& remote) const override {
    return io_->max_packet_bytes(rail, remote);
  }
  Status open_entropies(std::uint16_t rail, std::uint16_t count) override {
    return io_->open_entropies(rail, count);
  }

  NetAddress address_;
  std::unique_ptr<PacketIo> io_;
  std::unique_ptr<PacketEngine> engine_;
};

// Two of them, connected.
struct EnginePair {
  explicit EnginePair(const MemoryNetworkConfig& config = {}, const EndpointConfig& endpoint = {},
                      std::uint16_t entropies_of_b = MemoryHostConfig{}.entropies)
      : network(config), a(network, 1, endpoint), b(network, 2, endpoint, entropies_of_b) {
    b.listen();
  }
  void step() {
    a.turn();
    b.turn();
    const Time now = network.now();
    const Time next = std::min(network.next_event(), now + std::chrono::microseconds(50));
    network.advance_to(std::max(next, now + std::chrono::microseconds(1)));
  }
  // `first`: where both sides' PSNs start; zero: at random.
  bool open(const ConnectOptions& options, std::uint64_t first = 0) {
    at_a = a.connect(b.address(), options);
    if (at_a == nullptr) return false;
    if (first != 0) at_a->first_psn = Psn{first};
    for (int i = 0; i < 200000 && at_a->phase == Phase::kConnecting; ++i) {
      step();
      for (auto& holder : b.context().connections) {
        if (!holder || holder->phase != Phase::kRequested) continue;
        at_b = holder.get();
        if (first != 0) at_b->first_psn = Psn{first};
        if (!accept_request(b.context(), *at_b, options, {}, network.now()).ok()) return false;
      }
    }
    for (int i = 0; i < 1000; ++i)
      step();
    return at_a->phase == Phase::kOpen && at_b != nullptr && at_b->phase == Phase::kOpen;
  }

  MemoryNetwork network;
  EngineHost a;
  EngineHost b;
  Connection* at_a = nullptr;
  Connection* at_b = nullptr;
  std::vector<Completion> a_done;
  std::vector<Completion> b_done;
};

}  // namespace spindrift::test
