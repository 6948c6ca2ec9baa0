// Virtual time, queues and dead hosts of the in-memory network.
#include "providers/memory/memory_network.h"

#include <array>

#include <gtest/gtest.h>

namespace spindrift {
namespace {

using std::chrono::microseconds;

class MemoryNetworkTest : public ::testing::Test {
 protected:
  void open(const MemoryNetworkConfig& config, bool copies_on_send = true,
            std::uint64_t receive_buffer_bytes = 1U << 20U) {
    network_ = std::make_unique<MemoryNetwork>(config);
    for (int i = 0; i < 2; ++i) {
      MemoryHostConfig host;
      host.addresses = {parse_net_address("10.0.0." + std::to_string(i + 1), 0).value()};
      host.copies_on_send = copies_on_send;
      host.transmit_slots = 4;
      host.receive_buffer_bytes = receive_buffer_bytes;
      host.max_burst_packets = 64;
      host.max_burst_bytes = 65536;
      hosts_[static_cast<std::size_t>(i)] = network_->add_host(host);
      PacketIo& io = *hosts_[static_cast<std::size_t>(i)];
      ASSERT_TRUE(io.add_rail(host.addresses[0]).ok());
      ASSERT_TRUE(io.open_entropies(0, 4).ok());
    }
  }

  void send(std::size_t count, std::uint16_t entropy = 0) {
    std::vector<TxPacket> packets(count);
    ASSERT_EQ(hosts_[0]->reserve(packets), count);
    for (TxPacket& packet : packets) {
      packet.header = packet.header.first(0);
      packet.payload[0] = payload_;
      packet.payload_pieces = 1;
      packet.to = &hosts_[1]->rails()[0];
      packet.entropy = entropy;
    }
    hosts_[0]->send(packets);
  }

  std::vector<RxPacket> receive() {
    std::vector<RxPacket> packets(64);
    packets.resize(hosts_[1]->receive(packets));
    return packets;
  }

  std::vector<IoError> errors() {
    std::vector<IoError> result(8);
    result.resize(hosts_[0]->poll_errors(result));
    return result;
  }

  std::vector<std::byte> payload_ = std::vector<std::byte>(1000, std::byte{1});
  std::unique_ptr<MemoryNetwork> network_;
  std::array<std::unique_ptr<PacketIo>, 2> hosts_{};
};

TEST_F(MemoryNetworkTest, DeliversAfterTheDelayAndNotBefore) {
  open(MemoryNetworkConfig{});
  EXPECT_EQ(network_->next_event(), kNever);
  send(1);
  EXPECT_EQ(network_->next_event(), Time(microseconds(5)));
  network_->advance_to(Time(microseconds(5)) - Duration(1));
  EXPECT_TRUE(receive().empty());
  network_->advance_to(Time(microseconds(9)));
  const auto packets = receive();
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].arrival, Time(microseconds(5)));
  EXPECT_EQ(hosts_[1]->now(), Time(microseconds(9)));
}

TEST_F(MemoryNetworkTest, SpacesPacketsByTheLinkRate) {
  MemoryNetworkConfig config;
  config.link_rate = Rate::gbps(8);  // 1000 bytes: 1 us
  open(config);
  send(3);
  network_->advance_to(Time(microseconds(100)));
  const auto packets = receive();
  ASSERT_EQ(packets.size(), 3U);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(packets[static_cast<std::size_t>(i)].arrival, Time(microseconds(6 + i)));
  }
}

TEST_F(MemoryNetworkTest, MarksAboveTheThresholdAndDropsAboveTheQueue) {
  MemoryNetworkConfig config;
  config.link_rate = Rate::gbps(8);
  config.mark_bytes = 3500;
  config.queue_bytes = 10000;
  open(config);
  send(20);
  network_->advance_to(Time(microseconds(100)));
  const auto packets = receive();
  ASSERT_EQ(packets.size(), 10U);
  for (std::size_t i = 0; i < packets.size(); ++i) {
    EXPECT_EQ(packets[i].ecn, i < 4 ? Ecn::kEct0 : Ecn::kCe) << i;
  }
  EXPECT_EQ(network_->stats().queue_drops, 10U);
  EXPECT_EQ(network_->stats().marked_packets, 6U);
}

