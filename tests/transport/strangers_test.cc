// Packets of others than the peer: floods, replays, other hosts, connections that are no more. What
// came is counted, memory stays bounded, open connections do not notice.
#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "tests/transport/forger.h"
#include "transport/open_connection.h"

namespace spindrift::test {
namespace {

std::size_t connections_of(EngineHost& host) {
  const auto& all = host.context().connections;
  return static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [](const auto& one) { return one != nullptr; }));
}

EndpointConfig small() {
  EndpointConfig config;
  config.max_connections = 16;
  config.half_open_before_cookie = 8;
  return config;
}

struct Crowd {
  Crowd() : pair({}, small()), stranger(pair.network, 3, {}) {
    EXPECT_TRUE(stranger.io().open_entropies(0, 1).ok());
  }
  // A packet of the third host, which speaks for itself or for others.
  void send(std::span<const std::byte> bytes, std::uint32_t seed = kHelloCrcSeed) {
    forger.send(stranger, bytes, seed);
  }
  std::vector<std::byte> hello(std::uint64_t nonce) {
    return hello_packet(stranger.address(), nonce);
  }
  EndpointCounters& counted() { return pair.b.context().counters; }

  EnginePair pair;
  Forger forger{pair};
  EngineHost stranger;
};

TEST(Strangers, AFloodOfHellosIsAnsweredWithCookiesAndRemembersNobody) {
  Crowd crowd;
  for (std::uint64_t nonce = 1; nonce <= 80; ++nonce)
    crowd.send(crowd.hello(nonce));
  EXPECT_EQ(connections_of(crowd.pair.b), 8U);
  const std::uint64_t before = crowd.pair.b.allocations;
  for (std::uint64_t nonce = 81; nonce <= 1000; ++nonce)
    crowd.send(crowd.hello(nonce));
  EXPECT_EQ(crowd.pair.b.allocations, before);
  EXPECT_EQ(connections_of(crowd.pair.b), 8U);
  EXPECT_EQ(crowd.counted().hellos_received, 1000U);
  EXPECT_EQ(crowd.counted().cookies_sent, 992U);
  EXPECT_EQ(crowd.pair.b.context().by_nonce.size(), 8U);
}

TEST(Strangers, AFloodAtAPortThatDoesNotListenIsRefusedWithoutGrowth) {
  Crowd crowd;
  crowd.pair.b.context().listeners.clear();
  for (std::uint64_t nonce = 1; nonce <= 200; ++nonce)
    crowd.send(crowd.hello(nonce));
  EXPECT_EQ(crowd.counted().hellos_refused, 200U);
  EXPECT_EQ(connections_of(crowd.pair.b), 0U);
  EXPECT_LE(crowd.pair.b.context().strangers.size(), 64U);
}

TEST(Strangers, AHelloReplayedOpensOneConnection) {
  Crowd crowd;
  const auto hello = crowd.hello(99);
  for (int i = 0; i < 100; ++i)
    crowd.send(hello);
  EXPECT_EQ(crowd.counted().hellos_received, 100U);
  EXPECT_EQ(connections_of(crowd.pair.b), 1U);
  Connection& c = *crowd.pair.b.context().connections[0];
  ASSERT_TRUE(accept_request(crowd.pair.b.context(), c, {}, {}, crowd.pair.network.now()).ok());
  for (int i = 0; i < 100; ++i)
    crowd.send(hello);
  EXPECT_EQ(connections_of(crowd.pair.b), 1U);
}

// What a HELLO draws, its sender's address being forged: packets and their bytes.
TEST(Strangers, AHelloDrawsFewAnswersOfItsOwnSize) {
  Crowd crowd;
  const auto hello = crowd.hello(99);
  crowd.send(hello);
  Connection& c = *crowd.pair.b.context().connections[0];
  ASSERT_TRUE(accept_request(crowd.pair.b.context(), c, {}, {}, crowd.pair.network.now()).ok());
  for (int i = 0; i < 400000 && c.phase == Phase::kAccepting; ++i)
    crowd.pair.step();
  EXPECT_EQ(c.phase, Phase::kFailed);
  std::vector<RxPacket> drawn(64);
  drawn.resize(crowd.stranger.io().receive(drawn));
  std::size_t bytes = 0;
  for (const RxPacket& packet : drawn)
    bytes += packet.bytes.size();
  EXPECT_EQ(drawn.size(), 9U);  // the first says that the HELLO is here
  EXPECT_LE(bytes, 8 * (hello.size() + kCrcBytes) + 64);
  crowd.stranger.io().release(drawn);
}

TEST(Strangers, AHelloSmallerThanWhatItProposesIsDropped) {
  Crowd crowd;
  auto hello = crowd.hello(99);
  hello.pop_back();
  crowd.send(hello);
  EXPECT_EQ(crowd.counted().malformed_strangers, 1U);
  EXPECT_EQ(connections_of(crowd.pair.b), 0U);
}

TEST(Strangers, DamagedHellosAreCounted) {
  Crowd crowd;
  auto hello = crowd.hello(99);
  crowd.send(hello, 12345);  // its CRC is wrong
  hello[13] ^= std::byte{0xff};
  crowd.send(hello);
  auto unnamed = crowd.hello(0);  // nonce zero
  crowd.send(unnamed);
  EXPECT_EQ(crowd.counted().malformed_strangers, 3U);
  EXPECT_EQ(connections_of(crowd.pair.b), 0U);
}

