// UDP between two network namespaces over a veth pair, at MTU 1500 and 9000. Needs root.
#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include "providers/udp/udp_io.h"

namespace spindrift {
namespace {

bool run(const std::string& command) {
  return std::system((command + " > /dev/null 2>&1").c_str()) == 0;
}

class UdpVeth : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    const std::string tag = std::to_string(getpid());
    names_ = {"sda" + tag, "sdb" + tag};
    home_ = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    is_made_ = geteuid() == 0 && run("ip netns add " + names_[0]) &&
               run("ip netns add " + names_[1]) &&
               run("ip -n " + names_[0] + " link add va type veth peer name vb netns " + names_[1]);
    if (!is_made_) GTEST_SKIP() << "NOT TESTED: UDP over veth needs root and network namespaces";
    const std::string mtu = std::to_string(GetParam());
    ASSERT_TRUE(run("ip -n " + names_[0] + " addr add 10.77.0.1/24 dev va"));
    ASSERT_TRUE(run("ip -n " + names_[1] + " addr add 10.77.0.2/24 dev vb"));
    ASSERT_TRUE(run("ip -n " + names_[0] + " link set va mtu " + mtu + " up"));
    ASSERT_TRUE(run("ip -n " + names_[1] + " link set vb mtu " + mtu + " up"));
    wait_for_link(0, "va");
    wait_for_link(1, "vb");
    sender_ = open_in(0, "10.77.0.1:0");
    receiver_ = open_in(1, "10.77.0.2:0");
  }
  void TearDown() override {
    sender_.reset();
    receiver_.reset();
    if (home_ >= 0) {
      EXPECT_EQ(setns(home_, CLONE_NEWNET), 0);
      close(home_);
    }
    for (const std::string& name : names_)
      run("ip netns del " + name);
  }

  // The kernel looks at its links once a second at most, where many come and go: until it has found
  // both ends up it drops what is sent.
  void wait_for_link(std::size_t side, const std::string& name) {
    const std::string shows = "ip -n " + names_[side] + " link show dev " + name;
    for (int tries = 0; tries < 1000; ++tries) {
      if (run(shows + " | grep 'state UP'")) return;
      usleep(5000);
    }
    FAIL() << name << " did not come up";
  }

  // A socket stays in the namespace in which it was opened.
  void enter(std::size_t side) {
    const int fd = open(("/run/netns/" + names_[side]).c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(setns(fd, CLONE_NEWNET), 0);
    close(fd);
  }
  std::unique_ptr<PacketIo> open_in(std::size_t side, const char* address) {
    enter(side);
    auto io = std::move(open_udp(UdpOptions{})).value();
    EXPECT_TRUE(io->add_rail(parse_net_address(address, 0).value()).ok());
    EXPECT_TRUE(io->open_entropies(0, 4).ok());
    return io;
  }

  void send(std::size_t count, std::size_t bytes) {
    const std::vector<std::byte> payload(bytes, std::byte{5});
    std::vector<TxPacket> packets(count);
    ASSERT_EQ(sender_->reserve(packets), count);
    for (TxPacket& packet : packets) {
      packet.header = packet.header.first(0);
      packet.payload[0] = payload;
      packet.payload_pieces = 1;
      packet.to = &receiver_->rails()[0];
    }
    sender_->send(packets);
  }

  // Until `expected` have come and a moment brought no more.
  std::size_t receive(std::size_t expected, std::size_t bytes) {
    constexpr int kPatienceMs = 5000;
    constexpr int kMomentMs = 100;
    std::vector<int> fds;
    receiver_->append_wait_fds(fds);
    std::size_t total = 0;
    for (;;) {
      pollfd wait{fds[0], POLLIN, 0};
      if (poll(&wait, 1, total < expected ? kPatienceMs : kMomentMs) <= 0) return total;
      std::array<RxPacket, 64> packets{};
      const std::size_t count = receiver_->receive(packets);
      for (const RxPacket& packet : std::span(packets).first(count)) {
        EXPECT_EQ(packet.bytes.size(), bytes);
      }
      receiver_->release(std::span(packets).first(count));
      total += count;
    }
  }

  std::array<std::string, 2> names_{};
  int home_ = -1;
  bool is_made_ = false;
  std::unique_ptr<PacketIo> sender_;
  std::unique_ptr<PacketIo> receiver_;
};

TEST_P(UdpVeth, CarriesSuperPacketsOfTheLargestPacketAndNothingLarger) {
  enter(0);
  const std::uint32_t limit = sender_->max_packet_bytes(0, receiver_->rails()[0]);
  EXPECT_EQ(limit, static_cast<std::uint32_t>(GetParam()) - 28);
  send(40, limit);
  EXPECT_EQ(receive(40, limit), 40U);
  send(1, limit + 1);
  send(3, limit + 1);
  EXPECT_EQ(receive(0, limit), 0U);
  // What was too big says so, with the limit, and does not end super-packets.
  std::array<IoError, 8> errors{};
  ASSERT_GE(sender_->poll_errors(errors), 1U);
  EXPECT_EQ(errors[0].kind, IoError::Kind::kTooBig);
  EXPECT_EQ(errors[0].max_packet_bytes, limit);
  send(40, limit);
  EXPECT_EQ(receive(40, limit), 40U);
}

INSTANTIATE_TEST_SUITE_P(Mtu, UdpVeth, ::testing::Values(1500, 9000));

}  // namespace
}  // namespace spindrift
