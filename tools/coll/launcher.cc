#include "tools/coll/launcher.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <set>
#include <system_error>

#include <absl/strings/str_format.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collectives/bootstrap/tcp_store.h"
#include "tools/coll/rank_run.h"

namespace spindrift::coll {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kExitInterrupted = 130;
// Between the first death and the end of all others: they may say something, then they must go.
constexpr auto kGrace = std::chrono::milliseconds(1500);
// A rank that fails for a reason of its own dies before those that only miss it; but not always is
// it reaped first.
constexpr auto kSettle = std::chrono::milliseconds(200);
constexpr std::size_t kMaxLines = 1000;

struct Child {
  pid_t pid = -1;
  int error_fd = -1;
  bool has_ended = false;
  int status = 0;
  std::string unfinished_line;
  std::string last_line;
};

std::string system_error(int error) {
  return std::generic_category().message(error);
}

std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  std::string argument;
  while (std::getline(file, argument, '\0'))
    arguments.push_back(argument);
  return arguments;
}

bool is_failure(const Child& child) {
  return child.has_ended && !(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
}

std::string fate_of(const Child& child) {
  if (WIFSIGNALED(child.status)) {
    const int signal = WTERMSIG(child.status);
    return absl::StrFormat("was killed by signal %d (SIG%s)", signal, sigabbrev_np(signal));
  }
  return absl::StrFormat("ended with exit code %d", WEXITSTATUS(child.status));
}

class Family final {
 public:
  Family() {
    sigset_t watched;
    sigemptyset(&watched);
    for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP})
      sigaddset(&watched, signal);
    sigprocmask(SIG_BLOCK, &watched, &mask_before_);
    signal_fd_ = ::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~Family() {
    kill_all(SIGKILL);
    while (has_living())
      reap(0);
    for (const Child& child : children_)
      ::close(child.error_fd);
    if (signal_fd_ >= 0) ::close(signal_fd_);
    sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
  }
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;

  Status start(const std::vector<std::string>& arguments) {
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) {
      return Error(ErrorCode::kIo, "no pipe: " + system_error(errno));
    }
    std::vector<char*> raw;
    raw.reserve(arguments.size() + 1);
    for (const std::string& argument : arguments)
      raw.push_back(const_cast<char*>(argument.data()));
    raw.push_back(nullptr);
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid == 0) become(raw, pipe[1], parent);
    const int error = errno;
    ::close(pipe[1]);
    if (pid < 0) {
      ::close(pipe[0]);
      return Error(ErrorCode::kIo, "no process: " + system_error(error));
    }
    (void)::fcntl(pipe[0], F_SETFL, O_NONBLOCK);
    Child child;
    child.pid = pid;
    child.error_fd = pipe[0];
    children_.push_back(child);
    return ok_status();
  }

  int run() {
    while (has_living()) {
      watch(is_ending_ ? 50 : -1);
      if (first_failure_) end_others();
    }
    drain_all();
    if (interrupt_ != 0) {
      return complain(absl::StrFormat("stopped by SIG%s", sigabbrev_np(interrupt_)),
                      kExitInterrupted);
    }
    return first_failure_ ? report() : 0;
  }

 private:
  // In the child, where only async-signal-safe calls are allowed until the exec.
  [[noreturn]] void become(const std::vector<char*>& arguments, int error_fd, pid_t parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    ::dup2(error_fd, STDERR_FILENO);
    sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
    ::execv("/proc/self/exe", arguments.data());
    static constexpr char kNoExec[] = "spindrift coll: this program cannot be started again\n";
    (void)!::write(STDERR_FILENO, kNoExec, sizeof(kNoExec) - 1);
    ::_exit(1);
  }

  bool has_living() const {
    return std::any_of(children_.begin(), children_.end(),
                       [](const Child& child) { return !child.has_ended; });
  }

  void kill_all(int signal) const {
    for (const Child& child : children_) {
      if (!child.has_ended) ::kill(child.pid, signal);
    }
  }

  void watch(int timeout_ms) {
    std::vector<pollfd> entries{{.fd = signal_fd_, .events = POLLIN, .revents = 0}};
    for (const Child& child : children_) {
      entries.push_back({.fd = child.error_fd, .events = POLLIN, .revents = 0});
    }
    if (::poll(entries.data(), entries.size(), timeout_ms) < 0) return;
    drain_all();
    signalfd_siginfo info{};
    while (::read(signal_fd_, &info, sizeof(info)) == sizeof(info)) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGCHLD) continue;
      interrupt_ = signal;
      if (!first_failure_) first_failure_ = Clock::now();
      kill_all(SIGKILL);
    }
    reap(WNOHANG);
  }

  void reap(int flags) {
    for (Child& child : children_) {
      if (child.has_ended || ::waitpid(child.pid, &child.status, flags) != child.pid) continue;
      child.has_ended = true;
      if (is_failure(child) && !first_failure_) first_failure_ = Clock::now();
    }
  }

  void end_others() {
    const auto waited = Clock::now() - *first_failure_;
    if (!is_ending_) {
      is_ending_ = true;
    } else if (waited > kGrace) {
      kill_all(SIGKILL);
    } else if (waited > kSettle && !culprits_known_) {
      // Whoever falls from now on falls because of us.
      culprits_known_ = true;
      for (std::size_t rank = 0; rank < children_.size(); ++rank) {
        if (is_failure(children_[rank])) culprits_.push_back(rank);
      }
      kill_all(SIGTERM);
    }
  }

  int report() {
    if (!culprits_known_) {
      for (std::size_t rank = 0; rank < children_.size(); ++rank) {
        if (is_failure(children_[rank])) culprits_.push_back(rank);
      }
    }
    // A killed rank is the cause, those that complain about it the consequence.
    const auto was_killed = [this](std::size_t rank) {
      return WIFSIGNALED(children_[rank].status) != 0;
    };
    if (std::any_of(culprits_.begin(), culprits_.end(), was_killed)) {
      std::erase_if(culprits_, [&](std::size_t rank) { return !was_killed(rank); });
    }
    int exit_code = 1;
    for (const std::size_t rank : culprits_) {
      const Child& child = children_[rank];
      const std::string words =
          child.last_line.empty() ? " without a word" : "; its last words: " + child.last_line;
      complain(absl::StrFormat("rank %d (pid %d) %s%s", rank, child.pid, fate_of(child), words), 1);
      if (WIFEXITED(child.status) && WEXITSTATUS(child.status) == 2) exit_code = 2;
    }
    return exit_code;
  }

  void drain_all() {
    for (std::size_t rank = 0; rank < children_.size(); ++rank)
      drain(rank);
  }

  void drain(std::size_t rank) {
    Child& child = children_[rank];
    std::array<char, 4096> buffer{};
    ssize_t got = 0;
    while (child.error_fd >= 0 &&
           (got = ::read(child.error_fd, buffer.data(), buffer.size())) > 0) {
      for (const char letter : std::string_view(buffer.data(), static_cast<std::size_t>(got))) {
        if (letter == '\n') {
          end_line(rank);
        } else if (child.unfinished_line.size() < buffer.size()) {
          child.unfinished_line += letter;
        }
      }
    }
    if (got != 0 || child.error_fd < 0) return;
    if (!child.unfinished_line.empty()) end_line(rank);
    ::close(child.error_fd);
    child.error_fd = -1;  // poll passes over it
  }

  // All ranks of a host have the same warnings: each is printed once.
  void end_line(std::size_t rank) {
    Child& child = children_[rank];
    child.last_line.swap(child.unfinished_line);
    child.unfinished_line.clear();
    if (seen_.size() < kMaxLines && !seen_.insert(child.last_line).second) return;
    absl::FPrintF(stderr, "[rank %d] %s\n", rank, child.last_line);
  }

  std::vector<Child> children_;
  std::vector<std::size_t> culprits_;
  std::set<std::string> seen_;
  std::optional<Clock::time_point> first_failure_;
  sigset_t mask_before_{};
  int signal_fd_ = -1;
  int interrupt_ = 0;
  bool is_ending_ = false;
  bool culprits_known_ = false;
};

}  // namespace

int start_ranks(const Options& options) {
  // Signals are blocked before the store's thread starts, so that it inherits that.
  Family family;
  const auto server = collectives::TcpStoreServer::start("127.0.0.1:0");
  if (!server.ok()) return complain(server.error().message(), 1);
  const std::vector<std::string> own = own_arguments();
  for (std::uint32_t rank = 0; rank < options.ranks; ++rank) {
    std::vector<std::string> arguments = own;
    for (const std::string& extra :
         {std::string("--rank"), std::to_string(rank), std::string("--rendezvous"),
          server.value()->address(), std::string("--outside-store")}) {
      arguments.push_back(extra);
    }
    if (Status status = family.start(arguments); !status.ok()) {
      return complain(absl::StrFormat("cannot start rank %d: %s", rank, status.error().message()),
                      1);
    }
  }
  return family.run();
}

}  // namespace spindrift::coll
