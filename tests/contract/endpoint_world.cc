#include "tests/contract/endpoint_world.h"

#include <algorithm>

#include "spindrift/open.h"

#include "providers/memory/memory_network.h"
#include "providers/wrap/fault_io.h"
#include "providers/wrap/fault_spec.h"
#include "transport/base/check.h"

namespace spindrift {
namespace {

// Two hosts and more in one process, virtual time: seconds of protocol time cost milliseconds.
class MemoryWorld final : public EndpointWorld {
 public:
  explicit MemoryWorld(bool has_bursts) : network_({}), has_bursts_(has_bursts) {}
  std::string name() const override { return has_bursts_ ? "memory_bursts" : "memory"; }

  std::unique_ptr<Endpoint> make(const WorldEndpointConfig& config) override {
    MemoryHostConfig host;
    NetAddress address{.port = 0, .family = 4};
    address.ip = {10, 0, 0, static_cast<std::uint8_t>(++hosts_)};
    host.addresses = {address};
    host.copies_on_send = has_bursts_;
    if (has_bursts_) {
      host.max_burst_packets = 16;
      host.max_burst_bytes = 65536;
    }
    std::unique_ptr<PacketIo> io = network_.add_host(host);
    const auto rail = io->add_rail(address);
    SPINDRIFT_CHECK(rail.ok());
    if (!config.faults.empty()) {
      const auto faults = parse_fault_spec(config.faults);
      SPINDRIFT_CHECK(faults.ok());
      io = wrap_with_faults(std::move(io), faults.value());
    }
    EndpointConfig endpoint = config.endpoint;
    if (endpoint.seed == 0) endpoint.seed = 1000 + hosts_;
    auto made = Endpoint::create(std::move(io), endpoint, builtin_registry());
    SPINDRIFT_CHECK(made.ok());
    return std::move(made).value();
  }
  std::string listen_address() override { return "memory://"; }
  void pass_time() override {
    const Time step = network_.now() + std::chrono::microseconds(2);
    const Time event = network_.next_event();
    network_.advance_to(std::min(std::max(event, step), network_.now() + kLongestStep));
  }
  Time now() const override { return network_.now(); }

 private:
  static constexpr Duration kLongestStep = std::chrono::microseconds(50);
  MemoryNetwork network_;
  bool has_bursts_;
  unsigned hosts_ = 0;
};

class UdpWorld final : public EndpointWorld {
 public:
  std::string name() const override { return "udp"; }
  std::unique_ptr<Endpoint> make(const WorldEndpointConfig& config) override {
    OpenOptions options;
    options.endpoint = config.endpoint;
    options.faults = config.faults;
    auto made = open_endpoint("udp://127.0.0.1:0", options);
    SPINDRIFT_CHECK(made.ok());
    return std::move(made).value();
  }
  std::string listen_address() override { return "udp://"; }
  void pass_time() override {}
  Time now() const override {
    return Time(
        std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch()));
  }
};

}  // namespace

std::vector<WorldFactory> all_worlds() {
  return {{"memory", [] { return std::make_unique<MemoryWorld>(false); }},
          {"memory_bursts", [] { return std::make_unique<MemoryWorld>(true); }},
          {"udp", [] { return std::make_unique<UdpWorld>(); }}};
}

Pair::Pair(EndpointWorld& w, const Options& o)
    : world(w), a(w.make(o.a)), b(w.make(o.b)), options(o) {
  const auto listener = b->listen(world.listen_address());
  SPINDRIFT_CHECK(listener.ok());
  address = b->local_addresses().at(0);
}

void Pair::drain() {
  Completion completions[64];
  ConnEvent events[16];
  for (std::size_t n = a->poll(completions); n != 0; n = a->poll(completions))
    a_done.insert(a_done.end(), completions, completions + n);
  for (std::size_t n = b->poll(completions); n != 0; n = b->poll(completions))
    b_done.insert(b_done.end(), completions, completions + n);
  for (std::size_t n = a->poll_events(events); n != 0; n = a->poll_events(events))
    a_events.insert(a_events.end(), events, events + n);
  for (std::size_t n = b->poll_events(events); n != 0; n = b->poll_events(events))
    b_events.insert(b_events.end(), events, events + n);
}

