#include "tests/contract/endpoint_world.h"

#include <algorithm>
#include <cstring>

#include <sys/uio.h>
#include <unistd.h>

#include "spindrift/open.h"

#include "absl/strings/str_cat.h"
#include "providers/memory/memory_network.h"
#include "providers/wrap/fault_io.h"
#include "providers/wrap/fault_spec.h"
#include "tests/contract/scripted_world.h"
#include "tests/sim/lane_world.h"
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
    ++hosts_;
    for (std::uint32_t rail = 0; rail < config.rails; ++rail) {
      NetAddress address{.port = 0, .family = 4};
      address.ip = {10, static_cast<std::uint8_t>(rail), 0, static_cast<std::uint8_t>(hosts_)};
      host.addresses.push_back(address);
    }
    host.copies_on_send = has_bursts_;
    if (has_bursts_) {
      host.max_burst_packets = 16;
      host.max_burst_bytes = 65536;
    }
    std::unique_ptr<PacketIo> io = network_.add_host(host);
    for (const NetAddress& address : host.addresses)
      SPINDRIFT_CHECK(io->add_rail(address).ok());
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
  std::string nobody_address() override { return "memory://10.9.9.9:4793"; }
  void pass_time(Time deadline) override {
    const Time now = network_.now();
    const Time next = std::min({network_.next_event(), deadline, now + kLongestStep});
    network_.advance_to(std::max(next, now + kShortestStep));
  }
  Time now() const override { return network_.now(); }
  bool is_virtual() const override { return true; }
  MemoryNetwork* network() override { return &network_; }

 private:
  static constexpr Duration kShortestStep = std::chrono::microseconds(2);
  static constexpr Duration kLongestStep = std::chrono::milliseconds(10);
  MemoryNetwork network_;
  bool has_bursts_;
  unsigned hosts_ = 0;
};

class UdpWorld final : public EndpointWorld {
 public:
  explicit UdpWorld(bool is_ipv6) : is_ipv6_(is_ipv6) {}
  std::string name() const override { return is_ipv6_ ? "udp6" : "udp"; }
  std::unique_ptr<Endpoint> make(const WorldEndpointConfig& config) override {
    OpenOptions options;
    options.endpoint = config.endpoint;
    options.faults = config.faults;
    std::string address = is_ipv6_ ? "udp://[::1]:0" : "udp://127.0.0.1:0";
    if (config.rails == 2) address += ",127.0.0.2:0";
    auto made = open_endpoint(address, options);
    SPINDRIFT_CHECK(made.ok());
    return std::move(made).value();
  }
  std::string listen_address() override { return "udp://"; }
  std::string nobody_address() override { return is_ipv6_ ? "udp://[::1]:9" : "udp://127.0.0.1:9"; }
  void pass_time(Time /*deadline*/) override {}
  Time now() const override {
    return Time(
        std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch()));
  }

 private:
  bool is_ipv6_;
};

// Every long message is read by the peer, where the kernel lets processes do that.
SingleCopy single_copy_if_allowed() {
  char from = 1;
  char to = 0;
  const iovec local{.iov_base = &to, .iov_len = 1};
  const iovec remote{.iov_base = &from, .iov_len = 1};
  const bool is_allowed = ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) == 1;
  return is_allowed ? SingleCopy::kOn : SingleCopy::kAuto;
}

// Two endpoints of one process; tests of several processes are in tests/e2e. Nothing is lost,
// repeated or reordered in memory, so faults are not applied.
class ShmWorld final : public EndpointWorld {
 public:
  explicit ShmWorld(SingleCopy single_copy) : single_copy_(single_copy) {}
  std::string name() const override { return "shm"; }
  std::unique_ptr<Endpoint> make(const WorldEndpointConfig& config) override {
    OpenOptions options;
    options.endpoint = config.endpoint;
    options.shm.single_copy = single_copy_;
    std::string address = "shm://" + fresh_name();
    if (config.rails == 2) address += "," + fresh_name();
    auto made = open_endpoint(address, options);
    SPINDRIFT_CHECK(made.ok());
    return std::move(made).value();
  }
  std::string listen_address() override { return "shm://"; }
  std::string nobody_address() override { return "shm://nobody-listens-here"; }
  void pass_time(Time /*deadline*/) override {}
  Time now() const override {
    return Time(
        std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch()));
  }

 private:
  std::string fresh_name() {
    return absl::StrCat("test-", ::getpid(), "-", reinterpret_cast<std::uintptr_t>(this), "-",
                        ++names_);
  }
  SingleCopy single_copy_;
  unsigned names_ = 0;
};

// Lanes of a simulated network, which loses packets below them.
class LanesWorld final : public EndpointWorld {
 public:
  explicit LanesWorld(double loss)
      : lanes_({.hosts = 64,
                .nics = 2,
                .lanes = 256,
                .loss = loss,
                .lane = {.timeout = 200 * sim::kMicrosecond, .retries = 20}}) {}
  std::string name() const override { return "sim_lanes"; }
  std::unique_ptr<Endpoint> make(const WorldEndpointConfig& config) override {
    EndpointConfig endpoint = config.endpoint;
    auto lanes = lanes_.make();
    for (std::uint32_t rail = 0; rail < config.rails; ++rail)
      SPINDRIFT_CHECK(lanes->add_address(sim::address_of_nic(2 * hosts_ + rail).to_string()).ok());
    ++hosts_;
    if (endpoint.seed == 0) endpoint.seed = 1000 + hosts_;
    auto made = Endpoint::create(std::move(lanes), endpoint, builtin_registry());
    SPINDRIFT_CHECK(made.ok());
    return std::move(made).value();
  }
  std::string listen_address() override { return "sim://"; }
  std::string nobody_address() override { return "sim://10.9.9.9:4793"; }
  void pass_time(Time deadline) override {
    const Time soonest = now() + kShortestStep;
    const Time latest = now() + kLongestStep;
    const Time until = std::clamp(deadline, soonest, latest);
    // One thing at a time: who it is for wants its turn.
    static_cast<void>(lanes_.step(sim::to_network_time(until)));
  }
  Time now() const override { return sim::to_transport_time(lanes_.now()); }
  bool is_virtual() const override { return true; }

