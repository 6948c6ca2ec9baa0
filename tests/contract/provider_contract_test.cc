// What every PacketIo must do.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "spindrift/provider.h"

#include "tests/contract/provider_world.h"

namespace spindrift::testing {
namespace {

using Bytes = std::vector<std::byte>;

Bytes pattern(std::size_t size, std::size_t seed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>((i * 131 + seed * 17 + (i >> 8U)) & 0xffU);
  }
  return bytes;
}

struct Received {
  Bytes bytes;
  RxPacket packet;
};

struct Outgoing {
  Bytes payload{};
  std::uint16_t rail = 0;
  std::uint16_t entropy = 0;
  Ecn ecn = Ecn::kEct0;
  std::uint8_t dscp = 0;
  std::size_t to_rail = 0;
};

class NamesAndValues final : public CounterWriter {
 public:
  void counter(std::string_view name, std::uint64_t value) override {
    EXPECT_TRUE(values.emplace(name, value).second) << name << " is written twice";
  }
  std::map<std::string, std::uint64_t, std::less<>> values;
};

class ProviderContract : public ::testing::TestWithParam<ProviderWorldInfo> {
 protected:
  static constexpr std::uint16_t kEntropies = 4;
  static auto paths(const PacketIo& io) { return std::min(kEntropies, io.caps().entropies); }

  void SetUp() override {
    const std::string reason = GetParam().reason_to_skip();
    if (!reason.empty()) GTEST_SKIP() << reason;
    world_ = GetParam().make();
    sender_ = open(0);
    receiver_ = open(1);
  }

  std::unique_ptr<PacketIo> open(std::size_t host) {
    auto io = world_->open(host);
    for (std::size_t rail = 0; rail < 2; ++rail) {
      auto added = io->add_rail(world_->address(host, rail));
      EXPECT_TRUE(added.ok());
      EXPECT_EQ(added.value(), rail);
      EXPECT_TRUE(io->open_entropies(static_cast<std::uint16_t>(rail), paths(*io)).ok());
    }
    return io;
  }

  // In one send() where the provider has room for all.
  void send(const std::vector<Outgoing>& packets) {
    std::size_t done = 0;
    std::vector<TxPacket> reserved(packets.size());
    while (done < packets.size()) {
      const std::size_t count = sender_->reserve(std::span(reserved).first(packets.size() - done));
      ASSERT_GT(count, 0U);
      for (std::size_t i = 0; i < count; ++i)
        fill(reserved[i], packets[done + i]);
      sender_->send(std::span(reserved).first(count));
      done += count;
      wait_until_released();
    }
  }

  void fill(TxPacket& packet, const Outgoing& from) {
    packet.header = packet.header.first(0);
    packet.payload[0] = from.payload;
    packet.payload_pieces = 1;
    packet.to = &receiver_->rails()[from.to_rail];
    packet.rail = from.rail;
    packet.entropy = from.entropy % paths(*sender_);
    packet.ecn = from.ecn;
    packet.dscp = from.dscp;
    ++sent_;
  }

  void wait_until_released() {
    for (int turn = 0; turn < 1000 && sender_->released() < sent_; ++turn) {
      std::array<RxPacket, 1> none{};
      ASSERT_EQ(sender_->receive(none), 0U);
      world_->settle(*receiver_);
    }
    ASSERT_EQ(sender_->released(), sent_);
    ASSERT_FALSE(sender_->has_unsent());
  }

  // Everything that has arrived, released at once.
  std::vector<Received> receive_all(std::size_t span_size = 64) {
    std::vector<Received> result;
    std::vector<RxPacket> packets(span_size);
    for (;;) {
      std::size_t count = receiver_->receive(packets);
      if (count == 0) {
        world_->settle(*receiver_);
        count = receiver_->receive(packets);
      }
      if (count == 0) return result;
      for (const RxPacket& packet : std::span(packets).first(count)) {
        result.push_back(Received{Bytes(packet.bytes.begin(), packet.bytes.end()), packet});
      }
      receiver_->release(std::span(packets).first(count));
    }
  }

  std::uint32_t limit() { return sender_->max_packet_bytes(0, receiver_->rails()[0]); }

