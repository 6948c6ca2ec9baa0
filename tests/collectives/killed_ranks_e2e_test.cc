// Ranks as processes, of which one is killed in the middle of its work: all others name it, and go
// on without it.
#include <array>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spindrift/open.h"

#include "collectives/bootstrap/tcp_store.h"
#include "tests/collectives/call_case.h"
#include "transport/base/rng.h"

namespace spindrift::collectives {
namespace {

constexpr Duration kPatience = std::chrono::seconds(20);
// Exit code of a rank: this plus the rank that it says has failed.
constexpr int kNamed = 100;
constexpr int kWrong = 1;

struct Setting {
  std::uint32_t ranks = 3;
  std::uint64_t seed = 1;
  std::string provider = "udp";
  std::string faults{};
  std::uint32_t ranks_per_host = 0;  // 0: all on one
  std::string algorithm{};
};

// Calls of all kinds, the same at all ranks, until one fails.
Status work_until_failure(Communicator& communicator, std::uint64_t seed) {
  Rng rng(seed);
  for (std::uint64_t i = 0;; ++i) {
    const std::array collectives{Collective::kAllReduce, Collective::kAllGather,
                                 Collective::kAllToAll, Collective::kBroadcast};
    const CallCase one{.collective = collectives[rng.below(collectives.size())],
                       .ranks = communicator.ranks(),
                       .count = rng.below(2) == 0 ? rng.below(500) : rng.below(200000),
                       .seed = i};
    RankBuffers buffers(one, communicator.rank());
    const Status status = communicator.run(buffers.call());
    communicator.forget_memory();
    if (!status.ok()) return status;
  }
}

bool is_right(Communicator& communicator) {
  const CallCase one{.ranks = communicator.ranks(), .count = 30000};
  RankBuffers buffers(one, communicator.rank());
  if (!communicator.run(buffers.call()).ok()) return false;
  buffers.expect_right();
  return !testing::Test::HasFailure() && communicator.barrier().ok();
}

// What the ranks and the one that starts them tell each other.
struct Pipe {
  int read_end = -1;
  int write_end = -1;
};
Pipe make_pipe() {
  std::array<int, 2> ends{-1, -1};
  EXPECT_EQ(::pipe(ends.data()), 0);
  return {.read_end = ends[0], .write_end = ends[1]};
}

int rank_main(const Setting& setting, std::uint32_t rank, const std::string& store_address,
              int works) {
  auto store = TcpStore::connect(store_address, kPatience);
  if (!store.ok()) {
    std::fprintf(stderr, "rank %u: %s\n", rank, store.error().message().c_str());
    return kWrong;
  }
  GroupOptions options;
  options.provider = setting.provider;
  options.open.faults = setting.faults;
  options.communicator.rank = rank;
  options.communicator.ranks = setting.ranks;
  options.communicator.setup_timeout = kPatience;
  options.communicator.stall_timeout = kPatience;
  options.communicator.algorithm = setting.algorithm;
  if (setting.ranks_per_host > 0)
    options.communicator.host_id = std::to_string(rank / setting.ranks_per_host);
  auto opened = open_group(*store.value(), options);
  if (!opened.ok()) {
    std::fprintf(stderr, "rank %u: %s\n", rank, opened.error().message().c_str());
    return kWrong;
  }
  Communicator& world = *opened.value().communicator;
  if (!world.barrier().ok() || ::write(works, "w", 1) != 1) return kWrong;
  const Status status = work_until_failure(world, setting.seed);
  const std::string& message = status.error().message();
  if (!world.failure() || !world.failure()->rank) {
    std::fprintf(stderr, "rank %u does not know who has failed: %s\n", rank, message.c_str());
    return kWrong;
  }
  const std::uint32_t failed = *world.failure()->rank;
  const bool has_udp = setting.provider == "udp" || setting.ranks_per_host > 0;
  const bool has_address =
      (has_udp && message.find("udp://127.0.0.1:") != std::string::npos) ||
      (setting.provider != "udp" && message.find("shm://") != std::string::npos);
  if (message.find("rank " + std::to_string(failed)) == std::string::npos || !has_address) {
    std::fprintf(stderr, "rank %u: %s\n", rank, message.c_str());
    return kWrong;
  }
  std::vector<std::uint32_t> survivors;
  for (std::uint32_t one = 0; one < setting.ranks; ++one)
    if (one != failed) survivors.push_back(one);
  auto rest = world.shrink(*store.value(), survivors);
  if (!rest.ok()) {
    std::fprintf(stderr, "rank %u: %s\n", rank, rest.error().message().c_str());
    return kWrong;
  }
  return is_right(*rest.value()) ? kNamed + static_cast<int>(failed) : kWrong;
}

// The address of the store comes through a pipe, since the children are there before it is. Each
// writes a byte to `works` once it is a member of the group.
pid_t start_rank(const Setting& setting, std::uint32_t rank, Pipe& address, const Pipe& works) {
  address = make_pipe();
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(address.write_end);
    ::close(works.read_end);
    std::array<char, 64> text{};
    const ssize_t length = ::read(address.read_end, text.data(), text.size());
    if (length <= 0) ::_exit(kWrong);
    ::_exit(rank_main(setting, rank, std::string(text.data(), static_cast<std::size_t>(length)),
                      works.write_end));
  }
  ::close(address.read_end);
  return child;
}

// False: a rank ended before all of them worked.
bool wait_until_all_work(const Setting& setting, const Pipe& works) {
  ::close(works.write_end);
  std::uint32_t working = 0;
  std::array<char, 8> bytes{};
  while (working < setting.ranks) {
    const ssize_t count = ::read(works.read_end, bytes.data(), bytes.size());
    if (count <= 0) break;
    working += static_cast<std::uint32_t>(count);
  }
  ::close(works.read_end);
  return working == setting.ranks;
}

void kill_one_of(const Setting& setting) {
  Rng rng(setting.seed);
  std::vector<pid_t> children;
  std::vector<Pipe> pipes(setting.ranks);
  const Pipe works = make_pipe();
  for (std::uint32_t rank = 0; rank < setting.ranks; ++rank)
    children.push_back(start_rank(setting, rank, pipes[rank], works));
  const auto server = TcpStoreServer::start("127.0.0.1:0");
  ASSERT_TRUE(server.ok());
  for (const Pipe& pipe : pipes) {
    const std::string& address = server.value()->address();
    ASSERT_EQ(::write(pipe.write_end, address.data(), address.size()),
              static_cast<ssize_t>(address.size()));
    ::close(pipe.write_end);
  }
  EXPECT_TRUE(wait_until_all_work(setting, works)) << "seed " << setting.seed;
  const auto victim = static_cast<std::uint32_t>(rng.below(setting.ranks));
  std::this_thread::sleep_for(std::chrono::milliseconds(rng.below(400)));
  ::kill(children[victim], SIGKILL);
  for (std::uint32_t rank = 0; rank < setting.ranks; ++rank) {
    int status = 0;
    ASSERT_EQ(::waitpid(children[rank], &status, 0), children[rank]);
    if (rank == victim) continue;
    ASSERT_TRUE(WIFEXITED(status)) << "rank " << rank << ", seed " << setting.seed;
    EXPECT_EQ(WEXITSTATUS(status), kNamed + static_cast<int>(victim))
        << "rank " << rank << ", seed " << setting.seed;
  }
}

// At random points of random work.
void kill_in_groups_of_all_sizes(const std::string& provider, const std::string& faults) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    kill_one_of({.ranks = static_cast<std::uint32_t>(2 + seed % 4),
                 .seed = seed,
                 .provider = provider,
                 .faults = faults});
    if (testing::Test::HasFailure()) return;
  }
}

TEST(KilledRanksE2e, AreNamedByAllOthersWhichGoOnWithoutThem) {
  kill_in_groups_of_all_sizes("udp", "");
}

TEST(KilledRanksE2e, AreNamedWhile1PercentOfThePacketsIsLost) {
  kill_in_groups_of_all_sizes("udp", "loss=1%");
}

TEST(KilledRanksE2e, AreNamedWhereRanksShareMemory) {
  kill_in_groups_of_all_sizes("auto", "");
}

TEST(KilledRanksE2e, AreNamedWhereSomeShareMemoryAndOthersAreOnAnotherHost) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    kill_one_of({.ranks = static_cast<std::uint32_t>(4 + seed % 2),
                 .seed = seed,
                 .provider = "auto",
                 .ranks_per_host = 2,
                 .algorithm = "hierarchical"});
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace spindrift::collectives
