// collectives/bootstrap: job.cc, served_meeting.cc, unique_id.cc, meeting_file.cc, interfaces.cc,
// pmi1.cc; ranks are threads here. pmix.cc needs its server: launchers_e2e_test.py.
#include "spindrift/bootstrap.h"

#include <array>
#include <barrier>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "collectives/bootstrap/interfaces.h"
#include "collectives/bootstrap/meeting_file.h"
#include "collectives/bootstrap/pmi1.h"
#include "collectives/bootstrap/served_meeting.h"
#include "collectives/bootstrap/socket.h"

namespace spindrift::collectives {
namespace {

constexpr Duration kLong = std::chrono::seconds(20);
constexpr Duration kShort = std::chrono::milliseconds(100);

// Runs `join` for all ranks at once; every rank leaves a word, and sees those of all others.
template <class Options>
void expect_to_meet(std::uint32_t ranks, const Options& options_of) {
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([rank, ranks, &options_of] {
      const auto job = Job::join(options_of(rank));
      ASSERT_TRUE(job.ok()) << job.error().message();
      EXPECT_EQ(job.value()->launch().rank, rank);
      EXPECT_EQ(job.value()->launch().ranks, ranks);
      EXPECT_FALSE(job.value()->host().empty());
      Store& store = job.value()->store();
      ASSERT_TRUE(store.set("word/" + std::to_string(rank), std::to_string(rank * 7)).ok());
      for (std::uint32_t other = 0; other < ranks; ++other) {
        const auto word = store.get("word/" + std::to_string(other), kLong);
        ASSERT_TRUE(word.ok()) << word.error().message();
        EXPECT_EQ(word.value(), std::to_string(other * 7));
      }
      EXPECT_TRUE(job.value()->leave(kLong).ok());
    });
  }
  for (std::thread& thread : threads)
    thread.join();
}

JobOptions member(std::uint32_t rank, std::uint32_t ranks) {
  return {.rank = rank, .ranks = ranks, .timeout = kLong};
}

std::string scratch_file(const std::string& name) {
  return testing::TempDir() + name + std::to_string(::getpid());
}

TEST(Job, RanksMeetByAnIdThatOneOfThemHandsOut) {
  const auto rendezvous = Rendezvous::serve();
  ASSERT_TRUE(rendezvous.ok()) << rendezvous.error().message();
  const UniqueId id = rendezvous.value()->id();
  expect_to_meet(4, [&](std::uint32_t rank) {
    JobOptions options = member(rank, 4);
    options.id = id;
    return options;
  });
}

TEST(Job, AnAllGatherOfTheProgramIsEnough) {
  static constexpr std::uint32_t kRanks = 3;
  std::vector<std::byte> table(kRanks * UniqueId::kBytes);
  std::barrier barrier(kRanks);
  expect_to_meet(kRanks, [&](std::uint32_t rank) {
    JobOptions options = member(rank, kRanks);
    options.all_gather = [&, rank](std::span<const std::byte> own, std::span<std::byte> all) {
      EXPECT_EQ(all.size(), own.size() * kRanks);
      std::memcpy(table.data() + rank * own.size(), own.data(), own.size());
      barrier.arrive_and_wait();
      std::memcpy(all.data(), table.data(), table.size());
      return ok_status();
    };
    return options;
  });
}

TEST(Job, AFileOfAnEarlierJobDoesNotMislead) {
  const std::string path = scratch_file("meeting");
  ASSERT_TRUE(write_meeting_file(path, "spindrift-1/old/127.0.0.1:1").ok());
  expect_to_meet(3, [&](std::uint32_t rank) {
    JobOptions options = member(rank, 3);
    options.rendezvous = "file://" + path;
    return options;
  });
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Job, AMissingRank0IsNamedAfterTheTimeout) {
  JobOptions options = member(2, 3);
  options.rendezvous = "file://" + scratch_file("nobody");
  options.timeout = kShort;
  const auto by_file = Job::join(options);
  ASSERT_FALSE(by_file.ok());
  EXPECT_EQ(by_file.error().code(), ErrorCode::kTimedOut);
  EXPECT_NE(by_file.error().message().find("rank 2 waited 0.1 s for rank 0"), std::string::npos)
      << by_file.error().message();
  options.rendezvous = "127.0.0.1:1";
  const auto by_address = Job::join(options);
  ASSERT_FALSE(by_address.ok());
  EXPECT_NE(by_address.error().message().find("nobody serves the rendezvous at 127.0.0.1:1"),
            std::string::npos)
      << by_address.error().message();
}

TEST(Job, AStrangersStoreOnThePortIsPassedOver) {
  const auto stranger = TcpStoreServer::start("127.0.0.1:0");
  ASSERT_TRUE(stranger.ok());
  const auto served = ServedMeeting::serve("127.0.0.1");
  ASSERT_TRUE(served.ok()) << served.error().message();
  Meeting meeting = served.value()->meeting();
  meeting.addresses.insert(meeting.addresses.begin(), stranger.value()->address());
  EXPECT_TRUE(
      TcpStore::connect(stranger.value()->address(), kLong).value()->set("meeting", "x").ok());
  const auto store = go_to(meeting, monotonic_now() + kLong);
  ASSERT_TRUE(store.ok()) << store.error().message();
  meeting.addresses.pop_back();
  const auto only_stranger = go_to(meeting, monotonic_now() + kLong);
  ASSERT_FALSE(only_stranger.ok());
  EXPECT_NE(only_stranger.error().message().find("belongs to another job"), std::string::npos);
}

TEST(Job, APortInUseIsPassedOverAtRank0Too) {
  const auto taken = TcpStoreServer::start("127.0.0.1:0");
  ASSERT_TRUE(taken.ok());
  const Meeting both{.token = "t", .addresses = {taken.value()->address(), "127.0.0.1:0"}};
  EXPECT_TRUE(ServedMeeting::serve_at(both).ok());
  const Meeting one{.token = "t", .addresses = {taken.value()->address()}};
  const auto refused = ServedMeeting::serve_at(one);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message().find("in use"), std::string::npos);
}