void Pair::step() {
  a->progress();
  b->progress();
  drain();
  world.pass_time();
}

bool Pair::run_until(const std::function<bool()>& is_done, Duration limit) {
  const Time end = world.now() + limit;
  while (!is_done()) {
    if (world.now() > end) return false;
    step();
  }
  return true;
}

bool Pair::open() {
  const auto conn = a->connect(address, options.connect);
  if (!conn.ok()) return false;
  ab = conn.value();
  const bool is_asked = run_until([this] {
    return std::any_of(b_events.begin(), b_events.end(), [](const ConnEvent& event) {
      return event.kind == ConnEvent::Kind::kRequest;
    });
  });
  if (!is_asked) return false;
  ba = b_events.back().conn;
  b_events.clear();
  if (!b->accept(ba, options.accept).ok()) return false;
  const bool is_open = run_until([this] {
    const auto at_a = a->info(ab);
    const auto at_b = b->info(ba);
    return at_a.ok() && at_b.ok() && at_a.value().state == ConnState::kOpen &&
           at_b.value().state == ConnState::kOpen;
  });
  a_events.clear();
  b_events.clear();
  return is_open;
}

std::vector<Completion>& Pair::take(Endpoint& endpoint) {
  return &endpoint == a.get() ? a_done : b_done;
}

bool Pair::wait_completions(Endpoint& endpoint, std::size_t count, Duration limit) {
  return run_until([&] { return take(endpoint).size() >= count; }, limit);
}

std::byte pattern(std::uint64_t seed, std::size_t offset) {
  const std::uint64_t mixed = (seed * 0x9E3779B97F4A7C15ULL) ^ (offset * 0xD6E8FEB86659FD93ULL);
  return static_cast<std::byte>((mixed >> 32) ^ (mixed >> 7));
}

Buffer::Buffer(Endpoint& endpoint, std::size_t count, Access access) : bytes(count) {
  auto registered = endpoint.register_memory(bytes, access);
  SPINDRIFT_CHECK(registered.ok());
  region = registered.value();
}

void Buffer::fill(std::uint64_t seed) {
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = pattern(seed, i);
}

bool Buffer::matches(std::uint64_t seed, std::size_t offset, std::size_t count,
                     std::size_t pattern_offset) const {
  for (std::size_t i = 0; i < count; ++i)
    if (bytes[offset + i] != pattern(seed, pattern_offset + i)) return false;
  return true;
}

namespace {

class FindCounter final : public CounterWriter {
 public:
  explicit FindCounter(std::string_view name) : name_(name) {}
  void counter(std::string_view name, std::uint64_t value) override {
    if (name == name_) {
      found = true;
      sum += value;
    }
  }
  bool found = false;
  std::uint64_t sum = 0;

 private:
  std::string_view name_;
};

class FindState final : public StateWriter {
 public:
  explicit FindState(std::string_view name) : name_(name) {}
  void field(std::string_view name, double value) override {
    if (name == name_) {
      found = true;
      number = value;
    }
  }
  bool found = false;
  double number = 0;

 private:
  std::string_view name_;
};

}  // namespace

std::uint64_t counter(const Endpoint& endpoint, std::string_view name) {
  FindCounter find(name);
  endpoint.counters(find);
  SPINDRIFT_CHECK(find.found);
  return find.sum;
}

std::uint64_t counter(const Endpoint& endpoint, ConnId conn, std::string_view name) {
  FindCounter find(name);
  endpoint.counters(conn, find);
  SPINDRIFT_CHECK(find.found);
  return find.sum;
}

double state(const Endpoint& endpoint, ConnId conn, std::string_view name) {
  FindState find(name);
  endpoint.describe(conn, find);
  SPINDRIFT_CHECK(find.found);
  return find.number;
}

}  // namespace spindrift
