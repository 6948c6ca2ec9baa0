// What DpdkIo does beyond the contract of every provider: few packets, endpoints that share a
// device, neighbours that are not there, damaged and foreign frames. Over memif, in one process.
#include "providers/dpdk/dpdk_io.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <sys/wait.h>
#include <unistd.h>

#include "providers/dpdk/frame_layout.h"
#include "tests/providers/dpdk/dpdk_pair.h"

namespace spindrift::testing {
namespace {

using Bytes = std::vector<std::byte>;

class Counters final : public CounterWriter {
 public:
  void counter(std::string_view name, std::uint64_t value) override {
    // Of either port.
    const std::size_t at = name.starts_with("port") ? name.find('_') + 1 : 0;
    values[std::string(name.substr(at))] += value;
  }
  std::map<std::string, std::uint64_t> values;
};

std::uint64_t counter(const PacketIo& io, const std::string& name) {
  Counters all;
  io.counters(all);
  EXPECT_TRUE(all.values.contains(name)) << name;
  return all.values[name];
}

class DpdkIoTest : public ::testing::Test {
 protected:
  std::unique_ptr<PacketIo> open(std::size_t host, std::uint32_t mbufs = 0) {
    DeviceOptions options = pair_->options(host);
    options.mbufs = mbufs;
    auto io = std::move(open_dpdk({&options, 1})).value();
    EXPECT_TRUE(io->add_rail(dpdk_address(4, host, 0)).ok());
    EXPECT_TRUE(io->open_entropies(0, 4).ok());
    return io;
  }
  void SetUp() override { pair_->connect(); }

  // As many as it takes now.
  static std::size_t send(PacketIo& from, const NetAddress& to, const Bytes& payload,
                          std::size_t count) {
    std::vector<TxPacket> packets(count);
    const std::size_t reserved = from.reserve(packets);
    for (TxPacket& packet : std::span(packets).first(reserved)) {
      packet.header = packet.header.first(0);
      packet.payload[0] = payload;
      packet.payload_pieces = 1;
      packet.to = &to;
    }
    from.send(std::span(packets).first(reserved));
    return reserved;
  }
  static std::size_t receive(PacketIo& io) {
    std::array<RxPacket, 64> packets{};
    std::size_t total = 0;
    for (std::size_t n = io.receive(packets); n != 0; n = io.receive(packets)) {
      io.release(std::span(packets).first(n));
      total += n;
    }
    return total;
  }
  // A frame as somebody else would put it onto the wire of `host`.
  void inject(std::size_t host, const Bytes& frame) {
    std::uint16_t port = 0;
    ASSERT_EQ(rte_eth_dev_get_port_by_name(pair_->options(host).device.c_str(), &port), 0);
    static rte_mempool* pool =
        rte_pktmbuf_pool_create("test", 255, 0, 0, 2048, static_cast<int>(SOCKET_ID_ANY));
    rte_mbuf* mbuf = rte_pktmbuf_alloc(pool);
    ASSERT_NE(mbuf, nullptr);
    std::memcpy(rte_pktmbuf_append(mbuf, static_cast<std::uint16_t>(frame.size())), frame.data(),
                frame.size());
    ASSERT_EQ(rte_eth_tx_burst(port, 0, &mbuf, 1), 1);
  }

