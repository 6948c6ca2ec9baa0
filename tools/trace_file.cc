#include "tools/trace_file.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "spindrift/trace.h"

#include "absl/strings/str_format.h"

namespace spindrift::tools {
namespace {

constexpr std::uint32_t kTracedEvents = 1U << 18U;

// Written before the handler is installed, read only by it.
std::array<char, 512> signal_path{};
std::array<char, 600> signal_sentence{};

void say(std::string_view sentence) {
  (void)!::write(STDERR_FILENO, sentence.data(), sentence.size());
}

void on_signal(int /*signal*/) {
  const int error_before = errno;
  if (write_all_traces(signal_path.data()))
    say(signal_sentence.data());
  else
    say("spindrift: the flight recorder could not be written\n");
  errno = error_before;
}

}  // namespace

Status start_trace_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file >= 0) {
    ::close(file);
    return ok_status();
  }
  return Error(ErrorCode::kIo, absl::StrFormat("cannot write the trace to %s: %s", path,
                                               std::system_category().message(errno)));
}

void trace_to(const std::string& path, bool has_own_size, EndpointConfig& config) {
  if (path.empty()) return;
  config.trace = path;
  if (!has_own_size) config.trace_events = kTracedEvents;
}

void trace_on_signal() {
  const char* folder = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe): before any thread
  std::snprintf(signal_path.data(), signal_path.size(), "%s/spindrift-trace-%d.jsonl",
                folder == nullptr || *folder == '\0' ? "/tmp" : folder, ::getpid());
  std::snprintf(signal_sentence.data(), signal_sentence.size(),
                "spindrift: flight recorder written to %s\n", signal_path.data());
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR2, &action, nullptr);
}

}  // namespace spindrift::tools
