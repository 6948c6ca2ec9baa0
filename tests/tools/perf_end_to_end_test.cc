// `spindrift perf` as users run it: two processes, real sockets on loopback, exit codes, messages.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using testing::HasSubstr;
using testing::Not;

// A running `spindrift`, with its standard output and error readable.
class Command {
 public:
  explicit Command(std::vector<std::string> words, const char* output_path = nullptr) {
    words.insert(words.begin(), SPINDRIFT_TOOL);
    std::vector<char*> arguments;
    for (std::string& word : words)
      arguments.push_back(word.data());
    arguments.push_back(nullptr);
    std::array<int, 2> out{};
    std::array<int, 2> err{};
    if (pipe2(out.data(), O_CLOEXEC) != 0 || pipe2(err.data(), O_CLOEXEC) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      const int target = output_path == nullptr ? out[1] : open(output_path, O_WRONLY);
      dup2(target, STDOUT_FILENO);
      dup2(err[1], STDERR_FILENO);
      execv(SPINDRIFT_TOOL, arguments.data());
      _exit(127);
    }
    close(out[1]);
    close(err[1]);
    out_fd_ = out[0];
    err_fd_ = err[0];
  }
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  ~Command() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(out_fd_);
    close(err_fd_);
  }

  // Reads until standard output holds `text`; false: it ended before.
  bool await_output(const std::string& text) {
    while (output_.find(text) == std::string::npos) {
      if (!read_some(out_fd_, &output_)) return false;
    }
    return true;
  }
  // The exit code; -1: killed by a signal.
  int finish() {
    std::array<pollfd, 2> fds = {pollfd{.fd = out_fd_, .events = POLLIN, .revents = 0},
                                 pollfd{.fd = err_fd_, .events = POLLIN, .revents = 0}};
    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
      poll(fds.data(), fds.size(), -1);
      if (fds[0].revents != 0 && !read_some(out_fd_, &output_)) fds[0].fd = -1;
      if (fds[1].revents != 0 && !read_some(err_fd_, &errors_)) fds[1].fd = -1;
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  void send_signal(int signal) const { kill(pid_, signal); }
  const std::string& output() const { return output_; }
  const std::string& errors() const { return errors_; }

 private:
  static bool read_some(int fd, std::string* into) {
    std::array<char, 4096> buffer{};
    const ssize_t length = read(fd, buffer.data(), buffer.size());
    if (length > 0) into->append(buffer.data(), static_cast<std::size_t>(length));
    return length > 0;
  }

  pid_t pid_ = -1;
  int out_fd_ = -1;
  int err_fd_ = -1;
  std::string output_;
  std::string errors_;
};

// A server on a free port, and the address it says.
class Server {
 public:
  Server() : command_({"perf", "server", "--listen", "udp://127.0.0.1:0"}) {
    if (!command_.await_output("\n")) return;
    const std::string& line = command_.output();
    const std::size_t from = line.find("udp://");
    address_ = line.substr(from, line.find('\n') - from);
  }
  Command& command() { return command_; }
  const std::string& address() const { return address_; }

 private:
  Command command_;
  std::string address_;
};

nlohmann::json run_local(std::vector<std::string> words) {
  words.insert(words.begin(), {"perf", "local", "--json"});
  Command command(std::move(words));
  EXPECT_EQ(command.finish(), 0) << command.errors();
  nlohmann::json document = nlohmann::json::parse(command.output(), nullptr, false);
  EXPECT_FALSE(document.is_discarded()) << command.output();
  return document;
}

class EveryOperation : public testing::TestWithParam<const char*> {};

TEST_P(EveryOperation, MovesVerifiedBytes) {
  const nlohmann::json document =
      run_local({"--op", GetParam(), "-n", "100", "--test", "both", "--verify"});
  EXPECT_EQ(document.at("bandwidth").at(0).at("iterations"), 100);
  EXPECT_GT(document.at("bandwidth").at(0).at("average_mb_per_s"), 0);
  EXPECT_EQ(document.at("latency").at(0).at("iterations"), 100);
  EXPECT_GT(document.at("latency").at(0).at("min_us"), 0);
  EXPECT_LE(document.at("latency").at(0).at("min_us"), document.at("latency").at(0).at("max_us"));
}

TEST_P(EveryOperation, MovesVerifiedBytesBothWaysOverSeveralConnections) {
  const nlohmann::json document = run_local(
      {"--op", GetParam(), "-n", "50", "--bidirectional", "--connections", "3", "--verify"});
  EXPECT_EQ(document.at("bandwidth").at(0).at("iterations"), 300);
}