TEST(Strangers, AskingForConnectionsThatDoNotExistTellsThemSoAndNoMore) {
  Crowd crowd;
  ASSERT_TRUE(crowd.pair.open({}));
  wire::RudRequest request = crowd.forger.request(1);
  wire::Control control = crowd.forger.control(wire::ControlType::kProbe, 1);
  wire::Ack ack = crowd.forger.ack();
  wire::Nack nack = crowd.forger.nack(0x0e, 1);
  request.dpdcid = control.dpdcid = ack.dpdcid = nack.dpdcid = 9;
  crowd.send(crowd.forger.packet(0, request));
  crowd.send(crowd.forger.packet(0, control));
  EXPECT_EQ(crowd.counted().strangers_answered, 2U);
  crowd.send(crowd.forger.packet(0, ack));
  crowd.send(crowd.forger.packet(0, nack));
  EXPECT_EQ(crowd.counted().strangers_received, 4U);
  EXPECT_EQ(crowd.counted().strangers_answered, 2U);
}

// Another host that knows everything but has not the peer's address.
TEST(Strangers, AnotherHostOnOurPortChangesNothing) {
  Crowd crowd;
  ConnectOptions options;
  options.crc = CrcChoice::kOn;
  ASSERT_TRUE(crowd.pair.open(options));
  std::vector<std::byte> memory(64);
  const MemoryRegion region = crowd.pair.b.context().memory.add(memory, kAllAccess, {}, 77).value();
  const std::uint32_t seed = crowd.pair.at_a->crc_seed;
  const Forger& f = crowd.forger;
  const std::uint64_t psn = f.next_psn();
  crowd.send(f.packet(8, f.request(psn), write_of(region.remote.key, 8)), seed);
  crowd.send(f.packet(0, f.ack()), seed);
  crowd.send(f.packet(0, f.nack(0x11, 0)), seed);
  crowd.send(f.packet(0, f.control(wire::ControlType::kCloseCommand, psn)), seed);
  EXPECT_EQ(crowd.counted().wrong_source_received, 4U);
  EXPECT_EQ(crowd.pair.at_b->phase, Phase::kOpen);
  EXPECT_EQ(memory[0], std::byte{0});
}

// From the peer's address, without the nonces of the connection.
TEST(Strangers, WithCrcAForgerWithoutTheNoncesClosesNothing) {
  Crowd crowd;
  ConnectOptions options;
  options.crc = CrcChoice::kOn;
  ASSERT_TRUE(crowd.pair.open(options));
  Forger& f = crowd.forger;
  const std::uint64_t psn = f.next_psn();
  for (const std::uint32_t seed : {0U, 1U, crowd.pair.at_a->crc_seed ^ 1U}) {
    f.send(crowd.pair.a, f.packet(0, f.nack(0x11, 0)), seed);
    f.send(crowd.pair.a, f.packet(0, f.control(wire::ControlType::kCloseCommand, psn)), seed);
  }
  EXPECT_EQ(crowd.pair.at_b->counters.crc_errors, 6U);
  EXPECT_EQ(crowd.pair.at_b->phase, Phase::kOpen);
  f.send(f.packet(0, f.nack(0x11, 0)));  // who has them may
  EXPECT_EQ(crowd.pair.at_b->phase, Phase::kFailed);
}

// Ends the pair's connection on both sides and opens another in the same slots.
void reopen(EnginePair& pair, const ConnectOptions& options) {
  for (auto* end : {&pair.a, &pair.b}) {
    Connection& c = *end->context().connections[0];
    if (!is_over(c.phase)) end_connection(end->context(), c, Phase::kClosed);
    free_slot(end->context(), c);
  }
  ASSERT_TRUE(pair.open(options));
}

TEST(Strangers, LatePacketsOfAClosedConnectionDoNotReachTheNextInItsSlot) {
  for (const CrcChoice crc : {CrcChoice::kOn, CrcChoice::kOff}) {
    EndpointConfig config;
    config.max_connections = 1;
    EnginePair pair({}, config);
    Forger forger(pair);
    ConnectOptions options;
    options.crc = crc;
    ASSERT_TRUE(pair.open(options));
    std::vector<std::byte> memory(64);
    const MemoryRegion region = pair.b.context().memory.add(memory, kAllAccess, {}, 77).value();
    const std::uint32_t seed = pair.at_a->crc_seed;
    const std::uint64_t psn = forger.next_psn();
    const auto write = forger.packet(8, forger.request(psn), write_of(region.remote.key, 8));
    const auto close = forger.packet(0, forger.control(wire::ControlType::kCloseCommand, psn));
    reopen(pair, options);
    std::optional<std::uint32_t> tag;
    if (crc == CrcChoice::kOn) tag.emplace(seed);
    for (int i = 0; i < 10; ++i) {
      forger.send(pair.a, write, tag);
      forger.send(pair.a, close, tag);
    }
    const ConnectionCounters& counted = pair.at_b->counters;
    EXPECT_EQ(crc == CrcChoice::kOn ? counted.crc_errors : counted.out_of_window_received, 20U);
    EXPECT_EQ(pair.at_b->phase, Phase::kOpen);
    EXPECT_EQ(memory[0], std::byte{0});
  }
}

TEST(Strangers, AClosedConnectionKeepsNothingAlive) {
  EndpointConfig config;
  config.max_connections = 1;
  EnginePair pair({}, config);
  ASSERT_TRUE(pair.open({}));
  std::set<std::uint64_t> first_psns;
  for (int i = 0; i < 20; ++i) {
    reopen(pair, {});
    first_psns.insert(pair.at_b->first_psn.value);
    EXPECT_EQ(pair.b.context().by_nonce.size(), 1U);
  }
  EXPECT_EQ(first_psns.size(), 20U);  // at random: see docs/WIRE.md, "Close"
}

}  // namespace
}  // namespace spindrift::test
