#include "tools/exit_codes.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <system_error>

#include "absl/strings/str_format.h"
#include "transport/base/printable.h"

namespace spindrift::tools {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void on_interrupt(int /*signal*/) {
  interrupted = 1;
}

}  // namespace

int complain(std::string_view command, std::string_view sentence, int exit_code) {
  absl::FPrintF(stderr, "spindrift %s: %s\n", command, printable(sentence));
  return exit_code;
}

int finish_output(std::string_view command, int exit_code) {
  const bool had_error = std::ferror(stdout) != 0;
  std::clearerr(stdout);
  // A write that failed earlier has taken its reason with it; one more byte meets it again.
  if (had_error) std::fputc('\n', stdout);
  errno = 0;
  const bool is_flushed = std::fflush(stdout) == 0;
  const int error = errno;
  if (is_flushed && !had_error) return exit_code;
  return complain(
      command,
      absl::StrFormat("cannot write the results to standard output: %s; they are incomplete, run "
                      "again with an output that has room",
                      std::system_category().message(error == 0 ? EIO : error)),
      kExitFailure);
}

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool was_interrupted() {
  return interrupted != 0;
}

}  // namespace spindrift::tools
