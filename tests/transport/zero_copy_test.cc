// A provider that sends in place reads payload long after send(): what it reads must stay, whatever
// becomes of the connection and of the key.
#include <algorithm>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spindrift/open.h"

#include "providers/memory/memory_network.h"
#include "providers/wrap/forwarding_io.h"
#include "tests/contract/endpoint_world.h"
#include "transport/base/check.h"

namespace spindrift {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr Duration kDelay = 1ms;

// Payload is read from the sender's memory when it arrives, a millisecond after send(), and only
// then is it released.
class InPlace final : public EndpointWorld {
 public:
  std::string name() const override { return "in_place"; }
  std::unique_ptr<Endpoint> make(const WorldEndpointConfig& config) override {
    NetAddress address{.port = 0, .family = 4};
    address.ip = {10, 0, 0, ++hosts_};
    MemoryHostConfig host;
    host.addresses = {address};
    host.copies_on_send = false;
    std::unique_ptr<PacketIo> io = network_.add_host(host);
    SPINDRIFT_CHECK(io->add_rail(address).ok());
    auto made = Endpoint::create(std::move(io), config.endpoint, builtin_registry());
    SPINDRIFT_CHECK(made.ok());
    return std::move(made).value();
  }
  std::string listen_address() override { return "memory://"; }
  std::string nobody_address() override { return "memory://10.9.9.9:4793"; }
  void pass_time(Time deadline) override {
    const Time now = network_.now();
    const Time next = std::min({network_.next_event(), deadline, now + Duration(1ms)});
    network_.advance_to(std::max(next, now + Duration(2us)));
  }
  Time now() const override { return network_.now(); }

 private:
  MemoryNetwork network_{{.one_way_delay = kDelay}};
  std::uint8_t hosts_ = 0;
};

// Until b has handed its first data packet to the provider, and no longer.
void run_until_b_sends(Pair& pair) {
  const std::uint64_t before = counter(*pair.b, pair.ba, "packets_sent");
  while (counter(*pair.b, pair.ba, "packets_sent") == before) {
    pair.world.pass_time(kNever);
    pair.a->progress();
    pair.b->progress();
  }
}

TEST(ZeroCopy, ARegionThatAPeerReadsStaysUntilTheProviderLetsItGo) {
  InPlace world;
  Pair pair(world, {});
  ASSERT_TRUE(pair.open());
  constexpr std::size_t kBytes = 4096;
  Buffer from(*pair.b, kBytes);
  Buffer to(*pair.a, kBytes);
  from.fill(3);
  const Sge piece = to.all();
  ASSERT_TRUE(pair.post_a({.kind = OpKind::kRead, .local = {&piece, 1}, .remote_key = from.key()}));
  run_until_b_sends(pair);
  const Status refused = pair.b->deregister_memory(from.region);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(refused.error().message(), HasSubstr("still reads from the region"));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 1));
  EXPECT_TRUE(to.matches(3, 0, kBytes));
  EXPECT_TRUE(pair.b->deregister_memory(from.region).ok());
  EXPECT_EQ(pair.b->deregister_memory(from.region).error().code(), ErrorCode::kNotFound);
}

// Or a peer could keep a region for ever by reading without pause.
TEST(ZeroCopy, ItsKeyIsDeadAtOnce) {
  InPlace world;
  Pair pair(world, {});
  ASSERT_TRUE(pair.open());
  Buffer from(*pair.b, 4096);
  Buffer to(*pair.a, 4096);
  const Sge piece = to.all();
  const auto read = [&] {
    return pair.post_a({.kind = OpKind::kRead, .local = {&piece, 1}, .remote_key = from.key()});
  };
  ASSERT_TRUE(read());
  run_until_b_sends(pair);
  ASSERT_FALSE(pair.b->deregister_memory(from.region).ok());
  const Sge dead = from.piece(0, 64);
  EXPECT_FALSE(pair.post_b({.kind = OpKind::kSend, .local = {&dead, 1}}));
  ASSERT_TRUE(read());
  ASSERT_TRUE(pair.wait_completions(*pair.a, 2));
  EXPECT_THAT(statuses(pair.a_done), testing::ElementsAre(OpStatus::kOk, OpStatus::kRemoteKey));
}

