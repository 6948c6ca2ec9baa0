// Sentences about devices.
#include "providers/verbs/verbs_trouble.h"

#include <cerrno>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "providers/verbs/flow_label.h"
#include "providers/verbs/verbs_describe.h"

namespace spindrift {
namespace {

using testing::HasSubstr;

TEST(VerbsTroubleTest, MemoryLimitsAreNamedWithTheirRemedy) {
  const std::string advice = memory_lock_advice(1U << 20U, 65536);
  EXPECT_THAT(advice, HasSubstr("65536 bytes in all (ulimit -l)"));
  EXPECT_THAT(advice, HasSubstr("1048576 more are wanted"));
  EXPECT_THAT(advice, HasSubstr("--ulimit memlock=-1"));
  EXPECT_THAT(memory_lock_advice(1, UINT64_MAX), HasSubstr("as much as it likes"));
  const Error error = explain_registration(4096, ENOMEM, "rxe0 port 1", false);
  EXPECT_EQ(error.code(), ErrorCode::kNoMemory);
  EXPECT_THAT(error.message(), HasSubstr("4096 bytes cannot be registered with rxe0 port 1"));
}

TEST(VerbsTroubleTest, CompletionsAreExplained) {
  const std::string lost = explain_completion(IBV_WC_RETRY_EXC_ERR, 129);
  EXPECT_THAT(lost, HasSubstr("transport retry counter exceeded"));
  EXPECT_THAT(lost, HasSubstr("the peer's port or process is down"));
  EXPECT_THAT(lost, HasSubstr("vendor's code 129"));
  EXPECT_THAT(explain_completion(IBV_WC_REM_ACCESS_ERR, 0), HasSubstr("deregistered"));
  for (int status = IBV_WC_LOC_LEN_ERR; status <= IBV_WC_GENERAL_ERR; ++status) {
    const auto one = static_cast<ibv_wc_status>(status);
    EXPECT_THAT(explain_completion(one, 0), testing::StartsWith(ibv_wc_status_str(one)));
    EXPECT_THAT(explain_completion(one, 0), testing::Not(HasSubstr("vendor"))) << "it said nothing";
  }
}

TEST(VerbsDescribeTest, PathsAreThoseThatLanesReallyHave) {
  EXPECT_THAT(describe_paths(VerbsTransport::kRc, false, 16), testing::StartsWith("16: each lane"));
  EXPECT_THAT(describe_paths(VerbsTransport::kUc, false, 4), testing::StartsWith("4: each lane"));
  EXPECT_THAT(describe_paths(VerbsTransport::kUd, false, 16), testing::StartsWith("1: "));
  EXPECT_THAT(describe_paths(VerbsTransport::kRc, true, 16), testing::StartsWith("1 for 16 lanes"));
}

TEST(VerbsDescribeTest, FlowLabelsOfOneConnectionDifferAndAreNeverZero) {
  for (const std::uint64_t base : {0ULL, 16000ULL, 0xffffffffffffffffULL}) {
    std::set<std::uint32_t> labels;
    for (std::size_t lane = 0; lane <= kMaxVerbsLanes; ++lane)
      labels.insert(flow_label(base, lane));
    EXPECT_EQ(labels.size(), kMaxVerbsLanes + 1);
    EXPECT_GE(*labels.begin(), 1U);
    EXPECT_LE(*labels.rbegin(), 0x3fffU);
  }
}

TEST(VerbsTroubleTest, HostsWithoutDevicesAreToldWhatToDo) {
  EXPECT_THAT(explain_no_device(ENOSYS), HasSubstr("modprobe ib_uverbs"));
  EXPECT_THAT(explain_open(EACCES), HasSubstr("/dev/infiniband/uverbs"));
  EXPECT_EQ(port_of_interface("no-such-interface"), 0);
}

}  // namespace
}  // namespace spindrift
