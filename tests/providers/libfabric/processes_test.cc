// Two real processes over each provider of libfabric that needs no hardware: bytes, deaths, limits.
#include <filesystem>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "spindrift/open.h"

#include "tests/e2e/mortal_peer.h"
#include "tests/e2e/surviving_partner.h"

namespace spindrift {
namespace {

using namespace std::chrono_literals;
using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;

struct Provider {
  const char* name;
  const char* of_libfabric;
};

class OfiProcesses : public testing::TestWithParam<Provider> {
 protected:
  static std::string peer_open() {
    return std::string("ofi://") + GetParam().of_libfabric + "@127.0.0.1:0";
  }
};

// Both open libfabric before they connect: what takes long there is no part of connecting.
class Partner : public SurvivingPartner {
 public:
  explicit Partner(const std::string& open) : SurvivingPartner(open, open, {}) {}
  // libfabric's shm leaves files of killed processes.
  ~Partner() {
    const std::string of_peer = std::to_string(peer().pid()) + ":";
    for (const auto& file : std::filesystem::directory_iterator("/dev/shm"))
      if (file.path().filename().string().starts_with(of_peer))
        std::filesystem::remove(file.path());
  }
};

TEST_P(OfiProcesses, BytesAreTheSameOnBothSides) {
  Partner partner(peer_open());
  ASSERT_TRUE(partner.connect());
  for (const std::uint32_t bytes : {1U, 64U, 5000U, 100000U, kPeerMemory})
    partner.check_transfer(bytes);
  EXPECT_GT(partner.counter("ofi_reads"), 0U);
}

TEST_P(OfiProcesses, AKilledPeerEndsEveryOperationAndIsNamed) {
  for (const OpKind kind : {OpKind::kWrite, OpKind::kRead, OpKind::kSend, OpKind::kFetchAdd}) {
    SCOPED_TRACE(std::string(to_string(kind)));
    Partner partner(peer_open());
    ASSERT_TRUE(partner.connect());
    partner.post(kind, kPeerMessage);
    EXPECT_THAT(partner.wait_all(10s), Each(OpStatus::kOk)) << partner.error();
    for (int i = 0; i < 16; ++i)
      partner.post(kind, kPeerMessage);
    partner.endpoint().progress();
    partner.peer().send_signal(SIGKILL);
    const Time struck = partner.endpoint().now();
    for (int i = 0; i < 4; ++i)
      partner.post(kind, kPeerMessage);
    const std::vector<OpStatus> ended = partner.wait_all(10s);
    ASSERT_GE(ended.size(), 16U);
    EXPECT_LT(partner.endpoint().now() - struck, 5s);
    EXPECT_THAT(ended, Each(AnyOf(OpStatus::kOk, OpStatus::kPeerGone)));
    EXPECT_EQ(ended.back(), OpStatus::kPeerGone);
    EXPECT_THAT(partner.error(), HasSubstr(partner.address()));
    EXPECT_THAT(partner.error(), HasSubstr("process "));
  }
}

TEST_P(OfiProcesses, AnIdleConnectionHearsOfTheDeathOfItsPeer) {
  Partner partner(peer_open());
  ASSERT_TRUE(partner.connect());
  partner.peer().send_signal(SIGKILL);
  ConnEvent event;
  do {
    const auto next = wait_event(partner.endpoint(), 5s);
    ASSERT_TRUE(next.ok()) << next.error().message();
    event = next.value();
  } while (event.kind == ConnEvent::Kind::kEstablished);
  EXPECT_EQ(event.kind, ConnEvent::Kind::kFailed);
  EXPECT_THAT(partner.error(), HasSubstr("killed"));
}

TEST_P(OfiProcesses, AStoppedPeerIsGivenUpAfterTheSilenceThatIsAllowed) {
  Partner partner(peer_open());
  ConnectOptions options;
  options.silence_limit_passive = 600ms;
  ASSERT_TRUE(partner.connect(options));
  partner.peer().send_signal(SIGSTOP);
  partner.peer().wait_for_change();
  const Time struck = partner.endpoint().now();
  for (int i = 0; i < 4; ++i)
    partner.post(OpKind::kWrite, kPeerMessage);
  EXPECT_THAT(partner.wait_all(10s), Each(OpStatus::kPeerGone));
  EXPECT_GT(partner.endpoint().now() - struck, 590ms);
  EXPECT_THAT(partner.error(), HasSubstr("silent"));
}

// Another thread wakes it: over libfabric's shm we may wait within libfabric for a lock that it
// holds.
TEST_P(OfiProcesses, AStoppedPeerThatGoesOnHasMissedNothing) {
  Partner partner(peer_open());
  ASSERT_TRUE(partner.connect());
  partner.peer().send_signal(SIGSTOP);
  partner.peer().wait_for_change();
  std::jthread waker([&partner] {
    std::this_thread::sleep_for(200ms);
    partner.peer().send_signal(SIGCONT);
  });
  for (int i = 0; i < 4; ++i)
    partner.post(OpKind::kWrite, kPeerMessage);
  EXPECT_THAT(partner.wait_all(10s), Each(OpStatus::kOk)) << partner.error();
  partner.check_transfer(kPeerMemory);
}

INSTANTIATE_TEST_SUITE_P(Providers, OfiProcesses,
                         testing::Values(Provider{"net", "net"}, Provider{"tcp_rxm", "tcp;ofi_rxm"},
                                         Provider{"shm", "shm"},
                                         Provider{"udp_rxd", "udp;ofi_rxd"}),
                         [](const testing::TestParamInfo<Provider>& named) {
                           return std::string(named.param.name);
                         });

// --- who does not fit ---

TEST(OfiAddresses, AnEndpointWithoutOneTakesTheProviderOfWhomItCalls) {
  SurvivingPartner partner("ofi://net@127.0.0.1:0", "ofi://", {});
  ASSERT_TRUE(partner.connect());
  partner.check_transfer(kPeerMemory);
}

TEST(OfiAddresses, ThatDoNotFitAreErrorsWithAReason) {
  auto endpoint = open_endpoint("ofi://net@127.0.0.1:0").value();
  const auto other = endpoint->connect("ofi://shm@127.0.0.1:9", {});
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(other.error().message(), HasSubstr("uses libfabric's provider net"));
  const auto nowhere = endpoint->connect("ofi://net", {});
  ASSERT_FALSE(nowhere.ok());
  EXPECT_THAT(nowhere.error().message(), HasSubstr("PROVIDER@IP:PORT"));
  const auto unknown = open_endpoint("ofi://nosuch");
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().message(), HasSubstr("no provider nosuch"));
  EXPECT_THAT(unknown.error().message(), HasSubstr("net (lo)"));
  const auto faults = open_endpoint("ofi://net", {.faults = "loss=1%"});
  ASSERT_FALSE(faults.ok());
  EXPECT_THAT(faults.error().message(), HasSubstr("reliable by itself"));
}

TEST(OfiAddresses, TwoProvidersRefuseEachOther) {
  auto one = open_endpoint("ofi://net@127.0.0.1:0").value();
  auto other = open_endpoint("ofi://tcp;ofi_rxm@127.0.0.1:0").value();
  ASSERT_TRUE(one->listen("ofi://").ok());
  const std::string address = one->local_addresses().at(0);
  const std::string bare = "ofi://" + address.substr(address.find('@') + 1);
  const auto conn = other->connect(bare, {});
  ASSERT_TRUE(conn.ok()) << conn.error().message();
  const Time start = other->now();
  while (other->info(conn.value()).value().state == ConnState::kConnecting &&
         other->now() - start < 10s) {
    one->progress();
    other->progress();
    ConnEvent event;
    while (one->poll_events({&event, 1}) == 1)
      static_cast<void>(one->accept(event.conn, {}));
  }
  EXPECT_THAT(other->last_error(conn.value()), HasSubstr("both need the same"));
}

}  // namespace
}  // namespace spindrift
