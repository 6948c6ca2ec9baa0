// The tuner of the built library, looked up as NCCL does.
#include <array>
#include <cstdlib>

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plugins/nccl/tuner_abi.h"

namespace spindrift::nccl {
namespace {

using Costs = std::array<std::array<float, 3>, 7>;

void ignore(int /*level*/, unsigned long /*flags*/, const char* /*file*/, int /*line*/,
            const char* /*format*/, ...) {}

template <class Table>
const Table* table(void* library, const char* name) {
  return static_cast<const Table*>(::dlsym(library, name));
}

Costs some_costs() {
  Costs costs;
  for (auto& row : costs)
    row = {1, 2, 3};
  costs[4][1] = kNotAvailable;
  return costs;
}

// In a process of its own: the plugin reads its settings once. Returns what every version made of
// the table, where they agree.
Costs judged(const char* ll128, std::size_t nodes) {
  std::array<int, 2> pipe{};
  EXPECT_EQ(::pipe(pipe.data()), 0);
  if (::fork() == 0) {
    ::setenv("SPINDRIFT_NCCL_LL128", ll128, 1);
    void* const library = ::dlopen(SPINDRIFT_NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) ::_exit(1);
    if (table<NetV8>(library, "ncclNetPlugin_v8")->init(ignore) != kSuccess) ::_exit(2);
    std::array<Costs, 3> costs{some_costs(), some_costs(), some_costs()};
    void* context = nullptr;
    const auto* const v3 = table<TunerV3>(library, "ncclTunerPlugin_v3");
    v3->init(8, nodes, ignore, &context);
    v3->getCollInfo(context, 4, 1024, 1, reinterpret_cast<float**>(&costs[0]), 7, 3, nullptr);
    const auto* const v4 = table<TunerV4>(library, "ncclTunerPlugin_v4");
    v4->init(8, nodes, ignore, &context);
    v4->getCollInfo(context, 4, 1024, 1, reinterpret_cast<float**>(&costs[1]), 7, 3, 0, nullptr);
    const auto* const v5 = table<TunerV5>(library, "ncclTunerPlugin_v5");
    v5->init(&context, 1, 8, nodes, ignore, nullptr, nullptr);
    v5->getCollInfo(context, 4, 1024, 1, reinterpret_cast<float**>(&costs[2]), 7, 3, 0, nullptr);
    v5->finalize(context);
    if (costs[0] != costs[1] || costs[1] != costs[2]) ::_exit(3);
    if (::write(pipe[1], &costs[0], sizeof(Costs)) != sizeof(Costs)) ::_exit(4);
    ::_exit(0);
  }
  int status = 0;
  ::wait(&status);
  EXPECT_EQ(status, 0);
  Costs costs{};
  EXPECT_EQ(::read(pipe[0], &costs, sizeof(Costs)), ssize_t{sizeof(Costs)});
  ::close(pipe[0]);
  ::close(pipe[1]);
  return costs;
}

TEST(Tuner, ChangesNothingUnlessAsked) {
  EXPECT_EQ(judged("1", 2), some_costs());
}

TEST(Tuner, TakesLl128AwayAndNothingElse) {
  Costs expected = some_costs();
  for (auto& row : expected)
    row[kProtocolLl128] = kNotAvailable;
  EXPECT_EQ(judged("0", 2), expected);
}

TEST(Tuner, LeavesCommunicatorsWithinOneNodeAlone) {
  EXPECT_EQ(judged("0", 1), some_costs());
}

}  // namespace
}  // namespace spindrift::nccl
