// A process that forks while it is a rank: the child is told that it is none, and the parent goes
// on.
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spindrift/open.h"

#include "collectives/bootstrap/tcp_store.h"
#include "tests/collectives/call_case.h"
#include "transport/base/fork_guard.h"

namespace spindrift::collectives {
namespace {

constexpr Duration kPatience = std::chrono::seconds(30);

bool is_told(const Status& status) {
  return !status.ok() &&
         status.error().message().find(ForkGuard::sentence("communicator")) != std::string::npos;
}

// What the child finds; 0: all as it should be.
int use_in_child(OpenedGroup& group, WorkId under_way) {
  Communicator& communicator = *group.communicator;
  float value = 1;
  if (!communicator.is_in_child()) return 2;
  if (!is_told(communicator.all_reduce({.input = &value, .output = &value, .count = 1}))) return 3;
  if (!is_told(communicator.progress())) return 4;
  if (!is_told(communicator.wait(under_way))) return 5;
  if (!communicator.failure() || communicator.failure()->rank) return 6;
  communicator.abort("the child wants to");
  communicator.forget_memory();
  communicator.sleep(std::chrono::hours(1));
  communicator.close();
  group = {};
  return 0;
}

void expect_right(Communicator& communicator, std::uint64_t count) {
  const CallCase one{.ranks = communicator.ranks(), .count = count};
  RankBuffers buffers(one, communicator.rank());
  const Status status = communicator.run(buffers.call());
  communicator.forget_memory();
  ASSERT_TRUE(status.ok()) << status.error().message();
  buffers.expect_right();
}

// Forks in the middle of a call.
void run_rank(std::uint32_t rank, const std::string& provider, Store& store) {
  GroupOptions options;
  options.provider = provider;
  options.open.endpoint.has_guardian = true;
  options.communicator.rank = rank;
  options.communicator.ranks = 2;
  options.communicator.setup_timeout = kPatience;
  options.communicator.stall_timeout = kPatience;
  auto opened = open_group(store, options);
  ASSERT_TRUE(opened.ok()) << opened.error().message();
  OpenedGroup group = std::move(opened).value();
  Communicator& communicator = *group.communicator;
  expect_right(communicator, 1000);
  const CallCase one{.ranks = 2, .count = 100'000};
  RankBuffers buffers(one, rank);
  const Result<WorkId> work = communicator.start(buffers.call());
  ASSERT_TRUE(work.ok());
  if (rank == 0) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(use_in_child(group, work.value()));
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0) << provider;
    EXPECT_FALSE(communicator.is_in_child());
  }
  const Status status = communicator.wait(work.value());
  ASSERT_TRUE(status.ok()) << status.error().message();
  buffers.expect_right();
  expect_right(communicator, 50'000);
  ASSERT_TRUE(communicator.barrier().ok());
  communicator.close();
}

TEST(Fork, TheChildIsRefusedAndTheParentUnharmed) {
  for (const char* provider : {"auto", "udp"}) {
    const auto server = TcpStoreServer::start("127.0.0.1:0");
    ASSERT_TRUE(server.ok());
    std::vector<std::thread> ranks;
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      ranks.emplace_back([&, rank] {
        auto store = TcpStore::connect(server.value()->address(), kPatience);
        ASSERT_TRUE(store.ok());
        run_rank(rank, provider, *store.value());
      });
    }
    for (std::thread& thread : ranks)
      thread.join();
  }
}

}  // namespace
}  // namespace spindrift::collectives
