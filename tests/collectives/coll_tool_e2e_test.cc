// `spindrift coll allreduce` as users run it: processes, exit codes, what they read.
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using Clock = std::chrono::steady_clock;

// A run of the tool whose output is read as it comes.
class ToolRun final {
 public:
  explicit ToolRun(const std::string& arguments, const std::string& operation = "allreduce") {
    EXPECT_EQ(::pipe2(out_.data(), O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(err_.data(), O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out_[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err_[1], STDERR_FILENO);
    std::vector<std::string> words{SPINDRIFT_TOOL, "coll", operation};
    std::size_t start = 0;
    for (std::size_t end = 0; end != std::string::npos && !arguments.empty(); start = end + 1) {
      end = arguments.find(' ', start);
      words.push_back(arguments.substr(start, end - start));
    }
    std::vector<char*> raw;
    for (std::string& word : words)
      raw.push_back(word.data());
    raw.push_back(nullptr);
    EXPECT_EQ(::posix_spawn(&pid_, SPINDRIFT_TOOL, &actions, nullptr, raw.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(out_[1]);
    ::close(err_[1]);
  }
  ~ToolRun() {
    if (pid_ > 0 && !has_ended_) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::close(out_[0]);
    ::close(err_[0]);
  }
  ToolRun(const ToolRun&) = delete;
  ToolRun& operator=(const ToolRun&) = delete;

  // Until standard output holds `text`, or ends.
  void read_until(const std::string& text) {
    while (output.find(text) == std::string::npos && read_some()) {
    }
  }
  int wait() {
    while (read_some()) {
    }
    int status = 0;
    ::waitpid(pid_, &status, 0);
    has_ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  void interrupt() const { ::kill(pid_, SIGINT); }

  // Of the ranks, as the table's head names them.
  std::vector<pid_t> rank_pids() const {
    std::vector<pid_t> pids;
    const std::regex pattern("Pid +([0-9]+)");
    for (std::sregex_iterator at(output.begin(), output.end(), pattern), end; at != end; ++at) {
      pids.push_back(std::stoi((*at)[1]));
    }
    return pids;
  }

  std::string output;
  std::string errors;

 private:
  bool read_some() {
    std::array<pollfd, 2> entries{
        {{.fd = is_out_over_ ? -1 : out_[0], .events = POLLIN, .revents = 0},
         {.fd = is_err_over_ ? -1 : err_[0], .events = POLLIN, .revents = 0}}};
    if (is_out_over_ && is_err_over_) return false;
    if (::poll(entries.data(), entries.size(), 60'000) <= 0) return false;
    if (entries[0].revents != 0) is_out_over_ = !append(out_[0], output);
    if (entries[1].revents != 0) is_err_over_ = !append(err_[0], errors);
    return true;
  }
  static bool append(int fd, std::string& to) {
    std::array<char, 4096> buffer;
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got > 0) to.append(buffer.data(), static_cast<std::size_t>(got));
    return got > 0;
  }

  std::array<int, 2> out_{};
  std::array<int, 2> err_{};
  pid_t pid_ = -1;
  bool has_ended_ = false;
  bool is_out_over_ = false;
  bool is_err_over_ = false;
};

// Children of a dead launcher are reaped by init; a moment later at most.
bool is_gone(pid_t pid) {
  const auto deadline = Clock::now() + std::chrono::seconds(5);
  while (::kill(pid, 0) == 0) {
    if (Clock::now() > deadline) return false;
    ::poll(nullptr, 0, 10);
  }
  return true;
}

TEST(CollTool, ThreeRanksLosingOnePercentPrintRightResultsAndTheirAccount) {
  ToolRun run("--ranks 3 -b 4 -e 1M -f 8 -n 3 --fault loss=1%");
  EXPECT_EQ(run.wait(), 0) << run.errors;
  EXPECT_NE(run.output.find("# Out of bounds values : 0 OK"), std::string::npos) << run.output;
  EXPECT_EQ(run.rank_pids().size(), 3U);
  const std::regex row(" +1048576 +262144 +float +sum +-1( +[0-9.e+]+){3} +0( +[0-9.e+]+){3} +0\n");
  EXPECT_TRUE(std::regex_search(run.output, row)) << run.output;
  EXPECT_NE(run.output.find("lost packets on purpose"), std::string::npos) << run.output;
  EXPECT_NE(run.output.find("paths used per connection"), std::string::npos) << run.output;
  EXPECT_NE(run.output.find("16.0  each carried"), std::string::npos) << run.output;
}

TEST(CollTool, ZeroAndOddCountsAndOneRankWork) {
  ToolRun three("--ranks 3 -b 0 -e 52 -i 13 -n 2");
  EXPECT_EQ(three.wait(), 0) << three.errors;
  EXPECT_NE(three.output.find("values : 0 OK"), std::string::npos) << three.output;
  ToolRun one("--ranks 1 -b 1000 -e 1000 -n 2");
  EXPECT_EQ(one.wait(), 0) << one.errors;
}

TEST(CollTool, EveryOperationPrintsRightResultsUnderItsNameInNcclTests) {
  const std::vector<std::pair<std::string, std::string>> operations{
      {"allreduce", "all_reduce_perf"},  {"reduce_scatter", "reduce_scatter_perf"},
      {"all_gather", "all_gather_perf"}, {"broadcast -r 1", "broadcast_perf"},
      {"reduce -r 2", "reduce_perf"},    {"alltoall", "alltoall_perf"},
      {"alltoallv", "alltoallv_perf"},   {"gather -r 1", "gather_perf"},
      {"scatter", "scatter_perf"},       {"barrier", "barrier_perf"},
      {"sendrecv", "sendrecv_perf"}};
  for (const auto& [operation, title] : operations) {
    const std::string name = operation.substr(0, operation.find(' '));
    ToolRun run("--ranks 3 -b 1 -e 100K -f 7 -n 2" + operation.substr(name.size()), name);
    EXPECT_EQ(run.wait(), 0) << operation << ": " << run.errors;
    EXPECT_NE(run.output.find("values : 0 OK"), std::string::npos) << run.output;
    EXPECT_NE(run.output.find("Collective test concluded: " + title), std::string::npos)
        << run.output;
    EXPECT_NE(run.output.find("# Ranks at"), std::string::npos) << run.output;
  }
}

TEST(CollTool, EveryTypeAndReductionIsVerified) {
  for (const char* type : {"double", "half", "bfloat16", "int8", "uint8", "int16", "uint16",
                           "int32", "uint32", "int64", "uint64"}) {
    ToolRun run(std::string("--ranks 3 -b 10000 -n 1 -d ") + type);
    EXPECT_EQ(run.wait(), 0) << type << ": " << run.errors << run.output;
  }
  for (const char* op : {"prod", "min", "max", "avg"}) {
    for (const char* type : {"float", "half", "bfloat16", "int32"}) {
      ToolRun run(std::string("--ranks 3 -b 10000 -n 1 -o ") + op + " -d " + type);
      EXPECT_EQ(run.wait(), 0) << op << " " << type << ": " << run.errors << run.output;
    }
  }
}

TEST(CollTool, RanksOfOneHostShareMemoryUnlessToldOtherwise) {
  const std::vector<std::pair<std::string, std::string>> routes{
      {"", "] shm to 1-2\n"},
      {" --provider shm", "] shm to 1-2\n"},
      {" --provider udp", "] udp to 1-2\n"},
      {" --fault loss=1%", "] udp to 1-2\n"}};
  for (const auto& [arguments, route] : routes) {
    ToolRun run("--ranks 3 -b 8 -e 1M -f 32 -n 3" + arguments);
    EXPECT_EQ(run.wait(), 0) << run.errors;
    EXPECT_NE(run.output.find("values : 0 OK"), std::string::npos) << run.output;
    EXPECT_NE(run.output.find(route), std::string::npos) << run.output;
    EXPECT_TRUE(run.errors.empty()) << run.errors;
  }
}

TEST(CollTool, ARootBeyondTheRanksIsAUsageError) {
  ToolRun run("--ranks 2 -r 2", "broadcast");
  EXPECT_EQ(run.wait(), 2);
  EXPECT_NE(run.errors.find("-r 2 of 2 ranks"), std::string::npos) << run.errors;
}

TEST(CollTool, SharedMemoryAloneBetweenHostsIsAnErrorThatNamesARankThere) {
  ::setenv("SPINDRIFT_PROVIDER", "shm", 1);
  const std::string port = std::to_string(26000 + ::getpid() % 4000);
  const std::string common = " --ranks 2 --rendezvous 127.0.0.1:" + port + " -b 8 -n 2";
  ::setenv("SPINDRIFT_HOST_ID", "a", 1);
  ToolRun first("--rank 0" + common);
  ::setenv("SPINDRIFT_HOST_ID", "b", 1);
  ToolRun second("--rank 1" + common);
  ::unsetenv("SPINDRIFT_HOST_ID");
  ::unsetenv("SPINDRIFT_PROVIDER");
  EXPECT_EQ(second.wait(), 1);
  EXPECT_NE(second.errors.find("rank 0 is on another host"), std::string::npos) << second.errors;
  EXPECT_EQ(first.wait(), 1);
  EXPECT_NE(first.errors.find("rank 1 is on another host"), std::string::npos) << first.errors;
}

TEST(CollTool, CorruptedPacketsNeverReachTheResults) {
  ToolRun run("--ranks 2 -b 1M -e 1M -n 5 --fault corrupt=2%,seed=1");
  EXPECT_EQ(run.wait(), 0) << run.errors;
  EXPECT_NE(run.output.find("values : 0 OK"), std::string::npos) << run.output;
}

TEST(CollTool, JsonHoldsRowsAndTransport) {
  ToolRun run("--ranks 2 -b 4K -e 8K -f 2 -n 2 --json");
  EXPECT_EQ(run.wait(), 0) << run.errors;
  EXPECT_EQ(run.output.front(), '{');
  for (const char* key :
       {"\"rows\"", "\"busbw_gbs\"", "\"wrong\": 0", "\"packets_sent\"", "\"provider\": \"auto\"",
        "\"provider\": \"shm\"", "\"is_open\": true", "\"note\": null"}) {
    EXPECT_NE(run.output.find(key), std::string::npos) << key << " in " << run.output;
  }
}

TEST(CollTool, ReplaysAModelBucketByBucket) {
  ToolRun run("--ranks 2 --workload resnet50 -n 1 -w 0");
  EXPECT_EQ(run.wait(), 0) << run.errors;
  EXPECT_NE(run.output.find("161 tensors, 25557032 parameters"), std::string::npos) << run.output;
  EXPECT_NE(run.output.find("Steps per second"), std::string::npos) << run.output;
  EXPECT_NE(run.output.find("Time per step"), std::string::npos) << run.output;
  EXPECT_NE(run.output.find("values : 0 OK"), std::string::npos) << run.output;
}

TEST(CollTool, AKilledRankIsNamedAndTheOthersEndSoon) {
  ToolRun run("--ranks 3 -b 1M -e 1M -n 1000000");
  run.read_until("(GB/s)");
  const std::vector<pid_t> pids = run.rank_pids();
  ASSERT_EQ(pids.size(), 3U) << run.output << run.errors;
  const auto start = Clock::now();
  ::kill(pids[1], SIGKILL);
  EXPECT_EQ(run.wait(), 1);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));
  EXPECT_NE(run.errors.find("rank 1 (pid " + std::to_string(pids[1]) + ") was killed by signal 9"),
            std::string::npos)
      << run.errors;
  for (const pid_t pid : pids)
    EXPECT_TRUE(is_gone(pid)) << pid;
}

TEST(CollTool, ControlCLeavesNoProcessBehind) {
  ToolRun run("--ranks 2 -b 1M -e 1M -n 1000000");
  run.read_until("(GB/s)");
  const std::vector<pid_t> pids = run.rank_pids();
  ASSERT_EQ(pids.size(), 2U) << run.output << run.errors;
  run.interrupt();
  EXPECT_EQ(run.wait(), 130);
  for (const pid_t pid : pids)
    EXPECT_TRUE(is_gone(pid)) << pid;
}

TEST(CollTool, RanksStartedByHandMeetAtTheRendezvous) {
  // A port from below the ephemeral range, by process id, so that parallel runs do not meet.
  const std::string port = std::to_string(20000 + ::getpid() % 10000);
  const std::string common =
      " --world 2 --rendezvous 127.0.0.1:" + port + " -b 1K -e 64K -f 8 -n 2";
  ToolRun first("--rank 1" + common);
  ToolRun second("--rank 0" + common);
  EXPECT_EQ(second.wait(), 0) << second.errors;
  EXPECT_EQ(first.wait(), 0) << first.errors;
  EXPECT_NE(second.output.find("values : 0 OK"), std::string::npos) << second.output;
}

TEST(CollTool, AMissingRankIsNamedWithinTheTimeout) {
  const std::string port = std::to_string(30000 + ::getpid() % 2000);
  ToolRun run("--rank 0 --world 3 --rendezvous 127.0.0.1:" + port + " --timeout 0.3");
  EXPECT_EQ(run.wait(), 1);
  EXPECT_NE(run.errors.find("ranks 1, 2 of 3"), std::string::npos) << run.errors;
}

TEST(CollTool, AnUnreachableRendezvousIsNamedWithinTheTimeout) {
  ToolRun run("--rank 1 --world 2 --rendezvous 127.0.0.1:1 --timeout 0.3");
  EXPECT_EQ(run.wait(), 1);
  EXPECT_NE(run.errors.find("nobody serves the rendezvous at 127.0.0.1:1"), std::string::npos)
      << run.errors;
}

TEST(CollTool, ShowsPlansAndChoicesWithoutStartingAnybody) {
  ToolRun plan("--ranks 3 --algo ring --show-plan");
  EXPECT_EQ(plan.wait(), 0) << plan.errors;
  EXPECT_NE(plan.output.find("all_reduce:ring, 3 ranks"), std::string::npos) << plan.output;
  EXPECT_NE(plan.output.find("what comes, final"), std::string::npos) << plan.output;
  ToolRun choice("--ranks 8 -b 64 -e 1M -f 16384 --explain");
  EXPECT_EQ(choice.wait(), 0) << choice.errors;
  EXPECT_NE(choice.output.find("64 bytes: shared, because"), std::string::npos) << choice.output;
  EXPECT_NE(choice.output.find("halving_doubling"), std::string::npos) << choice.output;
  ToolRun hosts("--ranks 4 --algo hierarchical --hosts 0,0,1,1 --show-plan");
  EXPECT_EQ(hosts.wait(), 0) << hosts.errors;
  EXPECT_NE(hosts.output.find("rank 2 (host 1)"), std::string::npos) << hosts.output;
}

TEST(CollTool, TuneWritesTheCostsThatLaterRunsChooseBy) {
  const std::string file = "/tmp/spindrift-costs-" + std::to_string(::getpid());
  ::setenv("SPINDRIFT_TUNING", file.c_str(), 1);
  ToolRun tune("--ranks 2 --tune");
  EXPECT_EQ(tune.wait(), 0) << tune.errors;
  std::string costs;
  std::getline(std::ifstream(file), costs);
  for (const char* part : {"network=", "near=", "shared=", "all_reduce:ring=", "broadcast:tree="})
    EXPECT_NE(costs.find(part), std::string::npos) << part << " in " << costs;
  std::ofstream(file) << "shared_limit=0 network=0.001,0,0.001 near=0.001,0,0.001 "
                         "all_reduce:ring=10000\n";
  ToolRun choice("--ranks 4 -b 1M --explain");
  EXPECT_EQ(choice.wait(), 0) << choice.errors;
  EXPECT_NE(choice.output.find("bytes: ring, because"), std::string::npos) << choice.output;
  ::unsetenv("SPINDRIFT_TUNING");
  ::unlink(file.c_str());
}

TEST(CollTool, RunsTheAlgorithmThatIsAskedFor) {
  for (const char* arguments : {"--ranks 3 -b 40K --algo tree", "--ranks 3 -b 40K --deterministic",
                                "--ranks 3 -b 40K --algo tree --provider udp"}) {
    ToolRun run(arguments);
    EXPECT_EQ(run.wait(), 0) << arguments << run.errors;
    EXPECT_NE(run.output.find("Out of bounds values : 0 OK"), std::string::npos) << run.output;
  }
  ToolRun unknown("--ranks 2 --algo rign");
  EXPECT_EQ(unknown.wait(), 2);
  EXPECT_NE(unknown.errors.find("halving_doubling"), std::string::npos) << unknown.errors;
}

TEST(CollTool, WrongArgumentsAreOneSentenceAndExitCode2) {
  for (const char* arguments : {"",
                                "--ranks 0",
                                "--ranks 65",
                                "--ranks 2 -b x",
                                "--ranks 2 -b 2M -e 1M",
                                "--ranks 2 --rank 0",
                                "--ranks 2 --rank 2 --rendezvous 127.0.0.1:9",
                                "--ranks 2 -d float8",
                                "--ranks 2 -o xor",
                                "--ranks 2 --cc nobody",
                                "--ranks 2 --path-selector nobody",
                                "--ranks 2 --workload /nowhere",
                                "--ranks 2 --slice 1025",
                                "--ranks 2 --fault nonsense=1",
                                "--ranks 2 --mtu 1000",
                                "--ranks 2 -b 0 -e 8 -f 2",
                                "--ranks 2 -c 2",
                                "--ranks 2 --bucket-mb 3",
                                "--ranks 2 --backward-ms 3",
                                "--ranks 2 --provider tcp",
                                "--ranks 2 --provider shm --fault loss=1%",
                                "--ranks 2 --workload resnet50 -b 4",
                                "--ranks 2 --workload /dev/null",
                                "--ranks 2 --crc no",
                                "--ranks 2 -n -1",
                                "--ranks 2 --fault corrupt=1% --crc off",
                                "--ranks 2 --rank 0 --rendezvous 127.0.0.1:99999",
                                "--ranks 2 --rank 0 --rendezvous 127.0.0.1:9 --address foo"}) {
    ToolRun run(arguments);
    EXPECT_EQ(run.wait(), 2) << arguments << ": " << run.errors;
    EXPECT_TRUE(run.output.empty()) << run.output;
    EXPECT_EQ(std::count(run.errors.begin(), run.errors.end(), '\n'), 1) << run.errors;
  }
}

}  // namespace
