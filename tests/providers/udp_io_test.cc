// What is particular to UDP sockets: super-packets, the network's errors, options, refusals.
#include "providers/udp/udp_io.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>

namespace spindrift {
namespace {

using ::testing::HasSubstr;

class Values final : public CounterWriter {
 public:
  void counter(std::string_view name, std::uint64_t value) override {
    values[std::string(name)] = value;
  }
  std::map<std::string, std::uint64_t> values;
};

std::uint64_t counted(const PacketIo& io, const std::string& name) {
  Values values;
  io.counters(values);
  EXPECT_TRUE(values.values.contains(name)) << name;
  return values.values[name];
}

std::unique_ptr<PacketIo> open_host(const UdpOptions& options = UdpOptions{}) {
  auto io = std::move(open_udp(options)).value();
  EXPECT_TRUE(io->add_rail(parse_net_address("127.0.0.1:0", 0).value()).ok());
  EXPECT_TRUE(io->open_entropies(0, 4).ok());
  return io;
}

void send(PacketIo& io, const NetAddress& to, std::size_t count, std::span<const std::byte> bytes) {
  std::vector<TxPacket> packets(count);
  ASSERT_EQ(io.reserve(packets), count);
  for (TxPacket& packet : packets) {
    packet.header = packet.header.first(0);
    packet.payload[0] = bytes;
    packet.payload_pieces = 1;
    packet.to = &to;
    packet.entropy = 2;
  }
  io.send(packets);
}

std::size_t wait_for_errors(PacketIo& io, std::span<IoError> out) {
  std::vector<int> fds;
  io.append_wait_fds(fds);
  std::vector<pollfd> waits;
  for (const int fd : fds)
    waits.push_back(pollfd{fd, POLLIN, 0});
  if (poll(waits.data(), waits.size(), 2000) <= 0) return 0;
  // Looks at the queues now and then only.
  std::size_t count = 0;
  for (int i = 0; i < 100'000 && count == 0; ++i)
    count = io.poll_errors(out);
  return count;
}

TEST(UdpIo, SendsABurstAsOneSuperPacketAndTakesItInAsOne) {
  auto sender = open_host();
  auto receiver = open_host();
  if (sender->caps().max_burst_packets == 1) GTEST_SKIP() << "this kernel has no GSO";
  const std::vector<std::byte> bytes(1000);
  send(*sender, receiver->rails()[0], 40, bytes);
  EXPECT_EQ(counted(*sender, "tx_packets"), 40U);
  EXPECT_EQ(counted(*sender, "tx_messages"), 1U);
  EXPECT_EQ(counted(*sender, "tx_calls"), 1U);
  std::array<RxPacket, 64> packets{};
  ASSERT_EQ(receiver->receive(packets), 40U);
  EXPECT_EQ(counted(*receiver, "rx_messages"), 1U);
  const auto ends = std::count_if(packets.begin(), packets.begin() + 40,
                                  [](const RxPacket& packet) { return packet.ends_burst; });
  EXPECT_EQ(ends, 1);
  EXPECT_TRUE(packets[39].ends_burst);
  receiver->release(std::span(packets).first(40));
}

TEST(UdpIo, SendsOneByOneWithoutGso) {
  UdpOptions options;
  options.has_gso = false;
  auto sender = open_host(options);
  EXPECT_EQ(sender->caps().max_burst_packets, 1U);
  EXPECT_EQ(sender->caps().max_burst_bytes, 0U);
  auto receiver = open_host();
  const std::vector<std::byte> bytes(1000);
  send(*sender, receiver->rails()[0], 40, bytes);
  EXPECT_EQ(counted(*sender, "tx_messages"), 40U);
  EXPECT_EQ(counted(*sender, "tx_calls"), 1U);
}

TEST(UdpIo, ReportsAnUnreachablePortAndKeepsSending) {
  auto sender = open_host();
  auto other = open_host();
  const NetAddress gone = [] { return open_host()->rails()[0]; }();
  const std::vector<std::byte> bytes(100);
  send(*sender, gone, 1, bytes);
  std::array<IoError, 4> errors{};
  ASSERT_GE(wait_for_errors(*sender, errors), 1U);
  EXPECT_EQ(errors[0].kind, IoError::Kind::kPortUnreachable);
  EXPECT_EQ(errors[0].to, gone);
  EXPECT_EQ(errors[0].rail, 0U);
  EXPECT_EQ(errors[0].entropy, 2U);
  // The error left on a socket by one destination must not cost packets to another.
  send(*sender, gone, 1, bytes);
  send(*sender, other->rails()[0], 1, bytes);
  std::array<RxPacket, 4> packets{};
  EXPECT_EQ(other->receive(packets), 1U);
  EXPECT_EQ(counted(*sender, "tx_lost_packets"), 0U);
}

TEST(UdpIo, LosesAPacketTooBigForTheRoute) {
  auto sender = open_host();
  auto receiver = open_host();
  const std::vector<std::byte> bytes(65508);
  send(*sender, receiver->rails()[0], 1, bytes);
  EXPECT_EQ(sender->released(), 1U);
  EXPECT_EQ(counted(*sender, "tx_lost_packets"), 1U);
}

TEST(UdpIo, LosesPacketsToImpossibleAddressesAlone) {
  auto sender = open_host();
  auto receiver = open_host();
  const std::vector<std::byte> bytes(100);
  NetAddress nowhere = receiver->rails()[0];
  nowhere.port = 0;
  send(*sender, nowhere, 3, bytes);
  send(*sender, parse_net_address("[::1]:9", 0).value(), 3, bytes);
  send(*sender, receiver->rails()[0], 3, bytes);
  std::array<RxPacket, 8> packets{};
  EXPECT_EQ(receiver->receive(packets), 3U);
  EXPECT_EQ(counted(*sender, "tx_lost_packets"), 6U);
  EXPECT_EQ(counted(*sender, "gso_refused"), 0U);
}

TEST(UdpIo, CountsWhatTheReceiveBufferCouldNotHold) {
  UdpOptions options;
  options.receive_buffer_bytes = 65536;
  auto receiver = open_host(options);
  EXPECT_EQ(receiver->caps().receive_buffer_bytes, 65536U);
  auto sender = open_host();
  const std::vector<std::byte> bytes(1000);
  for (int i = 0; i < 20; ++i)
    send(*sender, receiver->rails()[0], 60, bytes);
  EXPECT_GT(counted(*receiver, "rx_overflow_packets"), 0U);
}

TEST(UdpIo, SaysThatAPortIsBusyAndWhatToDo) {
  auto io = open_host();
  const NetAddress busy = io->rails()[0];
  const auto refused = open_host()->add_rail(busy);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message(), "udp://127.0.0.1:" + std::to_string(busy.port) +
                                           " is in use by another process; choose another port "
                                           "or 0");
}

TEST(UdpIo, NamesTheLimitWhenDescriptorsRunOut) {
  auto io = open_host();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low{40, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const auto refused = io->open_entropies(0, 256);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message(), HasSubstr("RLIMIT_NOFILE is 40"));
  EXPECT_TRUE(io->open_entropies(0, 256).ok());
}

TEST(UdpIo, RefusesAWildcardRail) {
  auto io = open_host();
  EXPECT_FALSE(io->add_rail(parse_net_address("0.0.0.0:0", 0).value()).ok());
}

TEST(UdpIo, RefusesUnknownAndUnboundedOptions) {
  struct Case {
    const char* url;
    const char* says;
  };
  for (const Case& one :
       {Case{"udp://127.0.0.1?gsso=1", "gso, gro, rcvbuf, sndbuf"},
        Case{"udp://127.0.0.1?gso=2", "on or off"}, Case{"udp://127.0.0.1?rcvbuf=1", "65536"},
        Case{"udp://127.0.0.1?sndbuf=1e9", "sndbuf=1e9"}}) {
    const auto url = parse_url(one.url);
    ASSERT_TRUE(url.ok()) << one.url;
    const auto io = udp_provider().open(url.value());
    ASSERT_FALSE(io.ok()) << one.url;
    EXPECT_THAT(io.error().message(), HasSubstr(one.says));
  }
  EXPECT_TRUE(udp_provider().probe().ok());
}

}  // namespace
}  // namespace spindrift
