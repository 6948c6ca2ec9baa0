#include "tools/sim/plots/png.h"

#include <array>
#include <cerrno>
#include <system_error>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace spindrift::simtool {

Status convert_to_png(const std::string& svg_file, const std::string& png_file) {
  const auto refused = [&](ErrorCode code, const std::string& why) {
    return Error(code, absl::StrCat("cannot make ", png_file, ": ", why));
  };
  std::array<std::string, 6> words = {"rsvg-convert", "--zoom", "2",
                                      "--output",     png_file, svg_file};
  std::array<char*, 7> arguments{};  // the last one stays null
  for (std::size_t i = 0; i < words.size(); ++i)
    arguments[i] = words[i].data();
  pid_t child = 0;
  const int error =
      posix_spawnp(&child, words[0].c_str(), nullptr, nullptr, arguments.data(), environ);
  if (error == ENOENT)
    return refused(ErrorCode::kUnsupported,
                   "the program rsvg-convert (Debian: librsvg2-bin) is not there; SVG needs none");
  if (error != 0) return refused(ErrorCode::kIo, std::system_category().message(error));
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return refused(ErrorCode::kIo, std::system_category().message(errno));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return refused(ErrorCode::kIo, "rsvg-convert failed");
  return ok_status();
}

}  // namespace spindrift::simtool