TEST_P(EveryOperation, MovesVerifiedBytesThroughLoss) {
  const nlohmann::json document = run_local(
      {"--op", GetParam(), "-n", "100", "--warmup", "0", "--verify", "--fault", "loss=3%,seed=1"});
  EXPECT_EQ(document.at("bandwidth").at(0).at("iterations"), 100);
}

INSTANTIATE_TEST_SUITE_P(Perf, EveryOperation,
                         testing::Values("write", "write-imm", "send", "read", "atomic"));

TEST(Perf, MeasuresEverySizeOfTheLadder) {
  const nlohmann::json document = run_local({"--op", "send", "--all", "-n", "5"});
  ASSERT_EQ(document.at("bandwidth").size(), 23u);
  EXPECT_EQ(document.at("bandwidth").at(0).at("message_bytes"), 2);
  EXPECT_EQ(document.at("bandwidth").at(22).at("message_bytes"), 8 << 20);
}

TEST(Perf, AccountsForEveryPath) {
  const nlohmann::json document = run_local({"-n", "200", "--paths", "4"});
  const nlohmann::json& paths = document.at("account").at("client").at("paths");
  ASSERT_EQ(paths.size(), 4u);
  double sum = 0;
  for (const nlohmann::json& path : paths)
    sum += path["share_percent"].get<double>();
  EXPECT_NEAR(sum, 100, 1e-6);
}

struct Misuse {
  std::vector<std::string> words;
  const char* complaint;
};

TEST(Perf, EndsWith2AndOneSentenceForWrongArguments) {
  const std::vector<Misuse> misuses = {
      {{}, "subcommand"},
      {{"bogus"}, "'bogus'"},
      {{"perf"}, "target"},
      {{"perf", "local", "--nope"}, "--nope"},
      {{"perf", "local", "--op", "push"}, "'push'"},
      {{"perf", "local", "--depth", "many"}, "many"},
      {{"perf", "local", "--cc", "bbr9"}, "nscc"},
      {{"perf", "server", "--op", "send"}, "client"},
      {{"perf", "server", "--listen", "udp://203.0.113.7:5"}, "not an address of this host"}};
  for (const Misuse& misuse : misuses) {
    Command command(misuse.words);
    EXPECT_EQ(command.finish(), 2) << misuse.complaint;
    EXPECT_THAT(command.errors(), HasSubstr(misuse.complaint));
    EXPECT_EQ(std::count(command.errors().begin(), command.errors().end(), '\n'), 1);
  }
}

TEST(Perf, SaysByHowMuchALimitIsMissed) {
  Command bandwidth({"perf", "local", "-n", "20", "--min-bw", "1e9"});
  EXPECT_EQ(bandwidth.finish(), 1);
  EXPECT_THAT(bandwidth.errors(), HasSubstr("misses --min-bw"));
  Command latency({"perf", "local", "--test", "lat", "-n", "20", "--max-lat", "0.001"});
  EXPECT_EQ(latency.finish(), 1);
  EXPECT_THAT(latency.errors(), HasSubstr("misses --max-lat"));
}

TEST(Perf, OpensAsManyConnectionsAsItAllows) {
  const nlohmann::json document =
      run_local({"--connections", "256", "-n", "2", "-s", "8", "--warmup", "0"});
  EXPECT_EQ(document.at("bandwidth").at(0).at("iterations"), 512);
}

TEST(Perf, KeepsCorruptedPacketsFromResultsAndTalk) {
  const nlohmann::json document = run_local(
      {"--op", "send", "-n", "200", "--warmup", "0", "--verify", "--fault", "corrupt=2%,seed=1"});
  EXPECT_EQ(document.at("bandwidth").at(0).at("iterations"), 200);
}

TEST(Perf, SaysWhichDeadlinePassed) {
  Command command({"perf", "local", "-n", "5", "--deadline", "1ns"});
  EXPECT_EQ(command.finish(), 1);
  EXPECT_THAT(command.errors(), HasSubstr("deadline of 1ns"));
}

