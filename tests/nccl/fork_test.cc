// Children of fork() that call the plugin: the connections are their parent's.
#include <array>

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plugins/nccl/abi.h"

namespace spindrift::nccl {
namespace {

int& warnings() {
  static int count = 0;
  return count;
}

void count_warnings(int level, unsigned long /*flags*/, const char* /*file*/, int /*line*/,
                    const char* /*format*/, ...) {
  warnings() += level == kLogWarn ? 1 : 0;
}

TEST(Fork, AChildIsRefusedWithAWarningAndMayEndWhatItGot) {
  void* const library = ::dlopen(SPINDRIFT_NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  const NetV11& net = *static_cast<const NetV11*>(::dlsym(library, "ncclNetPlugin_v11"));
  void* context = nullptr;
  CommConfig config{.trafficClass = kUndefinedTrafficClass};
  ASSERT_EQ(net.init(&context, 1, &config, count_warnings, nullptr), kSuccess);
  std::array<char, kHandleBytes> handle{};
  void* listener = nullptr;
  ASSERT_EQ(net.listen(context, 0, handle.data(), &listener), kSuccess);
  const pid_t pid = ::fork();
  if (pid == 0) {
    void* made = nullptr;
    std::array<char, kHandleBytes> other{};
    const bool is_refused = net.listen(context, 0, other.data(), &made) != kSuccess &&
                            net.connect(context, 0, handle.data(), &made, nullptr) != kSuccess &&
                            net.accept(listener, &made, nullptr) != kSuccess && made == nullptr;
    const bool ends = net.closeListen(listener) == kSuccess && net.finalize(context) == kSuccess;
    ::_exit(is_refused && ends && warnings() == 3 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(warnings(), 0);
  void* send = nullptr;
  void* recv = nullptr;
  while (send == nullptr || recv == nullptr) {
    if (send == nullptr) {
      ASSERT_EQ(net.connect(context, 0, handle.data(), &send, nullptr), kSuccess);
    }
    if (recv == nullptr) {
      ASSERT_EQ(net.accept(listener, &recv, nullptr), kSuccess);
    }
  }
  EXPECT_EQ(net.closeListen(listener), kSuccess);
  EXPECT_EQ(net.closeSend(send), kSuccess);
  EXPECT_EQ(net.closeRecv(recv), kSuccess);
  EXPECT_EQ(net.finalize(context), kSuccess);
  EXPECT_EQ(::dlclose(library), 0);  // other tests load it with settings of their own
}

}  // namespace
}  // namespace spindrift::nccl