 private:
  static constexpr Duration kShortestStep = std::chrono::microseconds(2);
  static constexpr Duration kLongestStep = std::chrono::milliseconds(10);
  sim::LaneWorld lanes_;
  unsigned hosts_ = 0;
};

}  // namespace

std::vector<WorldFactory> lossy_worlds() {
  return {{"memory", [] { return std::make_unique<MemoryWorld>(false); }},
          {"memory_bursts", [] { return std::make_unique<MemoryWorld>(true); }},
          {"udp", [] { return std::make_unique<UdpWorld>(false); }}};
}

std::vector<WorldFactory> reliable_worlds() {
  return {{"shm", [] { return std::make_unique<ShmWorld>(single_copy_if_allowed()); }},
          {"shm_copying", [] { return std::make_unique<ShmWorld>(SingleCopy::kOff); }},
          {"sim_lanes", [] { return std::make_unique<LanesWorld>(0); }},
          {"sim_lanes_lossy", [] { return std::make_unique<LanesWorld>(0.005); }},
          {"scripted",
           [] { return std::make_unique<ScriptedWorld>(test::ScriptedOptions{.lanes = 256}); }},
          {"scripted_lossy", [] {
             return std::make_unique<ScriptedWorld>(
                 test::ScriptedOptions{.lanes = 16, .offer_refusals = 23, .loss = 0.05});
           }}};
}

std::vector<WorldFactory> all_worlds() {
  std::vector<WorldFactory> all = lossy_worlds();
  for (WorldFactory& one : reliable_worlds())
    all.push_back(std::move(one));
  return all;
}

WorldFactory ipv6_world() {
  return {"udp6", [] { return std::make_unique<UdpWorld>(true); }};
}

Pair::Pair(EndpointWorld& w, const Options& o)
    : world(w), a(w.make(o.a)), b(w.make(o.b)), options(o) {
  const auto listener = b->listen(world.listen_address());
  SPINDRIFT_CHECK(listener.ok());
  address = b->local_addresses().at(0);
}

void Pair::drain(Endpoint& endpoint, std::vector<Completion>& done,
                 std::vector<ConnEvent>& events) {
  Completion completions[64];
  ConnEvent news[16];
  for (std::size_t n = endpoint.poll(completions); n != 0; n = endpoint.poll(completions))
    done.insert(done.end(), completions, completions + n);
  for (std::size_t n = endpoint.poll_events(news); n != 0; n = endpoint.poll_events(news))
    events.insert(events.end(), news, news + n);
}

void Pair::drain() {
  if (!a_is_frozen) drain(*a, a_done, a_events);
  if (!b_is_frozen) drain(*b, b_done, b_events);
}

void Pair::step() {
  if (!a_is_frozen) a->progress();
  if (!b_is_frozen) b->progress();
  drain();
  world.pass_time(std::min(a_is_frozen ? kNever : a->next_deadline(),
                           b_is_frozen ? kNever : b->next_deadline()));
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
  const Ends ends = open_another(options.connect, options.accept);
  ab = ends.ab;
  ba = ends.ba;
  a_events.clear();
  b_events.clear();
  return ba.value != 0;
}

Pair::Ends Pair::open_another(const ConnectOptions& connect, const ConnectOptions& accept) {
  Ends ends;
  const auto conn = a->connect(address, connect);
  if (!conn.ok()) return ends;
  ends.ab = conn.value();
  const auto has_request = [this] {
    return !b_events.empty() && b_events.back().kind == ConnEvent::Kind::kRequest;
  };
  b_events.clear();
  if (!run_until(has_request)) return ends;
  const ConnId asked = b_events.back().conn;
  if (!b->accept(asked, accept).ok()) return ends;
  const bool is_open = run_until([&] {
    const auto at_a = a->info(ends.ab);
    const auto at_b = b->info(asked);
    return at_a.ok() && at_b.ok() && at_a.value().state == ConnState::kOpen &&
           at_b.value().state == ConnState::kOpen;
  });
  if (is_open) ends.ba = asked;
  return ends;
}

bool Pair::post_a(WorkRequest work) {
  if (work.conn.value == 0) work.conn = ab;
  return a->post({&work, 1}).accepted == 1;
}

bool Pair::post_b(WorkRequest work) {
  if (work.conn.value == 0) work.conn = ba;
  return b->post({&work, 1}).accepted == 1;
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

std::uint64_t Buffer::word(std::size_t offset) const {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

std::vector<OpStatus> statuses(const std::vector<Completion>& completions) {
  std::vector<OpStatus> out;
  for (const Completion& completion : completions)
    out.push_back(completion.status);
  return out;
}

std::vector<std::uint64_t> user_data(const std::vector<Completion>& completions) {
  std::vector<std::uint64_t> out;
  for (const Completion& completion : completions)
    out.push_back(completion.user_data);
  return out;
}

bool has_event(const std::vector<ConnEvent>& events, ConnEvent::Kind kind, ConnId conn) {
  return std::any_of(events.begin(), events.end(), [&](const ConnEvent& event) {
    return event.kind == kind && event.conn == conn;
  });
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