TEST_F(MemoryNetworkTest, MergesWhatWasSentTogetherIntoOneBurst) {
  open(MemoryNetworkConfig{});
  send(3, 0);
  send(2, 1);
  network_->advance_to(Time(microseconds(5)));
  const auto packets = receive();
  ASSERT_EQ(packets.size(), 5U);
  const std::array<bool, 5> expected{false, false, true, false, true};
  for (std::size_t i = 0; i < 5; ++i)
    EXPECT_EQ(packets[i].ends_burst, expected[i]) << i;
}

TEST_F(MemoryNetworkTest, DropsWhatTheReceiveBufferCannotHold) {
  open(MemoryNetworkConfig{}, true, 2500);
  send(4);
  network_->advance_to(Time(microseconds(5)));
  EXPECT_EQ(receive().size(), 2U);
  EXPECT_EQ(network_->stats().receive_buffer_drops, 2U);
  send(1);
  network_->advance_to(Time(microseconds(10)));
  EXPECT_EQ(receive().size(), 1U);
}

TEST_F(MemoryNetworkTest, ReadsPayloadAtDeliveryWhenItIsSentInPlace) {
  open(MemoryNetworkConfig{}, false);
  send(4);
  EXPECT_EQ(hosts_[0]->released(), 0U);
  std::array<TxPacket, 1> more{};
  EXPECT_EQ(hosts_[0]->reserve(more), 0U);  // four slots
  payload_[0] = std::byte{9};
  network_->advance_to(Time(microseconds(5)));
  EXPECT_EQ(hosts_[0]->released(), 4U);
  const auto packets = receive();
  ASSERT_EQ(packets.size(), 4U);
  EXPECT_EQ(packets[0].bytes[0], std::byte{9});
  EXPECT_EQ(hosts_[0]->reserve(more), 1U);
}

TEST_F(MemoryNetworkTest, ForgetsPayloadOfAHostThatClosed) {
  open(MemoryNetworkConfig{}, false);
  send(1);
  hosts_[0].reset();
  payload_.clear();
  payload_.shrink_to_fit();
  network_->advance_to(Time(microseconds(5)));
  EXPECT_TRUE(receive().empty());
}

TEST_F(MemoryNetworkTest, DarkensOneEntropyAlone) {
  open(MemoryNetworkConfig{});
  network_->set_path_down(0, 1, true);
  send(1, 0);
  send(1, 1);
  network_->advance_to(Time(microseconds(5)));
  EXPECT_EQ(receive().size(), 1U);
  network_->set_path_down(0, 1, false);
  send(1, 1);
  network_->advance_to(Time(microseconds(10)));
  EXPECT_EQ(receive().size(), 1U);
}

TEST_F(MemoryNetworkTest, TellsSendersOfAProcessThatDiedButNotOfAHostThatDid) {
  open(MemoryNetworkConfig{});
  network_->unplug(1);
  send(1, 2);
  network_->advance_to(Time(microseconds(50)));
  EXPECT_TRUE(errors().empty());
  network_->unplug(1, MemoryNetwork::Unplugged::kRefuses);
  send(1, 2);
  network_->advance_to(Time(microseconds(59)));
  EXPECT_TRUE(errors().empty());
  network_->advance_to(Time(microseconds(60)));
  const auto said = errors();
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].kind, IoError::Kind::kPortUnreachable);
  EXPECT_EQ(said[0].to, hosts_[1]->rails()[0]);
  EXPECT_EQ(said[0].entropy, 2U);
  network_->plug_in(1);
  send(1);
  network_->advance_to(Time(microseconds(70)));
  EXPECT_EQ(receive().size(), 1U);
}

TEST_F(MemoryNetworkTest, ReportsPacketsTooBigForThePath) {
  MemoryNetworkConfig config;
  config.reports_too_big = true;
  open(config);
  network_->set_path_max_packet_bytes(999);
  send(1);
  network_->advance_to(Time(microseconds(10)));
  const auto said = errors();
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].kind, IoError::Kind::kTooBig);
  EXPECT_EQ(said[0].max_packet_bytes, 999U);
  EXPECT_EQ(network_->stats().too_big_drops, 1U);
}

TEST_F(MemoryNetworkTest, LetsANewHostTakeTheAddressOfAClosedOne) {
  open(MemoryNetworkConfig{});
  const NetAddress address = hosts_[1]->rails()[0];
  hosts_[1].reset();
  MemoryHostConfig host;
  host.addresses = {address};
  hosts_[1] = network_->add_host(host);
  ASSERT_TRUE(hosts_[1]->add_rail(address).ok());
  send(1);
  network_->advance_to(Time(microseconds(5)));
  EXPECT_EQ(receive().size(), 1U);
}

}  // namespace
}  // namespace spindrift
