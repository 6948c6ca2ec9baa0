#pragma once
// `spindrift perf local`: a server as a second process of this program, on loopback.
#include <string>

#include <sys/types.h>

#include "spindrift/result.h"

#include "tools/perf/options.h"

namespace spindrift::perf {

// Runs as long as the object lives; killed and collected by the destructor.
class LocalServer {
 public:
  static Result<LocalServer> start(const PerfOptions& options);
  LocalServer(LocalServer&& other) noexcept;
  LocalServer& operator=(LocalServer&&) = delete;
  ~LocalServer();

  const std::string& address() const { return address_; }
  // How the process ended ("was killed by signal 9 (Killed)"); empty while it runs, and after it
  // ended well.
  std::string death();
  // Waits for its end, which should be near; returns what death() then says.
  std::string await_end();

 private:
  LocalServer() = default;
  [[nodiscard]] Status read_address(int fd);

  pid_t pid_ = -1;
  std::string address_;
  std::string death_;
};

}  // namespace spindrift::perf
