// What dead processes leave behind in the folder of sockets, and what of it goes.
#include "providers/shm/shm_names.h"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spindrift/host_segments.h"

#include "providers/shm/shm_socket.h"
#include "transport/base/unique_fd.h"

namespace spindrift {
namespace {

class Folder {
 public:
  Folder() {
    std::string pattern = "/tmp/spindrift-names-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }
  std::string of(const std::string& file) const { return path_ + "/" + file; }
  bool has(const std::string& file) const { return std::filesystem::exists(of(file)); }

 private:
  std::string path_;
};

UniqueFd bound_socket(int kind, const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, kind | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

TEST(ShmNames, OnlySocketsOfTheDeadWithMadeUpNamesGo) {
  const Folder folder;
  for (const char* file : {"spindrift.12-34", "spindrift.12-35.segments", "spindrift.job-1",
                           "spindrift.12-", "spindrift.12-34.other", "other.12-34"}) {
    (void)bound_socket(SOCK_SEQPACKET, folder.of(file));  // closed, not removed
  }
  std::ofstream(folder.of("spindrift.12-36")) << "no socket";
  const UniqueFd calls = bound_socket(SOCK_SEQPACKET, folder.of("spindrift.12-37"));
  const UniqueFd offers = bound_socket(SOCK_DGRAM, folder.of("spindrift.12-38.segments"));
  remove_left_behind(folder.path());
  EXPECT_FALSE(folder.has("spindrift.12-34"));
  EXPECT_FALSE(folder.has("spindrift.12-35.segments"));
  for (const char* file :
       {"spindrift.job-1", "spindrift.12-", "spindrift.12-34.other", "other.12-34",
        "spindrift.12-36", "spindrift.12-37", "spindrift.12-38.segments"}) {
    EXPECT_TRUE(folder.has(file)) << file;
  }
  remove_left_behind(folder.of("no-such-folder"));
}

TEST(ShmNames, AListenerHearsNothingOfTheQuestion) {
  const Folder folder;
  const auto listener = listen_shm(folder.of("one"));
  ASSERT_TRUE(listener.ok());
  EXPECT_FALSE(is_left_behind(folder.of("one")));
  EXPECT_LT(::accept4(listener.value().get(), nullptr, nullptr, SOCK_NONBLOCK), 0);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_FALSE(is_left_behind(folder.of("nobody")));
}

TEST(ShmNames, AFileThatIsNoSocketIsNotTakenOver) {
  const Folder folder;
  std::ofstream(folder.of("letter")) << "keep";
  const auto listener = listen_shm(folder.of("letter"));
  ASSERT_FALSE(listener.ok());
  EXPECT_NE(listener.error().message().find("no socket"), std::string::npos);
  std::string kept;
  std::ifstream(folder.of("letter")) >> kept;
  EXPECT_EQ(kept, "keep");
}

TEST(ShmNames, WhoOpensRemovesWhatAKilledProcessHasLeft) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto exchange = open_host_segments();
    const std::string path = exchange.ok() ? exchange.value()->address() : "";
    if (::write(ends[1], path.c_str(), path.size() + 1) < 0) ::_exit(1);
    for (;;)
      ::pause();
  }
  ::close(ends[1]);
  char path[108] = {};
  ASSERT_GT(::read(ends[0], path, sizeof(path) - 1), 0);
  ::close(ends[0]);
  ASSERT_TRUE(open_host_segments().ok());
  EXPECT_TRUE(std::filesystem::exists(path)) << "it is alive";
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(std::filesystem::exists(path));
  ASSERT_TRUE(open_host_segments().ok());
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace spindrift