  std::unique_ptr<ProviderWorld> world_;
  std::unique_ptr<PacketIo> sender_;
  std::unique_ptr<PacketIo> receiver_;
  std::uint64_t sent_ = 0;
};

TEST_P(ProviderContract, DescribesItself) {
  const PacketIoCaps& caps = sender_->caps();
  EXPECT_FALSE(caps.name.empty());
  EXPECT_GE(caps.max_packet_bytes, 1024U);
  EXPECT_GE(caps.batch, 1U);
  EXPECT_GE(caps.entropies, 1U);
  EXPECT_LE(caps.entropies, kMaxPaths);
  EXPECT_GE(caps.max_burst_packets, 1U);
  EXPECT_GT(limit(), 0U);
  EXPECT_LE(limit(), caps.max_packet_bytes);
}

TEST_P(ProviderContract, ChoosesAFreePortForPortZero) {
  EXPECT_NE(receiver_->rails()[0].port, 0U);
  EXPECT_NE(receiver_->rails()[0], receiver_->rails()[1]);
  EXPECT_TRUE(receiver_->rails()[0].is_same_host(world_->address(1, 0)));
}

TEST_P(ProviderContract, RefusesABusyPortByName) {
  auto third = receiver_->add_rail(receiver_->rails()[0]);
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(third.error().message(),
              ::testing::HasSubstr(std::to_string(receiver_->rails()[0].port)));
  EXPECT_EQ(receiver_->rails().size(), 2U);
}

TEST_P(ProviderContract, RefusesAForeignAddress) {
  auto third = receiver_->add_rail(world_->foreign_address());
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_FALSE(third.error().message().empty());
}

TEST_P(ProviderContract, RefusesMoreEntropiesThanItHas) {
  const auto too_many = static_cast<std::uint16_t>(sender_->caps().entropies + 1);
  EXPECT_FALSE(sender_->open_entropies(0, too_many).ok());
}

TEST_P(ProviderContract, ExpandsAWildcardToItsAddresses) {
  NetAddress wildcard;
  wildcard.family = world_->address(0, 0).family;
  wildcard.port = 4793;
  const std::vector<NetAddress> addresses = sender_->expand(wildcard);
  EXPECT_TRUE(std::any_of(addresses.begin(), addresses.end(), [&](const NetAddress& one) {
    return one.is_same_host(world_->address(0, 0)) && one.port == 4793;
  }));
}

TEST_P(ProviderContract, KnowsTheSourceAddressForAPeer) {
  const auto source = sender_->source_for(receiver_->rails()[0]);
  ASSERT_TRUE(source.ok()) << source.error().message();
  EXPECT_TRUE(source.value().is_same_host(sender_->rails()[0]));
  EXPECT_EQ(source.value().port, 0U);
}

TEST_P(ProviderContract, ReservesABatchOfDistinctHeaders) {
  std::vector<TxPacket> packets(sender_->caps().batch);
  ASSERT_EQ(sender_->reserve(packets), packets.size());
  std::set<const std::byte*> starts;
  for (const TxPacket& packet : packets) {
    EXPECT_EQ(packet.header.size(), kMaxHeaderBytes);
    EXPECT_EQ(packet.payload_pieces, 0U);
    EXPECT_EQ(packet.trailer_bytes, 0U);
    EXPECT_TRUE(starts.insert(packet.header.data()).second);
  }
}

TEST_P(ProviderContract, TakesExactlyWhatWasReserved) {
  std::vector<TxPacket> packets(10000);
  const std::size_t count = sender_->reserve(packets);
  ASSERT_GE(count, sender_->caps().batch);
  for (std::size_t i = 0; i < count; ++i) {
    packets[i].header = packets[i].header.first(sizeof i);
    std::memcpy(packets[i].header.data(), &i, sizeof i);
    packets[i].to = &receiver_->rails()[0];
  }
  sender_->send(std::span(packets).first(count));
  sent_ += count;
  wait_until_released();
  const auto received = receive_all();
  ASSERT_EQ(received.size(), count);
  std::set<std::size_t> seen;
  for (const Received& one : received) {
    std::size_t index = 0;
    ASSERT_EQ(one.bytes.size(), sizeof index);
    std::memcpy(&index, one.bytes.data(), sizeof index);
    EXPECT_TRUE(seen.insert(index).second);
  }
}

TEST_P(ProviderContract, GivesUpAReservationThatWasNotUsed) {
  std::vector<TxPacket> packets(sender_->caps().batch);
  for (int i = 0; i < 1000; ++i)
    ASSERT_EQ(sender_->reserve(packets), packets.size());
  send({Outgoing{pattern(100, 1)}});
  EXPECT_EQ(receive_all().size(), 1U);
  EXPECT_EQ(sender_->released(), 1U);
}

TEST_P(ProviderContract, SendsAPrefixOfTheReservation) {
  std::vector<TxPacket> packets(8);
  ASSERT_EQ(sender_->reserve(packets), packets.size());
  for (TxPacket& packet : packets)
    packet.to = &receiver_->rails()[0];
  sender_->send(std::span(packets).first(3));
  sent_ += 3;
  wait_until_released();
  EXPECT_EQ(receive_all().size(), 3U);
}

TEST_P(ProviderContract, GathersHeaderPiecesAndTrailerByteExact) {
  const Bytes memory = pattern(5000, 9);
  for (std::size_t pieces = 0; pieces <= kMaxPieces; ++pieces) {
    std::array<TxPacket, 1> packets{};
    ASSERT_EQ(sender_->reserve(packets), 1U);
    TxPacket& packet = packets[0];
    packet.header = packet.header.first(pieces == 0 ? kMaxHeaderBytes : 40 + pieces);
    std::fill(packet.header.begin(), packet.header.end(), std::byte{0x5a});
    Bytes expected(packet.header.begin(), packet.header.end());
    for (std::size_t i = 0; i < pieces; ++i) {
      // Odd sizes and starts, one piece empty.
      packet.payload[i] = std::span(memory).subspan(i * 301 + 1, i == 2 ? 0 : 7 + i * 13);
      expected.insert(expected.end(), packet.payload[i].begin(), packet.payload[i].end());
    }
    packet.payload_pieces = static_cast<std::uint8_t>(pieces);
    packet.trailer = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
    packet.trailer_bytes = pieces % 2 == 0 ? 4 : 0;
    if (packet.trailer_bytes == 4) {
      expected.insert(expected.end(), packet.trailer.begin(), packet.trailer.end());
    }
    packet.to = &receiver_->rails()[0];
    sender_->send(packets);
    // The descriptors belong to the caller again; only header and payload stay in use.
    packet.trailer = {};
    ++sent_;
    wait_until_released();
    const auto received = receive_all();
    ASSERT_EQ(received.size(), 1U) << pieces << " pieces";
    EXPECT_EQ(received[0].bytes, expected) << pieces << " pieces";
  }
}

TEST_P(ProviderContract, CarriesZeroLength) {
  send({Outgoing{}, Outgoing{pattern(10, 1)}, Outgoing{}});
  const auto received = receive_all();
  ASSERT_EQ(received.size(), 3U);
  EXPECT_EQ(received[0].bytes.size(), 0U);
  EXPECT_EQ(received[1].bytes, pattern(10, 1));
  EXPECT_EQ(received[2].bytes.size(), 0U);
}

TEST_P(ProviderContract, CarriesTheMaximum) {
  send({Outgoing{pattern(limit(), 3)}});
  const auto received = receive_all();
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].bytes, pattern(limit(), 3));
}

