// Shared memory between real processes: killed and stopped ones, another user's, one in a network
// of its own.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "spindrift/open.h"

#include "tests/e2e/child_process.h"
#include "tests/e2e/mortal_peer.h"
#include "tests/e2e/surviving_partner.h"

namespace spindrift {
namespace {

using namespace std::chrono_literals;
using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;

// Our end over shared memory.
class Partner : public SurvivingPartner {
 public:
  explicit Partner(const std::string& peer_open, const ShmOptions& shm = {})
      : SurvivingPartner(peer_open, "shm://", OpenOptions{.shm = shm}) {}
};

TEST(ShmProcesses, BytesAreTheSameOnBothSidesWithAndWithoutTheSingleCopy) {
  for (const SingleCopy single_copy : {SingleCopy::kAuto, SingleCopy::kOff}) {
    Partner partner("shm://", {.single_copy = single_copy});
    ASSERT_TRUE(partner.connect());
    for (const std::uint32_t bytes : {1U, 64U, 5000U, 100000U, kPeerMemory})
      partner.check_transfer(bytes);
    if (single_copy == SingleCopy::kOff) {
      EXPECT_EQ(partner.counter("shm_reads"), 0U);
    }
  }
}

TEST(ShmProcesses, BytesAreTheSameWhileTheFasterWayIsFound) {
  Partner partner("shm://");
  ASSERT_TRUE(partner.connect());
  // 64 MiB in each direction: the other way is tried meanwhile, and one of them chosen.
  for (int i = 0; i < 64; ++i) {
    partner.check_transfer(kPeerMemory);
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

TEST(ShmProcesses, AKilledPeerEndsEveryOperationAtOnceAndIsNamed) {
  for (const OpKind kind : {OpKind::kWrite, OpKind::kRead, OpKind::kSend, OpKind::kFetchAdd}) {
    SCOPED_TRACE(std::string(to_string(kind)));
    Partner partner("shm://");
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
    const std::vector<OpStatus> ended = partner.wait_all(5s);
    ASSERT_GE(ended.size(), 16U);
    EXPECT_LT(partner.endpoint().now() - struck, 2s);
    EXPECT_THAT(ended, Each(AnyOf(OpStatus::kOk, OpStatus::kPeerGone)));
    EXPECT_EQ(ended.back(), OpStatus::kPeerGone);
    EXPECT_THAT(partner.error(), HasSubstr(partner.address()));
    EXPECT_THAT(partner.error(), HasSubstr("process "));
  }
}

TEST(ShmProcesses, AnIdleConnectionHearsOfTheDeathOfItsPeer) {
  Partner partner("shm://");
  ASSERT_TRUE(partner.connect());
  partner.peer().send_signal(SIGKILL);
  ConnEvent event;
  do {
    const auto next = wait_event(partner.endpoint(), 2s);
    ASSERT_TRUE(next.ok()) << next.error().message();
    event = next.value();
  } while (event.kind == ConnEvent::Kind::kEstablished);
  EXPECT_EQ(event.kind, ConnEvent::Kind::kFailed);
  EXPECT_THAT(partner.error(), HasSubstr("killed"));
}

TEST(ShmProcesses, AStoppedPeerIsGivenUpAfterTheSilenceThatIsAllowed) {
  Partner partner("shm://");
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
  EXPECT_LT(partner.endpoint().now() - struck, 5s);
  EXPECT_THAT(partner.error(), HasSubstr("silent"));
}

TEST(ShmProcesses, AStoppedPeerThatGoesOnHasMissedNothing) {
  Partner partner("shm://");
  ASSERT_TRUE(partner.connect());
  partner.peer().send_signal(SIGSTOP);
  partner.peer().wait_for_change();
  for (int i = 0; i < 4; ++i)
    partner.post(OpKind::kWrite, kPeerMessage);
  const Time start = partner.endpoint().now();
  while (partner.endpoint().now() - start < 200ms)
    partner.endpoint().progress();
  partner.peer().send_signal(SIGCONT);
  EXPECT_THAT(partner.wait_all(10s), Each(OpStatus::kOk)) << partner.error();
  partner.check_transfer(kPeerMemory);
}

// It may not read us; we may read it, being root.
TEST(ShmProcesses, AProcessOfAnotherUserGetsItsBytesThroughTheRings) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  Partner partner("nobody,shm:///tmp/spindrift-test-nobody-" + std::to_string(::getpid()));
  ASSERT_TRUE(partner.connect());
  for (const std::uint32_t bytes : {1U, 64U, 100000U, kPeerMemory})
    partner.check_transfer(bytes);
}

TEST(ShmProcesses, AProcessInANetworkOfItsOwnIsReached) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a network namespace";
  Partner partner("netns,shm://");
  ASSERT_TRUE(partner.connect());
  partner.check_transfer(kPeerMemory);
}

TEST(ShmProcesses, SingleCopyOnIsRefusedWithTheReasonWhereTheKernelForbidsIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  ChildProcess peer({MORTAL_PEER, "serve", "0",
                     "nobody,shm:///tmp/spindrift-test-strict-" + std::to_string(::getpid()) +
                         "?single_copy=on"});
  const std::string address = peer.line();
  auto endpoint = open_endpoint("shm://").value();
  const auto conn = connect_and_wait(*endpoint, address);
  ASSERT_FALSE(conn.ok());
  EXPECT_THAT(conn.error().message(), HasSubstr("shm_single_copy"));
}

}  // namespace
}  // namespace spindrift