TEST(ZeroCopy, MemoryOfAReleasedConnectionStaysUntilTheProviderLetsItGo) {
  InPlace world;
  Pair pair(world, {});
  ASSERT_TRUE(pair.open());
  constexpr std::size_t kBytes = 4096;
  Buffer from(*pair.a, kBytes);
  Buffer to(*pair.b, kBytes);
  const Sge piece = from.all();
  ASSERT_TRUE(pair.post_a({.kind = OpKind::kWrite, .local = {&piece, 1}, .remote_key = to.key()}));
  pair.a->progress();
  pair.a->release(pair.ab);
  EXPECT_EQ(pair.a->deregister_memory(from.region).error().code(), ErrorCode::kUnavailable);
  pair.run_until([] { return false; }, 2 * kDelay);
  EXPECT_TRUE(pair.a->deregister_memory(from.region).ok());
}

TEST(ZeroCopy, AnInlineBufferOfAReleasedConnectionIsNotUsedAgainBefore) {
  InPlace world;
  Pair::Options options;
  options.a.endpoint.inline_buffers = 1;
  Pair pair(world, options);
  ASSERT_TRUE(pair.open());
  const Pair::Ends other = pair.open_another({}, {});
  ASSERT_NE(other.ab, ConnId{});
  std::byte word{7};
  const Sge piece{.data = &word, .bytes = 1};
  WorkRequest work{.kind = OpKind::kWrite, .is_inline = true, .local = {&piece, 1}};
  ASSERT_TRUE(pair.post_a(work));
  pair.a->progress();
  pair.a->release(pair.ab);
  work.conn = other.ab;
  EXPECT_EQ(pair.a->post({&work, 1}).status, PostStatus::kQueueFull);
  pair.run_until([] { return false; }, 2 * kDelay);
  EXPECT_EQ(pair.a->post({&work, 1}).status, PostStatus::kOk);
}

// Tells what it was told of registered memory.
class KnowsRegions final : public ForwardingIo<PacketIo> {
 public:
  using Regions = std::map<std::uint32_t, std::span<std::byte>>;
  KnowsRegions(std::unique_ptr<PacketIo> inner, Regions& regions)
      : ForwardingIo(std::move(inner)), regions_(regions) {}
  const PacketIoCaps& caps() const override { return inner().caps(); }
  Result<std::uint16_t> add_rail(const NetAddress& local) override {
    return inner().add_rail(local);
  }
  void add_region(LocalKey region, std::span<std::byte> bytes) override {
    EXPECT_TRUE(regions_.emplace(region.value, bytes).second);
  }
  void remove_region(LocalKey region) override { EXPECT_EQ(regions_.erase(region.value), 1U); }
  std::size_t receive(std::span<RxPacket> out) override { return inner().receive(out); }
  std::size_t reserve(std::span<TxPacket> out) override { return inner().reserve(out); }
  void send(std::span<const TxPacket> packets) override { inner().send(packets); }
  std::uint64_t released() const override { return inner().released(); }
  bool has_unsent() const override { return inner().has_unsent(); }
  void counters(CounterWriter& out) const override { inner().counters(out); }

 private:
  Regions& regions_;
};

TEST(ZeroCopy, TheProviderHearsOfMemoryThatIsRegistered) {
  MemoryNetwork network({});
  NetAddress address{.port = 0, .family = 4};
  address.ip = {10, 0, 0, 1};
  KnowsRegions::Regions known;
  auto io = std::make_unique<KnowsRegions>(network.add_host({.addresses = {address}}), known);
  ASSERT_TRUE(io->add_rail(address).ok());
  auto endpoint = Endpoint::create(std::move(io), {}, builtin_registry()).value();
  std::vector<std::byte> bytes(10000);
  const auto first = endpoint->register_memory(bytes, Access::kLocalRead);
  const auto second = endpoint->register_memory(std::span(bytes).first(100), Access::kLocalRead);
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_EQ(known.size(), 2U);
  EXPECT_EQ(known[first.value().local.value].size(), bytes.size());
  EXPECT_EQ(known[second.value().local.value].data(), bytes.data());
  EXPECT_TRUE(endpoint->deregister_memory(first.value()).ok());
  EXPECT_EQ(known.size(), 1U);
  EXPECT_FALSE(endpoint->deregister_memory(first.value()).ok());
  EXPECT_TRUE(endpoint->deregister_memory(second.value()).ok());
  EXPECT_TRUE(known.empty());
}

}  // namespace
}  // namespace spindrift