TEST_P(ProviderContract, SurvivesOneByteMoreThanTheMaximum) {
  send({Outgoing{pattern(100, 1)}, Outgoing{pattern(limit() + 1, 2)}, Outgoing{pattern(100, 3)}});
  const auto received = receive_all();
  ASSERT_EQ(received.size(), 2U);
  EXPECT_EQ(received[0].bytes, pattern(100, 1));
  EXPECT_EQ(received[1].bytes, pattern(100, 3));
}

TEST_P(ProviderContract, KeepsTheBoundariesOfBursts) {
  for (const std::size_t bytes : {1U, 64U, 1000U, 1408U, 4096U}) {
    if (bytes >= limit()) continue;
    std::vector<Outgoing> packets;
    for (std::size_t i = 0; i < 70; ++i)
      packets.push_back(Outgoing{pattern(bytes, i), 0, 1});
    packets.push_back(Outgoing{pattern((bytes + 1) / 2, 70), 0, 1});  // a shorter tail
    packets.push_back(Outgoing{pattern(bytes, 71), 0, 1});            // a new burst
    packets.push_back(Outgoing{pattern(bytes + 1, 72), 0, 1});        // a longer one
    packets.push_back(Outgoing{pattern(bytes + 1, 73), 0, 2});        // another path
    send(packets);
    const auto received = receive_all();
    ASSERT_EQ(received.size(), packets.size()) << bytes;
    for (std::size_t i = 0; i < packets.size(); ++i) {
      EXPECT_EQ(received[i].bytes, packets[i].payload) << bytes << " bytes, packet " << i;
    }
    EXPECT_TRUE(received.back().packet.ends_burst);
    const auto ends = std::count_if(received.begin(), received.end(),
                                    [](const Received& one) { return one.packet.ends_burst; });
    EXPECT_GE(ends, 4) << "bursts of different paths or sizes were merged";
  }
}

