#include "tests/e2e/child_process.h"

#include <array>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport/base/check.h"

namespace spindrift {

ChildProcess::ChildProcess(const std::vector<std::string>& arguments) {
  std::array<int, 2> out{};
  std::array<int, 2> in{};
  // Closed on exec: a process started by another thread at this moment must not hold our ends.
  SPINDRIFT_CHECK(::pipe2(out.data(), O_CLOEXEC) == 0);
  SPINDRIFT_CHECK(::pipe2(in.data(), O_CLOEXEC) == 0);
  std::vector<char*> values;
  values.reserve(arguments.size() + 1);
  for (const std::string& one : arguments)
    values.push_back(const_cast<char*>(one.c_str()));
  values.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  const int failed = ::posix_spawn(&pid_, values[0], &actions, nullptr, values.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(in[0]);
  ::close(out[1]);
  from_child_ = out[0];
  to_child_ = in[1];
  SPINDRIFT_CHECK(failed == 0);
}

ChildProcess::~ChildProcess() {
  if (!has_ended_) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(from_child_);
  ::close(to_child_);
}

std::string ChildProcess::line() {
  std::string text;
  char next = 0;
  while (::read(from_child_, &next, 1) == 1 && next != '\n')
    text += next;
  return text;
}

void ChildProcess::tell(const std::string& text) {
  SPINDRIFT_CHECK(::write(to_child_, text.data(), text.size()) ==
                  static_cast<ssize_t>(text.size()));
}

void ChildProcess::send_signal(int number) const {
  ::kill(pid_, number);
}

void ChildProcess::wait_for_change() {
  int status = 0;
  ::waitpid(pid_, &status, WUNTRACED);
  has_ended_ = !WIFSTOPPED(status);
}

}  // namespace spindrift
