// What soft-RoCE cannot show: how queue pairs are set up on InfiniBand, with a device that
// remembers it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "providers/verbs/datagram_lane.h"
#include "providers/verbs/queue_pair.h"
#include "providers/verbs/verbs_describe.h"
#include "tests/providers/verbs/fake_verbs.h"

namespace spindrift {
namespace {

using test::fake_port;
using test::fake_steps;
using testing::HasSubstr;

GidBytes gid_in(std::uint64_t subnet) {
  GidBytes out{};
  for (std::size_t byte = 0; byte < 8; ++byte)
    out[byte] = static_cast<std::uint8_t>(subnet >> (8 * (7 - byte)));
  out[15] = 1;
  return out;
}

class InfiniBandTest : public testing::Test {
 protected:
  void SetUp() override {
    fake_port() = {};
    fake_steps().clear();
  }
  // A queue pair connected to one at LID 42 of that subnet.
  void connect(std::uint64_t subnet) {
    auto opened = VerbsPort::open(options, {});
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    const std::unique_ptr<VerbsPort> port = std::move(opened).value();
    CompletionQueues queues(*port);
    QueuePair pair;
    ASSERT_TRUE(pair.make(*port, queues, options, {.sends = 4, .receives = 4}, 1).ok());
    const PathTo path{.port = {.gid = gid_in(subnet), .lid = 42, .is_infiniband = 1, .mtu = 5},
                      .queue_pair = {.number = 99, .first_packet = 5},
                      .mtu = 2048};
    const Status connected = pair.connect(path, port->gid().entry.gid);
    ASSERT_TRUE(connected.ok()) << connected.error().message();
  }
  // ... as the step to "ready to receive" says it.
  static const ibv_qp_attr& path() { return fake_steps().at(1).attributes; }

  VerbsOptions options{.service_level = 3, .pkey_index = 2};
};

TEST_F(InfiniBandTest, WithinASubnetTheLocalAddressIsEnough) {
  connect(fake_port().subnet);
  EXPECT_EQ(fake_steps().at(0).attributes.pkey_index, 2);
  EXPECT_EQ(path().ah_attr.is_global, 0);
  EXPECT_EQ(path().ah_attr.dlid, 42);
  EXPECT_EQ(path().ah_attr.sl, 3);
  EXPECT_EQ(path().path_mtu, IBV_MTU_2048);
  EXPECT_EQ(path().dest_qp_num, 99U);
}

TEST_F(InfiniBandTest, BeyondTheSubnetAndWherePortsAskForItPacketsHaveARoutingHeader) {
  connect(0xfd00000000000000);
  EXPECT_EQ(path().ah_attr.is_global, 1);
  EXPECT_EQ(path().ah_attr.dlid, 42);
  EXPECT_EQ(path().ah_attr.grh.dgid.raw[0], 0xfd);
  fake_steps().clear();
  fake_port().requires_grh = true;
  connect(fake_port().subnet);
  EXPECT_EQ(path().ah_attr.is_global, 1);
}

TEST_F(InfiniBandTest, LanesOfPacketsNameTheLidToo) {
  const auto port = VerbsPort::open(options, {});
  ASSERT_TRUE(port.ok());
  DatagramLane lane;
  ASSERT_TRUE(lane.make(*port.value(), options, {.type = IBV_QPT_UC}).ok());
  std::vector<std::uint32_t> slots;
  fake_steps().clear();
  ASSERT_TRUE(
      lane.connect({.gid = gid_in(fake_port().subnet), .lid = 42, .queue_pair = 99}, slots).ok());
  ASSERT_EQ(fake_steps().size(), 4U) << "reset, initialised, ready to receive, ready to send";
  EXPECT_EQ(fake_steps()[0].attributes.qp_state, IBV_QPS_RESET);
  EXPECT_EQ(fake_steps()[2].attributes.ah_attr.dlid, 42);
  EXPECT_EQ(fake_steps()[2].attributes.ah_attr.sl, 3);
}

TEST_F(InfiniBandTest, InfoSaysThatLanesShareOnePath) {
  const auto facts = describe_verbs(options);
  ASSERT_TRUE(facts.ok());
  std::string text;
  for (const VerbsFact& fact : facts.value())
    text += fact.device + " " + fact.name + ": " + fact.value + "\n";
  EXPECT_THAT(text, HasSubstr("fake0 port 1 link: InfiniBand, 100 Gb/s, LID 17"));
  EXPECT_THAT(text, HasSubstr("GID 0 (InfiniBand, [fe80::1])"));
  EXPECT_THAT(text, HasSubstr("paths, rc: 1 for 8 lanes"));
}

}  // namespace
}  // namespace spindrift