TEST(Job, WhatDoesNotFitTogetherIsRefused) {
  const auto refusal = [](const JobOptions& options) {
    const auto job = Job::join(options);
    return job.ok() ? std::string() : job.error().message();
  };
  JobOptions both = member(0, 1);
  both.rendezvous = "127.0.0.1:0";
  both.id = UniqueId{};
  EXPECT_NE(refusal(both).find("one of"), std::string::npos);
  both.rendezvous.clear();
  EXPECT_NE(refusal(both).find("no identifier of a meeting"), std::string::npos);
  JobOptions beyond = member(2, 2);
  beyond.rendezvous = "127.0.0.1:0";
  EXPECT_NE(refusal(beyond).find("rank 2 of 2"), std::string::npos);
  EXPECT_NE(refusal({.rank = 0}).find("both rank and ranks"), std::string::npos);
}

TEST(UniqueId, HoldsAsManyAddressesAsFit) {
  Meeting meeting{.token = "0123456789abcdef", .addresses = {}};
  for (int i = 0; i < 30; ++i)
    meeting.addresses.push_back("10.0.0." + std::to_string(i) + ":12345");
  const auto back = meeting_from_id(to_id(meeting));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back.value().token, meeting.token);
  EXPECT_GT(back.value().addresses.size(), 3U);
  EXPECT_EQ(back.value().addresses[3], "10.0.0.3:12345");
  EXPECT_EQ(back.value().addresses.back().rfind("10.0.0.", 0), 0U);
}

TEST(OwnAddresses, HoldLoopbackOnlyWhenAsked) {
  for (const NetAddress& address : own_addresses(false))
    EXPECT_FALSE(address.is_loopback()) << address.to_string();
  const std::vector<NetAddress> all = own_addresses(true);
  EXPECT_TRUE(std::any_of(all.begin(), all.end(),
                          [](const NetAddress& address) { return address.is_loopback(); }));
}

// The launcher's end of PMI-1, answering as hydra does.
class FakeHydra final {
 public:
  FakeHydra() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_.data()), 0); }
  ~FakeHydra() {
    ::close(ends_[0]);
    if (thread_.joinable()) thread_.join();
    ::close(ends_[1]);
  }
  int fd() const { return ends_[0]; }
  // The first `misses` look-ups find nothing.
  void serve(int misses) {
    thread_ = std::thread([this, misses]() mutable {
      std::string line;
      char letter = 0;
      while (::read(ends_[1], &letter, 1) == 1) {
        if (letter != '\n') {
          line += letter;
          continue;
        }
        heard.push_back(line);
        std::string reply = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n";
        if (line.starts_with("cmd=publish"))
          reply = "cmd=publish_result info=ok rc=0 msg=success\n";
        if (line.starts_with("cmd=finalize")) reply = "cmd=finalize_ack\n";
        if (line.starts_with("cmd=lookup")) {
          reply = misses-- > 0 ? "cmd=lookup_result rc=1 msg=service_not_found\n"
                               : "cmd=lookup_result port=a/b=c info=ok rc=0 msg=success\n";
        }
        if (::write(ends_[1], reply.data(), reply.size()) < 0) return;
        line.clear();
      }
    });
  }
  void finish() {
    ::shutdown(ends_[0], SHUT_RDWR);
    thread_.join();
  }

  std::vector<std::string> heard;

 private:
  std::array<int, 2> ends_{};
  std::thread thread_;
};

TEST(Pmi1, LooksUpUntilTheNameIsThereAndSaysFarewell) {
  FakeHydra hydra;
  hydra.serve(2);
  {
    auto session = Pmi1Session::start(hydra.fd(), monotonic_now() + kLong);
    ASSERT_TRUE(session.ok()) << session.error().message();
    const auto value = session.value().look_up("name", monotonic_now() + kLong);
    ASSERT_TRUE(value.ok()) << value.error().message();
    EXPECT_EQ(value.value(), "a/b=c");
    EXPECT_TRUE(session.value().publish("name", "x/y", monotonic_now() + kLong).ok());
  }
  hydra.finish();
  ASSERT_EQ(hydra.heard.size(), 6U);
  EXPECT_EQ(hydra.heard[0], "cmd=init pmi_version=1 pmi_subversion=1");
  EXPECT_EQ(hydra.heard[3], "cmd=lookup_name service=name");
  EXPECT_EQ(hydra.heard[4], "cmd=publish_name service=name port=x/y");
  EXPECT_EQ(hydra.heard[5], "cmd=finalize");
}

TEST(Pmi1, ANameNobodyPublishesAndALauncherThatIsGoneAreErrors) {
  FakeHydra hydra;
  hydra.serve(1'000'000);
  {
    auto session = Pmi1Session::start(hydra.fd(), monotonic_now() + kLong);
    ASSERT_TRUE(session.ok());
    const auto nobody = session.value().look_up("name", monotonic_now() + kShort);
    ASSERT_FALSE(nobody.ok());
    EXPECT_EQ(nobody.error().code(), ErrorCode::kTimedOut);
  }
  hydra.finish();
  EXPECT_FALSE(Pmi1Session::start(hydra.fd(), monotonic_now() + kLong).ok());
}

}  // namespace
}  // namespace spindrift::collectives
