// collectives/bootstrap/launch.cc: what launchers say, read from environments as they leave them.
#include "collectives/bootstrap/launch.h"

#include <map>

#include <gtest/gtest.h>

namespace spindrift::collectives {
namespace {

using Variables = std::map<std::string, std::string>;

Result<std::optional<DetectedLaunch>> detect(const Variables& variables) {
  return detect_launch([&variables](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

DetectedLaunch detected(const Variables& variables) {
  const auto found = detect(variables);
  EXPECT_TRUE(found.ok()) << found.error().message();
  EXPECT_TRUE(found.value().has_value());
  return *found.value();
}

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more)
    variables[name] = value;
  return variables;
}

const Variables kPlain = {
    {"RANK", "3"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29500"}};
const Variables kOpenMpi = {
    {"OMPI_COMM_WORLD_RANK", "1"},       {"OMPI_COMM_WORLD_SIZE", "4"},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
    {"PMIX_NAMESPACE", "1223491585"},    {"PMIX_RANK", "1"}};
const Variables kHydra = {{"PMI_FD", "6"},
                          {"PMI_RANK", "1"},
                          {"PMI_SIZE", "2"},
                          {"MPI_LOCALRANKID", "1"},
                          {"MPI_LOCALNRANKS", "2"}};
const Variables kSlurm = {{"SLURM_PROCID", "5"},
                          {"SLURM_NTASKS", "8"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_STEP_ID", "0"},
                          {"SLURM_JOB_ID", "77"},
                          {"SLURM_STEP_NUM_TASKS", "8"},
                          {"SLURM_STEP_NUM_NODES", "4"},
                          {"SLURM_STEP_NODELIST", "node[08-11]"},
                          {"SLURM_SRUN_COMM_PORT", "40000"}};

TEST(Launch, NothingIsSeenInAnEmptyEnvironmentOrWhereItIsToldNotTo) {
  EXPECT_FALSE(detect({}).value().has_value());
  EXPECT_FALSE(detect(with(kOpenMpi, {{"SPINDRIFT_LAUNCHER", "none"}})).value().has_value());
  EXPECT_FALSE(detect({{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "1"}}).value().has_value());
}

TEST(Launch, PlainVariablesMeetAtTheMaster) {
  const DetectedLaunch found = detected(kPlain);
  EXPECT_EQ(found.launch.launcher, "environment");
  EXPECT_EQ(found.launch.rank, 3U);
  EXPECT_EQ(found.launch.ranks, 8U);
  EXPECT_EQ(found.way, MeetingWay::kKnown);
  EXPECT_EQ(found.meeting.addresses, std::vector<std::string>{"10.0.0.1:29500"});
  EXPECT_EQ(found.meeting.token, "");
}

TEST(Launch, TorchrunsAgentKeepsItsPortAndEveryRestartMeetsAnew) {
  const DetectedLaunch found = detected(with(kPlain, {{"TORCHELASTIC_RUN_ID", "run"},
                                                      {"TORCHELASTIC_RESTART_COUNT", "2"},
                                                      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                                      {"LOCAL_RANK", "1"},
                                                      {"LOCAL_WORLD_SIZE", "4"}}));
  EXPECT_EQ(found.launch.launcher, "torchrun");
  EXPECT_EQ(found.launch.local_rank, 1U);
  EXPECT_EQ(found.launch.local_ranks, 4U);
  EXPECT_EQ(found.meeting.addresses.front(), "10.0.0.1:29501");
  EXPECT_GT(found.meeting.addresses.size(), 1U);
  EXPECT_EQ(found.meeting.token, "run.2");
}

TEST(Launch, OpenMpiMeetsThroughPmixUnlessAMasterIsNamed) {
  const DetectedLaunch found = detected(kOpenMpi);
  EXPECT_EQ(found.launch.launcher, "Open MPI");
  EXPECT_EQ(found.launch.ranks, 4U);
  EXPECT_EQ(found.launch.local_ranks, 2U);
  EXPECT_EQ(found.way, MeetingWay::kPmix);
  const DetectedLaunch named =
      detected(with(kOpenMpi, {{"MASTER_ADDR", "fd00::1"}, {"MASTER_PORT", "7"}}));
  EXPECT_EQ(named.way, MeetingWay::kKnown);
  EXPECT_EQ(named.meeting.addresses.front(), "[fd00::1]:7");
}

TEST(Launch, BarePmixLeavesTheNumberOfRanksToItsServer) {
  const DetectedLaunch found = detected({{"PMIX_NAMESPACE", "a"}, {"PMIX_RANK", "2"}});
  EXPECT_EQ(found.launch.rank, 2U);
  EXPECT_EQ(found.launch.ranks, 0U);
  EXPECT_EQ(found.way, MeetingWay::kPmix);
}

TEST(Launch, HydraMeetsThroughItsDescriptor) {
  const DetectedLaunch found = detected(kHydra);
  EXPECT_EQ(found.launch.launcher, "PMI-1");
  EXPECT_EQ(found.way, MeetingWay::kPmi1);
  EXPECT_EQ(found.pmi_fd, 6);
  EXPECT_EQ(found.launch.local_ranks, 2U);
}

TEST(Launch, SlurmMeetsAtTheFirstNodeOfTheStep) {
  const DetectedLaunch found = detected(kSlurm);
  EXPECT_EQ(found.launch.launcher, "Slurm");
  EXPECT_EQ(found.launch.rank, 5U);
  EXPECT_EQ(found.launch.ranks, 8U);
  EXPECT_EQ(found.meeting.addresses.front().rfind("node08:", 0), 0U);
  EXPECT_EQ(found.meeting.token, "slurm.77.0.0.40000");
  const DetectedLaunch again = detected(with(kSlurm, {{"SLURM_STEP_ID", "1"}}));
  EXPECT_NE(again.meeting.addresses, found.meeting.addresses);
  const DetectedLaunch one_node = detected(with(kSlurm, {{"SLURM_STEP_NUM_NODES", "1"}}));
  EXPECT_EQ(one_node.meeting.addresses.front().rfind("127.0.0.1:", 0), 0U);
  EXPECT_EQ(one_node.launch.local_ranks, 8U);
}

TEST(Launch, TheScriptOfASlurmBatchJobIsNoStep) {
  Variables batch = kSlurm;
  batch.erase("SLURM_STEP_ID");
  EXPECT_FALSE(detect(batch).value().has_value());
}

TEST(Launch, AMpiexecInsideAStepOfSlurmWins) {
  const Variables inside = with(kSlurm, kHydra);
  EXPECT_EQ(detected(inside).launch.launcher, "PMI-1");
  // srun --mpi=pmi2 says the same twice, and does not speak hydra's protocol.
  EXPECT_EQ(detected(with(inside, {{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}})).launch.launcher,
            "Slurm");
}

TEST(Launch, ARendezvousInTheEnvironmentComesBeforeWhatTheLauncherOffers) {
  const DetectedLaunch found =
      detected(with(kHydra, {{"SPINDRIFT_RENDEZVOUS", "file:///shared/job"}}));
  EXPECT_EQ(found.way, MeetingWay::kFile);
  EXPECT_EQ(found.file, "/shared/job");
  EXPECT_EQ(found.launch.ranks, 2U);
}

TEST(Launch, ErrorsNameTheVariable) {
  const auto message = [](const Variables& variables) {
    const auto found = detect(variables);
    return found.ok() ? std::string("accepted") : found.error().message();
  };
  EXPECT_NE(message(with(kPlain, {{"RANK", "x"}})).find("RANK is \"x\""), std::string::npos);
  EXPECT_NE(message(with(kPlain, {{"RANK", "8"}})).find("RANK is 8, WORLD_SIZE is 8"),
            std::string::npos);
  EXPECT_NE(message(with(kPlain, {{"MASTER_PORT", "70000"}})).find("MASTER_PORT"),
            std::string::npos);
  EXPECT_NE(message({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).find("MASTER_ADDR"), std::string::npos);
  EXPECT_NE(message({{"OMPI_COMM_WORLD_RANK", "0"}}).find("OMPI_COMM_WORLD_SIZE is not set"),
            std::string::npos);
  EXPECT_NE(message(with(kHydra, {{"SPINDRIFT_RENDEZVOUS", "file://here"}})).find("absolute"),
            std::string::npos);
}

TEST(NodeList, TheFirstHostIsTakenWithItsZerosAndSuffix) {
  for (const auto& [list, host] : Variables{{"alone", "alone"},
                                            {"a,b", "a"},
                                            {"node[08-11,13]", "node08"},
                                            {"node[7],x", "node7"},
                                            {"rack[1-2]-ib,other[1-9]", "rack1-ib"}}) {
    const auto first = first_host(list);
    ASSERT_TRUE(first.ok()) << first.error().message();
    EXPECT_EQ(first.value(), host);
  }
  EXPECT_FALSE(first_host("").ok());
  EXPECT_FALSE(first_host("node[08").ok());
  EXPECT_FALSE(first_host("node[").ok());
}

}  // namespace
}  // namespace spindrift::collectives
