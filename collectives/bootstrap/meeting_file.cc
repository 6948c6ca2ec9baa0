#include "collectives/bootstrap/meeting_file.h"

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <sstream>

#include <absl/strings/str_format.h>
#include <unistd.h>

#include "collectives/bootstrap/socket.h"

namespace spindrift::collectives {

Status write_meeting_file(const std::string& path, const std::string& text) {
  const std::string unfinished = absl::StrFormat("%s.%d", path, ::getpid());
  std::ofstream file(unfinished);
  file << text << std::flush;
  if (file && std::rename(unfinished.c_str(), path.c_str()) == 0) return ok_status();
  const int error = errno;
  ::unlink(unfinished.c_str());
  return Error(ErrorCode::kIo, absl::StrFormat("rank 0 cannot write the rendezvous file %s: %s",
                                               path, system_error(error)));
}

std::string read_meeting_file(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return file ? text.str() : std::string();
}

void remove_meeting_file(const std::string& path) {
  ::unlink(path.c_str());
}

}  // namespace spindrift::collectives
