#include "tools/perf/local.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_format.h"

namespace spindrift::perf {
namespace {

constexpr int kStartPatienceMs = 10'000;
constexpr int kEndPatienceMs = 5'000;

Error system_error(std::string_view what) {
  return Error(ErrorCode::kIo,
               absl::StrFormat("%s: %s", what, std::system_category().message(errno)));
}

// In the child, between fork and exec: only what is safe there.
[[noreturn]] void become_server(char* const* arguments, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  // Ctrl-C is for the client, which then ends the test in good order.
  setpgid(0, 0);
  execv("/proc/self/exe", arguments);
  _exit(127);
}

}  // namespace

Result<LocalServer> LocalServer::start(const PerfOptions& options) {
  int fds[2];
  if (pipe2(fds, 0) != 0) return system_error("cannot make a pipe");
  fcntl(fds[0], F_SETFD, FD_CLOEXEC);
  std::vector<std::string> words = {"spindrift",
                                    "perf",
                                    "server",
                                    "--listen",
                                    options.listen_address,
                                    "--once",
                                    "--ready-fd",
                                    std::to_string(fds[1])};
  if (!options.faults.empty()) words.insert(words.end(), {"--fault", options.faults});
  if (!options.trace.empty()) words.insert(words.end(), {"--trace", options.trace});
  if (options.has_guardian) words.emplace_back("--guardian");
  std::vector<char*> arguments;
  for (std::string& word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);

  LocalServer server;
  const pid_t parent = getpid();
  server.pid_ = fork();
  if (server.pid_ == 0) become_server(arguments.data(), parent);
  close(fds[1]);
  if (server.pid_ < 0) {
    close(fds[0]);
    return system_error("cannot start the server process");
  }
  const Status status = server.read_address(fds[0]);
  close(fds[0]);
  if (!status.ok()) return status.error();
  return server;
}

Status LocalServer::read_address(int fd) {
  pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
  while (address_.empty() || address_.back() != '\n') {
    char buffer[256];
    const int ready = poll(&wait, 1, kStartPatienceMs);
    if (ready < 0 && errno == EINTR) {
      return Error(ErrorCode::kUnavailable, "interrupted before the test began");
    }
    if (ready <= 0) {
      return Error(ErrorCode::kTimedOut, "the server process did not start within 10 s");
    }
    const ssize_t length = read(fd, buffer, sizeof(buffer));
    if (length <= 0) {
      return Error(ErrorCode::kIo,
                   "the server process ended before it listened; its own message "
                   "says why");
    }
    address_.append(buffer, static_cast<std::size_t>(length));
  }
  address_.pop_back();
  return ok_status();
}

LocalServer::LocalServer(LocalServer&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      address_(std::move(other.address_)),
      death_(std::move(other.death_)) {}

LocalServer::~LocalServer() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::string LocalServer::death() {
  int status = 0;
  if (pid_ <= 0 || waitpid(pid_, &status, WNOHANG) != pid_) return death_;
  if (WIFSIGNALED(status)) {
    const char* name = sigdescr_np(WTERMSIG(status));
    death_ = absl::StrFormat("the server process %d was killed by signal %d (%s)", pid_,
                             WTERMSIG(status), name != nullptr ? name : "unknown");
  } else if (WEXITSTATUS(status) != 0) {
    death_ =
        absl::StrFormat("the server process %d ended with exit code %d", pid_, WEXITSTATUS(status));
  }
  pid_ = -1;
  return death_;
}

std::string LocalServer::await_end() {
  constexpr int kStepMs = 5;
  for (int waited_ms = 0; waited_ms < kEndPatienceMs && pid_ > 0; waited_ms += kStepMs) {
    if (std::string words = death(); !words.empty()) return words;
    if (pid_ > 0) poll(nullptr, 0, kStepMs);
  }
  return death();
}

}  // namespace spindrift::perf
