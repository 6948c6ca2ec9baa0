// Which provider carries what between ranks (plugins/open_group.cc, collectives/links_setup.cc): by
// itself, when told, and where shared memory does not come to a connection. Ranks are threads, each
// with endpoints of its own.
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "spindrift/open.h"

#include "collectives/bootstrap/tcp_store.h"
#include "tests/collectives/call_case.h"

namespace spindrift::collectives {
namespace {

constexpr Duration kPatience = std::chrono::seconds(30);

// What a rank sees in the store may be changed on the way: what another one left there.
class ForgingStore final : public Store {
 public:
  ForgingStore(Store& store, std::function<std::string(std::string_view, std::string)> forge)
      : store_(store), forge_(std::move(forge)) {}
  Status set(std::string_view key, std::string_view value) override {
    return store_.set(key, value);
  }
  Result<std::string> get(std::string_view key, Duration timeout) override {
    Result<std::string> value = store_.get(key, timeout);
    return value.ok() && forge_ ? Result<std::string>(forge_(key, value.value())) : value;
  }
  Result<std::int64_t> add(std::string_view key, std::int64_t amount) override {
    return store_.add(key, amount);
  }

 private:
  Store& store_;
  std::function<std::string(std::string_view, std::string)> forge_;
};

struct GroupCase {
  std::uint32_t ranks = 2;
  std::uint32_t ranks_per_host = 0;  // 0: all share a host
  std::string provider = "auto";
  std::function<std::string(std::string_view, std::string)> forge{};
};

struct Outcome {
  std::string error;  // why there is no group
  std::vector<std::string> notes;
  std::string routes;  // scheme by rank, "-" for the own one: "-ssuu"
  bool has_link_notes = false;
};

void expect_right(Communicator& communicator) {
  for (const Collective collective : all_collectives()) {
    if (collective == Collective::kSendReceive || collective == Collective::kBarrier) continue;
    for (const std::uint64_t count : {3ULL, 40001ULL}) {
      const CallCase one{.collective = collective, .ranks = communicator.ranks(), .count = count};
      RankBuffers buffers(one, communicator.rank());
      const Status status = communicator.run(buffers.call());
      communicator.forget_memory();
      ASSERT_TRUE(status.ok()) << one << ": " << status.error().message();
      buffers.expect_right();
    }
  }
}

Outcome run_rank(const GroupCase& group, std::uint32_t rank, Store& store) {
  ForgingStore seen(store, group.forge);
  Outcome outcome;
  GroupOptions options;
  options.provider = group.provider;
  options.open.endpoint.has_guardian = true;
  CommunicatorOptions& own = options.communicator;
  own.rank = rank;
  own.ranks = group.ranks;
  own.slice_bytes = 16384;
  own.setup_timeout = kPatience;
  own.stall_timeout = kPatience;
  own.host_id = std::to_string(group.ranks_per_host > 0 ? rank / group.ranks_per_host : 0);
  own.on_note = [&](const std::string& note) { outcome.notes.push_back(note); };
  auto opened = open_group(seen, options);
  if (!opened.ok()) {
    outcome.error = opened.error().message();
    return outcome;
  }
  Communicator& communicator = *opened.value().communicator;
  expect_right(communicator);
  std::uint32_t next = 0;
  for (const RankLink& link : communicator.links()) {
    if (next++ == rank) outcome.routes += "-", ++next;
    EXPECT_EQ(link.rank, next - 1);
    EXPECT_TRUE(link.is_open) << rank << " to " << link.rank;
    outcome.routes += link.address.front();
    outcome.has_link_notes = outcome.has_link_notes || !link.note.empty();
  }
  if (rank + 1 == group.ranks) outcome.routes += "-";
  communicator.close();
  return outcome;
}

std::vector<Outcome> run_group(const GroupCase& group) {
  const auto server = TcpStoreServer::start("127.0.0.1:0");
  EXPECT_TRUE(server.ok());
  std::vector<Outcome> outcomes(group.ranks);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < group.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto store = TcpStore::connect(server.value()->address(), kPatience);
      ASSERT_TRUE(store.ok()) << store.error().message();
      outcomes[rank] = run_rank(group, rank, *store.value());
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  return outcomes;
}

void expect_routes(const GroupCase& group, const std::vector<std::string>& routes) {
  const std::vector<Outcome> outcomes = run_group(group);
  for (std::uint32_t rank = 0; rank < group.ranks; ++rank) {
    EXPECT_EQ(outcomes[rank].error, "");
    EXPECT_EQ(outcomes[rank].routes, routes[rank]);
    EXPECT_TRUE(outcomes[rank].notes.empty()) << outcomes[rank].notes.front();
  }
}

TEST(ProviderChoice, RanksOfOneHostShareMemoryWithoutBeingTold) {
  expect_routes({.ranks = 3}, {"-ss", "s-s", "ss-"});
}

TEST(ProviderChoice, RanksOfTwoHostsShareMemoryInsideAndTheNetworkBetween) {
  expect_routes({.ranks = 4, .ranks_per_host = 2}, {"-suu", "s-uu", "uu-s", "uus-"});
}

TEST(ProviderChoice, ANamedProviderCarriesEverything) {
  expect_routes({.ranks = 3, .provider = "udp"}, {"-uu", "u-u", "uu-"});
  expect_routes({.ranks = 3, .provider = "shm"}, {"-ss", "s-s", "ss-"});
}

TEST(ProviderChoice, TheEnvironmentNamesItWhereTheProgramDoesNot) {
  ASSERT_EQ(::setenv("SPINDRIFT_PROVIDER", "udp", 1), 0);
  expect_routes({.ranks = 2, .provider = ""}, {"-u", "u-"});
  expect_routes({.ranks = 2, .provider = "auto"}, {"-s", "s-"});
  ASSERT_EQ(::unsetenv("SPINDRIFT_PROVIDER"), 0);
  expect_routes({.ranks = 2, .provider = ""}, {"-s", "s-"});
}

TEST(ProviderChoice, SharedMemoryAloneIsRefusedBetweenHosts) {
  for (const Outcome& outcome : run_group({.ranks = 2, .ranks_per_host = 1, .provider = "shm"})) {
    EXPECT_NE(outcome.error.find("is on another host"), std::string::npos) << outcome.error;
    EXPECT_NE(outcome.error.find("auto"), std::string::npos) << outcome.error;
  }
}

TEST(ProviderChoice, UnknownNamesAndAddressesOfOthersAreRefused) {
  const auto server = TcpStoreServer::start("127.0.0.1:0");
  auto store = TcpStore::connect(server.value()->address(), kPatience);
  GroupOptions options{.provider = "tcp"};
  EXPECT_NE(open_group(*store.value(), options).error().message().find("tcp"), std::string::npos);
  options.provider = "udp";
  options.communicator.address = "shm://x";
  EXPECT_NE(open_group(*store.value(), options).error().message().find("does not go with"),
            std::string::npos);
}

// As in containers that do not see one another's sockets.
TEST(ProviderChoice, WhatSharedMemoryDoesNotConnectTheNetworkDoesAndOneNoteSaysSo) {
  const auto forge = [](std::string_view key, std::string value) {
    const std::size_t at = value.find("\nshm://");
    if (key.find("/address/") != std::string_view::npos && at != std::string::npos)
      value.insert(at + 7, "nowhere-");
    return value;
  };
  const std::vector<Outcome> outcomes = run_group({.ranks = 3, .forge = forge});
  const std::vector<std::string> routes{"-uu", "u-u", "uu-"};
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    EXPECT_EQ(outcomes[rank].error, "");
    EXPECT_EQ(outcomes[rank].routes, routes[rank]);
    EXPECT_TRUE(outcomes[rank].has_link_notes);
    EXPECT_EQ(outcomes[rank].notes.size(), rank == 2 ? 0U : 1U) << "the lower rank calls";
  }
  EXPECT_NE(outcomes[1].notes[0].find("not over shared memory"), std::string::npos);
  EXPECT_NE(outcomes[0].notes[0].find("spindrift.nowhere-"), std::string::npos)
      << outcomes[0].notes[0];
}

TEST(ProviderChoice, OneRankThatIsToldTheNetworkIsReachedByItAlone) {
  const auto server = TcpStoreServer::start("127.0.0.1:0");
  std::vector<Outcome> outcomes(3);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      auto store = TcpStore::connect(server.value()->address(), kPatience);
      ASSERT_TRUE(store.ok());
      outcomes[rank] =
          run_rank({.ranks = 3, .provider = rank == 1 ? "udp" : "auto"}, rank, *store.value());
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(outcomes[0].routes, "-us");
  EXPECT_EQ(outcomes[1].routes, "u-u");
  EXPECT_EQ(outcomes[2].routes, "su-");
}

}  // namespace
}  // namespace spindrift::collectives
