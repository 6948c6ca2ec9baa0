#include "providers/shm/shm_names.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "transport/base/random.h"
#include "transport/base/unique_fd.h"

namespace spindrift {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "spindrift.", a name of make_shm_name, and perhaps an ending of ours.
bool is_made_up(std::string_view file) {
  if (!file.starts_with(kShmPrefix)) return false;
  file.remove_prefix(kShmPrefix.size());
  if (file.ends_with(kShmSegments)) file.remove_suffix(kShmSegments.size());
  const std::size_t dash = file.find('-');
  return dash != std::string_view::npos && is_number(file.substr(0, dash)) &&
         is_number(file.substr(dash + 1));
}

}  // namespace

std::string make_shm_name() {
  return std::to_string(::getpid()) + "-" + std::to_string(random_u64() % 1'000'000'000);
}

bool is_left_behind(const std::string& path) {
  sockaddr_un address{};
  struct stat found {};
  // The kernel answers alike for a file that is no socket.
  if (path.size() >= sizeof(address.sun_path) || ::lstat(path.c_str(), &found) != 0 ||
      !S_ISSOCK(found.st_mode)) {
    return false;
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  // None of ours is of this kind, so where somebody is bound the kernel refuses the kind, and the
  // owner hears nothing.
  const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  return ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) !=
             0 &&
         errno == ECONNREFUSED;
}

void remove_left_behind(const std::string& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator file(folder, error), end; !error && file != end;
       file.increment(error)) {
    const std::string path = file->path().string();
    if (is_made_up(file->path().filename().string()) && is_left_behind(path))
      ::unlink(path.c_str());
  }
}

}  // namespace spindrift
