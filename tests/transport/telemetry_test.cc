// Telemetry's way from a provider that echoes it to the algorithm, and the refusal of others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spindrift/open.h"

#include "providers/memory/memory_network.h"
#include "tests/contract/endpoint_world.h"
#include "transport/base/check.h"

namespace spindrift {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// Every packet that arrives brings two links with it, the second one half used.
class Echo final : public PacketIo {
 public:
  explicit Echo(std::unique_ptr<PacketIo> inner) : inner_(std::move(inner)), caps_(inner_->caps()) {
    caps_.echoes_telemetry = true;
  }
  const PacketIoCaps& caps() const override { return caps_; }
  Time now() const override { return inner_->now(); }
  Result<std::uint16_t> add_rail(const NetAddress& local) override {
    return inner_->add_rail(local);
  }
  std::span<const NetAddress> rails() const override { return inner_->rails(); }
  std::vector<NetAddress> expand(const NetAddress& wildcard) const override {
    return inner_->expand(wildcard);
  }
  Result<NetAddress> source_for(const NetAddress& remote) const override {
    return inner_->source_for(remote);
  }
  std::uint32_t max_packet_bytes(std::uint16_t rail, const NetAddress& remote) const override {
    return inner_->max_packet_bytes(rail, remote);
  }
  Status open_entropies(std::uint16_t rail, std::uint16_t count) override {
    return inner_->open_entropies(rail, count);
  }
  std::size_t receive(std::span<RxPacket> out) override {
    const std::size_t count = inner_->receive(out);
    const auto ns = static_cast<std::uint64_t>(now().time_since_epoch().count());
    hops_[0] = {.timestamp_ns = ns, .link_id = 1, .link_rate = Rate::gbps(100)};
    hops_[1] = {.tx_bytes = ns * 25 / 4,  // 50 Gb/s
                .timestamp_ns = ns,
                .link_id = 2,
                .link_rate = Rate::gbps(100)};
    for (RxPacket& packet : out.first(count))
      packet.telemetry = hops_;
    return count;
  }
  void release(std::span<const RxPacket> packets) override { inner_->release(packets); }
  std::size_t reserve(std::span<TxPacket> out) override { return inner_->reserve(out); }
  void send(std::span<const TxPacket> packets) override { inner_->send(packets); }
  std::uint64_t released() const override { return inner_->released(); }
  std::size_t poll_errors(std::span<IoError> out) override { return inner_->poll_errors(out); }
  void append_wait_fds(std::vector<int>& out) const override { inner_->append_wait_fds(out); }
  bool has_unsent() const override { return inner_->has_unsent(); }
  void counters(CounterWriter& out) const override { inner_->counters(out); }

 private:
  std::unique_ptr<PacketIo> inner_;
  PacketIoCaps caps_;
  std::array<HopTelemetry, 2> hops_{};
};

class Echoes final : public EndpointWorld {
 public:
  std::string name() const override { return "echoes"; }
  std::unique_ptr<Endpoint> make(const WorldEndpointConfig& config) override {
    NetAddress address{.port = 0, .family = 4};
    address.ip = {10, 0, 0, ++hosts_};
    auto io = std::make_unique<Echo>(network_.add_host({.addresses = {address}}));
    SPINDRIFT_CHECK(io->add_rail(address).ok());
    return Endpoint::create(std::move(io), config.endpoint, builtin_registry()).value();
  }
  std::string listen_address() override { return "memory://"; }
  std::string nobody_address() override { return "memory://10.9.9.9:4793"; }
  void pass_time(Time deadline) override {
    const Time next = std::min({network_.next_event(), deadline, network_.now() + 1ms});
    network_.advance_to(std::max(next, network_.now() + Duration(2us)));
  }
  Time now() const override { return network_.now(); }

 private:
  MemoryNetwork network_{{}};
  std::uint8_t hosts_ = 0;
};

TEST(Telemetry, ReachesTheAlgorithmWhereTheProviderEchoesIt) {
  Echoes world;
  Pair::Options options;
  options.connect.congestion_control = "hpcc";
  options.accept.congestion_control = "hpcc";
  options.connect.path_selector = "single";
  Pair pair(world, options);
  ASSERT_TRUE(pair.open());
  Buffer from(*pair.a, 1U << 20U);
  Buffer to(*pair.b, 1U << 20U);
  from.fill(5);
  const Sge source = from.all();
  ASSERT_TRUE(pair.post_a({.kind = OpKind::kWrite, .local = {&source, 1}, .remote_key = to.key()}));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 1));
  EXPECT_TRUE(to.matches(5, 0, 1U << 20U));
  EXPECT_EQ(state(*pair.a, pair.ab, "hops"), 2);
  EXPECT_GT(state(*pair.a, pair.ab, "rounds"), 3);
  EXPECT_NEAR(state(*pair.a, pair.ab, "utilisation"), 0.5, 0.3);
}

TEST(Telemetry, AnAlgorithmThatNeedsItIsRefusedElsewhereWithTheReason) {
  MemoryNetwork network({});
  NetAddress address{.port = 0, .family = 4};
  address.ip = {10, 0, 0, 1};
  auto io = network.add_host({.addresses = {address}});
  ASSERT_TRUE(io->add_rail(address).ok());
  const auto endpoint = Endpoint::create(std::move(io), {}, builtin_registry());
  ASSERT_TRUE(endpoint.ok());
  ConnectOptions options;
  options.congestion_control = "hpcc";
  const auto connected = endpoint.value()->connect("memory://10.0.0.2:4793", options);
  ASSERT_FALSE(connected.ok());
  EXPECT_EQ(connected.error().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(connected.error().message(),
              HasSubstr("hpcc needs in-band telemetry of the switches, which provider memory"));
}

}  // namespace
}  // namespace spindrift