TEST(Perf, EndsWith130WhenInterruptedBeforeTheTestBegan) {
  // A peer that never answers; its first packet tells that the command is up.
  const int peer = socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  ASSERT_EQ(bind(peer, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(getsockname(peer, reinterpret_cast<sockaddr*>(&address), &length), 0);
  Command command({"perf", "127.0.0.1:" + std::to_string(ntohs(address.sin_port))});
  pollfd wait{.fd = peer, .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&wait, 1, 30'000), 1);
  command.send_signal(SIGINT);
  EXPECT_EQ(command.finish(), 130) << command.errors();
  EXPECT_THAT(command.errors(), HasSubstr("interrupted"));
  close(peer);
}

TEST(Perf, NamesThePortThatIsBusy) {
  Server first;
  ASSERT_NE(first.address(), "");
  Command second({"perf", "server", "--listen", first.address()});
  EXPECT_EQ(second.finish(), 1);
  EXPECT_THAT(second.errors(), HasSubstr(first.address()));
}

TEST(Perf, NamesThePeerThatIsNotThere) {
  std::string address;
  {
    const Server gone;
    address = gone.address();
  }
  Command command({"perf", address, "-n", "1"});
  EXPECT_EQ(command.finish(), 1);
  EXPECT_THAT(command.errors(), HasSubstr(address));
}

TEST(Perf, ServesOneClientAfterAnotherAndTellsTheOthersThatItIsBusy) {
  Server server;
  for (int i = 0; i < 2; ++i) {
    Command command({"perf", server.address(), "-n", "10", "--verify"});
    EXPECT_EQ(command.finish(), 0) << command.errors();
  }
  Command longer({"perf", server.address(), "-D", "60"});
  ASSERT_TRUE(longer.await_output("MsgRate"));
  Command refused({"perf", server.address(), "-n", "10"});
  EXPECT_EQ(refused.finish(), 1);
  EXPECT_THAT(refused.errors(), HasSubstr("busy with"));
  longer.send_signal(SIGINT);
  EXPECT_EQ(longer.finish(), 130);
}

TEST(Perf, EndsWithASentenceNamingTheServerThatWasKilled) {
  Server server;
  Command client({"perf", server.address(), "-D", "60"});
  ASSERT_TRUE(client.await_output("MsgRate"));
  server.command().send_signal(SIGKILL);
  EXPECT_EQ(client.finish(), 1);
  EXPECT_THAT(client.errors(), HasSubstr(server.address()));
}

TEST(Perf, ServesTheNextClientAfterOneWasKilled) {
  Server server;
  {
    Command killed({"perf", server.address(), "-D", "60"});
    ASSERT_TRUE(killed.await_output("MsgRate"));
  }
  ASSERT_TRUE(server.command().await_output("session ended early"));
  Command next({"perf", server.address(), "-n", "10"});
  EXPECT_EQ(next.finish(), 0) << next.errors();
}

TEST(Perf, PrintsPartialResultsWhenInterrupted) {
  Command command({"perf", "local", "--all", "-D", "200ms"});
  ASSERT_TRUE(command.await_output("\n 2 "));
  command.send_signal(SIGINT);
  EXPECT_EQ(command.finish(), 130);
  EXPECT_THAT(command.output(), Not(HasSubstr("\n 8388608 ")));
}

TEST(Perf, NoticesAFullDisk) {
  Command command({"perf", "local", "-n", "10"}, "/dev/full");
  EXPECT_EQ(command.finish(), 1);
  EXPECT_THAT(command.errors(), HasSubstr("No space left"));
}

TEST(Perf, NoticesACaptureThatDidNotFit) {
  Command command({"perf", "local", "-s", "64K", "-n", "10", "--capture", "/dev/full"});
  EXPECT_EQ(command.finish(), 1);
  EXPECT_THAT(command.errors(), HasSubstr("the capture /dev/full is incomplete"));
}

TEST(Coll, NoticesAFullDisk) {
  for (const bool has_json : {false, true}) {
    std::vector<std::string> words = {"coll", "allreduce", "--ranks", "2", "-b", "4", "-n", "1"};
    if (has_json) words.emplace_back("--json");
    Command command(words, "/dev/full");
    EXPECT_EQ(command.finish(), 1) << has_json;
    EXPECT_THAT(command.errors(), HasSubstr("No space left"));
  }
}

TEST(Coll, NamesWhatIsNoCommandOfIt) {
  Command command({"coll", "foo"});
  EXPECT_EQ(command.finish(), 2);
  EXPECT_THAT(command.errors(), HasSubstr("'foo'"));
}

TEST(Info, PrintsADocumentWithProvidersAlgorithmsAndLimits) {
  Command command({"info", "--json"});
  EXPECT_EQ(command.finish(), 0);
  const nlohmann::json document = nlohmann::json::parse(command.output(), nullptr, false);
  ASSERT_FALSE(document.is_discarded());
  EXPECT_EQ(document.at("providers").at(0).at("name"), "udp");
  EXPECT_FALSE(document.at("congestion_controls").empty());
  EXPECT_FALSE(document.at("path_selectors").empty());
  EXPECT_FALSE(document.at("limits").empty());
}

}  // namespace