TEST_P(ProviderContract, HandsOutAnyNumberAtATime) {
  std::vector<Outgoing> packets;
  for (std::size_t i = 0; i < 50; ++i)
    packets.push_back(Outgoing{pattern(700, i), 0, 1});
  for (const std::size_t span_size : {1U, 3U, 7U, 200U}) {
    send(packets);
    const auto received = receive_all(span_size);
    ASSERT_EQ(received.size(), packets.size());
    for (std::size_t i = 0; i < packets.size(); ++i) {
      EXPECT_EQ(received[i].bytes, packets[i].payload);
    }
  }
}

TEST_P(ProviderContract, CarriesEcnAndDscpPerPacket) {
  if (!sender_->caps().has_ecn) GTEST_SKIP() << "caps say no";
  std::vector<Outgoing> packets;
  for (const Ecn ecn : {Ecn::kNotEct, Ecn::kEct0, Ecn::kEct1, Ecn::kCe}) {
    for (const std::uint8_t dscp : std::array<std::uint8_t, 4>{0, 10, 46, 63}) {
      packets.push_back(Outgoing{pattern(500, packets.size()), 0, 0, ecn, dscp});
      packets.push_back(Outgoing{pattern(500, packets.size()), 0, 0, ecn, dscp});
    }
  }
  send(packets);
  const auto received = receive_all();
  ASSERT_EQ(received.size(), packets.size());
  for (std::size_t i = 0; i < packets.size(); ++i) {
    EXPECT_EQ(received[i].bytes, packets[i].payload);
    EXPECT_EQ(received[i].packet.ecn, packets[i].ecn);
    EXPECT_EQ(received[i].packet.dscp, packets[i].dscp);
  }
}

TEST_P(ProviderContract, CarriesTheEntropyInTheSourcePort) {
  std::vector<Outgoing> packets;
  for (std::uint16_t i = 0; i < 2 * paths(*sender_); ++i)
    packets.push_back(Outgoing{pattern(64, i), 0, static_cast<std::uint16_t>(i % paths(*sender_))});
  send(packets);
  const auto received = receive_all();
  ASSERT_EQ(received.size(), packets.size());
  std::map<std::uint16_t, std::uint16_t> port_of;
  std::set<std::uint16_t> ports;
  for (const auto& [bytes, packet] : received) {
    std::size_t i = 0;  // paths may overtake each other
    while (i < packets.size() && packets[i].payload != bytes)
      ++i;
    ASSERT_LT(i, packets.size());
    EXPECT_TRUE(packet.source.is_same_host(sender_->rails()[0]));
    EXPECT_EQ(port_of.emplace(packets[i].entropy, packet.source.port).first->second,
              packet.source.port);
    ports.insert(packet.source.port);
  }
  EXPECT_EQ(ports.size(), paths(*sender_));
}

TEST_P(ProviderContract, TellsRailsApart) {
  std::vector<Outgoing> packets;
  for (std::size_t i = 0; i < 8; ++i)
    packets.push_back(Outgoing{pattern(100, i), static_cast<std::uint16_t>(i % 2), 0, Ecn::kEct0, 0,
                               (i / 2) % 2});
  send(packets);
  const auto received = receive_all();
  ASSERT_EQ(received.size(), packets.size());
  for (const Outgoing& packet : packets) {
    const auto found = std::find_if(received.begin(), received.end(), [&](const Received& one) {
      return one.bytes == packet.payload;
    });
    ASSERT_NE(found, received.end());
    EXPECT_EQ(found->packet.rail, packet.to_rail);
    EXPECT_TRUE(found->packet.source.is_same_host(sender_->rails()[packet.rail]));
  }
}

TEST_P(ProviderContract, NeverRunsOutOfBuffersThatWereReleased) {
  std::vector<Outgoing> packets;
  for (std::size_t i = 0; i < 32; ++i)
    packets.push_back(Outgoing{pattern(1000, i)});
  for (int round = 0; round < 30; ++round) {
    send(packets);
    ASSERT_EQ(receive_all(5).size(), packets.size()) << "round " << round;
  }
}

