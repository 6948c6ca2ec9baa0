#pragma once
// A process that a test starts, talks to by lines, and sends signals.
#include <string>
#include <vector>

#include <signal.h>
#include <sys/types.h>

namespace spindrift {

class ChildProcess {
 public:
  // `arguments[0]` is the program's path. Its standard input and output are ours.
  explicit ChildProcess(const std::vector<std::string>& arguments);
  ~ChildProcess();  // kills it
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // The next line it prints, without the newline; empty when it has ended. Blocks.
  std::string line();
  void tell(const std::string& text);
  void send_signal(int number) const;
  pid_t pid() const { return pid_; }
  // Until the signal sent has stopped or ended it. The process can be waited for only once ended.
  void wait_for_change();

 private:
  pid_t pid_ = -1;
  bool has_ended_ = false;
  int from_child_ = -1;
  int to_child_ = -1;
};

}  // namespace spindrift