  std::unique_ptr<DpdkPair> pair_ = make_dpdk_pair("memif");
};

TEST_F(DpdkIoTest, FewPacketsSlowItDownAndNeverStopIt) {
  auto sender = open(0, 64);
  auto receiver = open(1);
  const Bytes payload(1000, std::byte{7});
  std::size_t sent = 0;
  std::size_t received = 0;
  for (int turn = 0; turn < 5000 && sent < 4000; ++turn) {
    sent += send(*sender, receiver->rails()[0], payload, 256);
    EXPECT_EQ(receive(*sender), 0U);
    received += receive(*receiver);
  }
  received += receive(*receiver);
  EXPECT_GE(sent, 4000U);
  EXPECT_EQ(received, sent);
  EXPECT_EQ(sender->released(), sent);
  EXPECT_GT(counter(*sender, "tx_no_mbuf"), 0U);
  // None is lost: as many can be had at the end as at the beginning.
  std::vector<TxPacket> packets(256);
  EXPECT_GE(sender->reserve(packets), 48U);
}

// memif's driver copies by itself: from where payload lies.
TEST_F(DpdkIoTest, LongPayloadIsNotCopiedIntoPackets) {
  auto sender = open(0);
  auto receiver = open(1);
  EXPECT_FALSE(sender->caps().copies_on_send);
  Bytes payload(4000);
  for (std::size_t i = 0; i < payload.size(); ++i)
    payload[i] = static_cast<std::byte>(i * 7 + (i >> 8U));
  std::array<TxPacket, 2> out{};
  ASSERT_EQ(sender->reserve(out), 2U);
  for (TxPacket& packet : out) {
    packet.header = packet.header.first(3);
    std::fill(packet.header.begin(), packet.header.end(), std::byte{9});
    packet.payload[0] = std::span(payload).first(1001);
    packet.payload[2] = std::span(payload).subspan(1001);
    packet.payload_pieces = 3;
    packet.to = &receiver->rails()[0];
  }
  out[1].trailer = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  out[1].trailer_bytes = 4;
  sender->send(out);
  EXPECT_EQ(counter(*sender, "tx_in_place"), 2U);
  EXPECT_EQ(sender->released(), 2U);
  std::array<RxPacket, 2> in{};
  ASSERT_EQ(receiver->receive(in), 2U);
  for (const RxPacket& packet : in) {
    ASSERT_GE(packet.bytes.size(), 3 + payload.size());
    EXPECT_EQ(packet.bytes[2], std::byte{9});
    EXPECT_TRUE(std::equal(payload.begin(), payload.end(), packet.bytes.begin() + 3));
  }
  EXPECT_EQ(in[0].bytes.size(), 3 + payload.size());
  ASSERT_EQ(in[1].bytes.size(), 3 + payload.size() + 4);
  EXPECT_TRUE(std::equal(out[1].trailer.begin(), out[1].trailer.end(), in[1].bytes.end() - 4));
  receiver->release(in);
  EXPECT_EQ(send(*sender, receiver->rails()[0], Bytes(100), 1), 1U);
  EXPECT_EQ(counter(*sender, "tx_in_place"), 2U);
}

TEST_F(DpdkIoTest, PayloadOfPacketsThatWaitForTheDeviceIsNotReleased) {
  auto sender = open(0);
  auto receiver = open(1);
  const Bytes payload(4000, std::byte{3});
  std::size_t sent = 0;
  for (int turn = 0; turn < 100 && !sender->has_unsent(); ++turn)
    sent += send(*sender, receiver->rails()[0], payload, 100);
  ASSERT_TRUE(sender->has_unsent());
  EXPECT_EQ(sender->released(), sent - 100);
  std::size_t received = 0;
  for (int turn = 0; turn < 100 && sender->has_unsent(); ++turn) {
    received += receive(*receiver);
    receive(*sender);
  }
  received += receive(*receiver);
  EXPECT_EQ(sender->released(), sent);
  EXPECT_EQ(received + counter(*sender, "tx_lost_packets"), sent);
}

TEST_F(DpdkIoTest, HandsPacketsToTheEndpointTheyAreFor) {
  auto sender = open(0);
  auto first = open(1);
  auto second = open(1);
  const Bytes payload(100, std::byte{1});
  EXPECT_EQ(send(*sender, first->rails()[0], payload, 5), 5U);
  EXPECT_EQ(send(*sender, second->rails()[0], payload, 7), 7U);
  // The first one empties the queue that both have.
  EXPECT_EQ(receive(*first), 5U);
  EXPECT_EQ(receive(*second), 7U);
}

TEST_F(DpdkIoTest, EndpointsOfOneDeviceReachEachOther) {
  auto first = open(1);
  auto second = open(1);
  EXPECT_EQ(send(*first, second->rails()[0], Bytes(100, std::byte{1}), 3), 3U);
  EXPECT_EQ(receive(*second), 3U);
}

TEST_F(DpdkIoTest, PacketsForANeighbourThatIsNotThereAreGivenUp) {
  auto sender = open(0);
  const NetAddress nobody = parse_net_address("10.77.0.99:4793", 0).value();
  EXPECT_EQ(send(*sender, nobody, Bytes(100), 3), 3U);
  EXPECT_EQ(sender->released(), 3U);
  for (int turn = 0; turn < 3000 && counter(*sender, "neighbors_gone") == 0; ++turn) {
    receive(*sender);
    usleep(1000);
  }
  EXPECT_EQ(counter(*sender, "neighbors_gone"), 1U);
  EXPECT_EQ(counter(*sender, "held_drops"), 3U);
}

TEST_F(DpdkIoTest, SaysThatThereIsNoRoute) {
  auto sender = open(0);
  const NetAddress far = parse_net_address("192.0.2.7:4793", 0).value();
  EXPECT_FALSE(sender->source_for(far).ok());
  EXPECT_EQ(send(*sender, far, Bytes(10), 1), 1U);
  std::array<IoError, 2> errors{};
  ASSERT_EQ(sender->poll_errors(errors), 1U);
  EXPECT_EQ(errors[0].kind, IoError::Kind::kHostUnreachable);
}

TEST_F(DpdkIoTest, SaysThatNobodyHasThePort) {
  auto sender = open(0);
  auto receiver = open(1);
  NetAddress to = receiver->rails()[0];
  to.port = 9;
  EXPECT_EQ(send(*sender, to, Bytes(10), 1), 1U);
  receive(*receiver);
  receive(*sender);
  std::array<IoError, 2> errors{};
  ASSERT_EQ(sender->poll_errors(errors), 1U);
  EXPECT_EQ(errors[0].kind, IoError::Kind::kPortUnreachable);
  EXPECT_EQ(errors[0].to, to);
}

TEST_F(DpdkIoTest, CountsAndDropsWhatIsNotItsOwn) {
  auto sender = open(0);
  auto receiver = open(1);
  const std::uint64_t malformed = counter(*receiver, "rx_malformed");
  const std::uint64_t others = counter(*receiver, "rx_not_ours");
  inject(0, Bytes(60, std::byte{0x45}));  // no type that anybody knows
  Bytes broken(60, std::byte{0});
  put16(broken.data() + 12, kTypeIpv4);
  inject(0, broken);
  EXPECT_EQ(receive(*receiver), 0U);
  EXPECT_EQ(counter(*receiver, "rx_malformed"), malformed + 1);
  EXPECT_EQ(counter(*receiver, "rx_not_ours"), others + 1);
  EXPECT_EQ(send(*sender, receiver->rails()[0], Bytes(10), 1), 1U);
  EXPECT_EQ(receive(*receiver), 1U);
}

// Zero would say that there are no packets.
TEST_F(DpdkIoTest, FindsItsPacketsBehindFramesOfOthers) {
  auto sender = open(0);
  auto receiver = open(1);
  for (int i = 0; i < 40; ++i)
    inject(0, Bytes(60, std::byte{0x45}));
  EXPECT_EQ(send(*sender, receiver->rails()[0], Bytes(10), 1), 1U);
  std::array<RxPacket, 1> packets{};
  ASSERT_EQ(receiver->receive(packets), 1U);
  receiver->release(packets);
}

// DPDK's threads do not come along.
TEST_F(DpdkIoTest, AForkedProcessIsRefusedAndLeavesItsParentAlone) {
  auto sender = open(0);
  auto receiver = open(1);
  const pid_t child = fork();
  if (child == 0) {
    const DeviceOptions options = pair_->options(1);
    const auto again = open_dpdk({&options, 1});
    std::array<TxPacket, 4> packets{};
    const bool is_refused =
        !again.ok() && again.error().message().find("forked") != std::string::npos;
    _exit(is_refused && sender->reserve(packets) == 0 && receive(*receiver) == 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(send(*sender, receiver->rails()[0], Bytes(10), 3), 3U);
  EXPECT_EQ(receive(*receiver), 3U);
}

TEST_F(DpdkIoTest, RefusesOtherOptionsForADeviceThatIsOpen) {
  auto first = open(1);
  DeviceOptions options = pair_->options(1);
  options.vlan = 5;
  const auto second = open_dpdk({&options, 1});
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message(), ::testing::HasSubstr("other options"));
}

TEST_F(DpdkIoTest, ExplainsADeviceThatIsNotThere) {
  DeviceOptions options = pair_->options(1);
  options.device = "net_nonsense0";
  const auto io = open_dpdk({&options, 1});
  ASSERT_FALSE(io.ok());
  EXPECT_THAT(io.error().message(), ::testing::HasSubstr("net_nonsense0"));
}

}  // namespace
}  // namespace spindrift::testing