TEST_P(ProviderContract, LeavesHeldPacketsAlone) {
  std::vector<Outgoing> packets;
  for (std::size_t i = 0; i < 40; ++i)
    packets.push_back(Outgoing{pattern(900, i)});
  send(packets);
  world_->settle(*receiver_);
  std::vector<RxPacket> held(20);
  for (std::size_t count = 0; count < held.size();) {
    const std::size_t more = receiver_->receive(std::span(held).subspan(count));
    ASSERT_GT(more, 0U) << "after " << count;
    count += more;
  }
  EXPECT_EQ(receive_all().size(), 20U);
  send(packets);
  EXPECT_EQ(receive_all().size(), 40U);
  for (std::size_t i = 0; i < held.size(); ++i) {
    EXPECT_EQ(Bytes(held[i].bytes.begin(), held[i].bytes.end()), packets[i].payload);
  }
  std::reverse(held.begin(), held.end());
  receiver_->release(held);
}

TEST_P(ProviderContract, IsDoneWithPayloadItReleased) {
  Bytes memory = pattern(1200, 5);
  std::array<TxPacket, 1> packets{};
  ASSERT_EQ(sender_->reserve(packets), 1U);
  packets[0].header = packets[0].header.first(8);
  std::fill(packets[0].header.begin(), packets[0].header.end(), std::byte{7});
  packets[0].payload[0] = memory;
  packets[0].payload_pieces = 1;
  packets[0].to = &receiver_->rails()[0];
  sender_->send(packets);
  ++sent_;
  wait_until_released();
  std::fill(memory.begin(), memory.end(), std::byte{0xff});
  const auto received = receive_all();
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(Bytes(received[0].bytes.begin() + 8, received[0].bytes.end()), pattern(1200, 5));
}

TEST_P(ProviderContract, CountsByStableNames) {
  send({Outgoing{pattern(100, 1)}, Outgoing{pattern(100, 2)}});
  ASSERT_EQ(receive_all().size(), 2U);
  NamesAndValues sent;
  NamesAndValues received;
  sender_->counters(sent);
  receiver_->counters(received);
  EXPECT_EQ(sent.values["tx_packets"], 2U);
  EXPECT_EQ(sent.values["tx_bytes"], 200U);
  EXPECT_EQ(received.values["rx_packets"], 2U);
  EXPECT_EQ(received.values["rx_bytes"], 200U);
  for (const auto& entry : sent.values) {
    EXPECT_TRUE(std::all_of(entry.first.begin(), entry.first.end(), [](char c) {
      return c == '_' || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    })) << entry.first;
  }
}

TEST_P(ProviderContract, WakesOnlyForWhatThereIs) {
  std::vector<int> fds;
  receiver_->append_wait_fds(fds);
  if (fds.empty()) GTEST_SKIP() << "a provider without descriptors";
  std::vector<pollfd> waits;
  for (const int fd : fds)
    waits.push_back(pollfd{fd, POLLIN, 0});
  EXPECT_EQ(poll(waits.data(), waits.size(), 0), 0);
  send({Outgoing{pattern(100, 1)}});
  EXPECT_GE(poll(waits.data(), waits.size(), 1000), 1);
  ASSERT_EQ(receive_all().size(), 1U);
  EXPECT_EQ(poll(waits.data(), waits.size(), 0), 0);
}

TEST_P(ProviderContract, HasNothingToSayWhenNothingHappened) {
  std::array<RxPacket, 4> packets{};
  std::array<IoError, 4> errors{};
  EXPECT_EQ(receiver_->receive(packets), 0U);
  EXPECT_EQ(receiver_->receive({}), 0U);
  EXPECT_EQ(receiver_->poll_errors(errors), 0U);
  EXPECT_EQ(receiver_->reserve({}), 0U);
  receiver_->send({});
  receiver_->release({});
  EXPECT_EQ(receiver_->released(), 0U);
  EXPECT_FALSE(receiver_->has_unsent());
}

INSTANTIATE_TEST_SUITE_P(Providers, ProviderContract, ::testing::ValuesIn(provider_worlds()),
                         [](const auto& world) { return world.param.name; });

}  // namespace
}  // namespace spindrift::testing
