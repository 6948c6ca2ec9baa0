// collectives/bootstrap: tcp_store.cc, tcp_store_server.cc, socket.cc; and rendezvous.cc on top.
#include <array>
#include <thread>

#include <gtest/gtest.h>

#include "collectives/bootstrap/socket.h"
#include "collectives/bootstrap/store_wire.h"
#include "collectives/bootstrap/tcp_store.h"
#include "collectives/rendezvous.h"

namespace spindrift::collectives {
namespace {

constexpr Duration kLong = std::chrono::seconds(20);
constexpr Duration kShort = std::chrono::milliseconds(30);

class StoreTest : public testing::Test {
 protected:
  std::unique_ptr<TcpStore> client() {
    Result<std::unique_ptr<TcpStore>> store = TcpStore::connect(server_->address(), kLong);
    EXPECT_TRUE(store.ok()) << store.error().message();
    return std::move(store).value();
  }
  // A stranger's connection.
  int stranger() {
    return connect_tcp(parse_net_address(server_->address(), 0).value(), monotonic_now() + kLong)
        .value();
  }
  static bool is_hung_up(int fd) {
    std::array<char, 64> buffer{};
    while (wait_ready(fd, POLLIN, monotonic_now() + kLong)) {
      const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), 0);
      if (got <= 0) return true;
    }
    return false;
  }

  std::unique_ptr<TcpStoreServer> server_ = std::move(TcpStoreServer::start("127.0.0.1:0")).value();
};

TEST_F(StoreTest, ReturnsWhatAnotherClientSet) {
  const auto a = client();
  const auto b = client();
  ASSERT_TRUE(a->set("key", "value").ok());
  EXPECT_EQ(b->get("key", kLong).value(), "value");
  ASSERT_TRUE(b->set("key", "").ok());
  EXPECT_EQ(a->get("key", kLong).value(), "");
}

TEST_F(StoreTest, CarriesEveryByteUpToTheLimitAndRefusesMore) {
  const auto store = client();
  std::string value(Store::kMaxValueBytes, '\0');
  for (std::size_t i = 0; i < value.size(); ++i)
    value[i] = static_cast<char>(i * 7);
  const std::string key(Store::kMaxKeyBytes, 'k');
  ASSERT_TRUE(store->set(key, value).ok());
  EXPECT_EQ(store->get(key, kLong).value(), value);
  EXPECT_FALSE(store->set(key + "k", value).ok());
  EXPECT_FALSE(store->set(key, value + "v").ok());
  EXPECT_FALSE(store->set("", value).ok());
  EXPECT_EQ(store->get(key, kLong).value(), value);
}

TEST_F(StoreTest, GetWaitsForTheKey) {
  std::string got;
  std::thread waiting([&] { got = client()->get("later", kLong).value(); });
  const auto store = client();
  ASSERT_TRUE(store->set("unrelated", "x").ok());
  ASSERT_TRUE(store->set("later", "here").ok());
  waiting.join();
  EXPECT_EQ(got, "here");
}

TEST_F(StoreTest, GetGivesUpAfterItsTimeoutAndNamesTheKey) {
  const auto store = client();
  const Result<std::string> missing = store->get("nobody", kShort);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code(), ErrorCode::kTimedOut);
  EXPECT_NE(missing.error().message().find("nobody"), std::string::npos);
  // The answer to the abandoned question must not be taken for a later one.
  ASSERT_TRUE(store->set("nobody", "late").ok());
  ASSERT_TRUE(store->set("other", "right").ok());
  EXPECT_EQ(store->get("other", kLong).value(), "right");
}

TEST_F(StoreTest, AddsFromManyThreadsLoseNothing) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      const auto store = client();
      for (int n = 0; n < 50; ++n)
        ASSERT_TRUE(store->add("sum", 2).ok());
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(client()->add("sum", -1).value(), 4 * 50 * 2 - 1);
}

TEST_F(StoreTest, AddRefusesAKeyThatIsNoNumber) {
  const auto store = client();
  ASSERT_TRUE(store->set("word", "seven").ok());
  EXPECT_FALSE(store->add("word", 1).ok());
  EXPECT_EQ(store->get("word", kLong).value(), "seven");
}

TEST_F(StoreTest, HangsUpOnGarbageAndServesOthersOn) {
  const auto store = client();
  ASSERT_TRUE(store->set("key", "value").ok());
  const std::vector<std::string> garbage = {
      "GET / HTTP/1.1\r\nHost: x\r\n\r\n", std::string(100, '\0'), std::string(5000, '\xff'),
      // The right magic, an operation that is none; a value that is longer than any may be.
      std::string("SPST\x09\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0k", 21),
      std::string("SPST\x01\0\0\x01\xff\xff\xff\xff\0\0\0\0\0\0\0\0k", 21)};
  for (const std::string& bytes : garbage) {
    const int fd = stranger();
    ASSERT_GT(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
    EXPECT_TRUE(is_hung_up(fd));
    ::close(fd);
  }
  EXPECT_EQ(store->get("key", kLong).value(), "value");
}

TEST_F(StoreTest, RequestsMayComeInPieces) {
  const std::string request("SPST\x01\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0\0kv", 22);
  const int fd = stranger();
  for (const char& byte : request)
    ASSERT_EQ(::send(fd, &byte, 1, MSG_NOSIGNAL), 1);
  EXPECT_EQ(client()->get("k", kLong).value(), "v");
  ::close(fd);
}

TEST_F(StoreTest, SilentStrangersGiveWayToRanks) {
  const auto store = client();
  ASSERT_TRUE(store->set("key", "value").ok());
  std::vector<int> strangers;
  for (int i = 0; i < 600; ++i)
    strangers.push_back(stranger());
  EXPECT_EQ(client()->get("key", kLong).value(), "value");
  EXPECT_EQ(store->get("key", kLong).value(), "value");
  for (const int fd : strangers)
    ::close(fd);
}

TEST_F(StoreTest, ClientsAreToldWhenTheServerIsGone) {
  const auto store = client();
  const std::string address = server_->address();
  server_.reset();
  EXPECT_FALSE(store->set("key", "value").ok());
  const auto nobody = TcpStore::connect(address, kShort);
  ASSERT_FALSE(nobody.ok());
  EXPECT_EQ(nobody.error().code(), ErrorCode::kTimedOut);
  EXPECT_NE(nobody.error().message().find(address), std::string::npos);
}

TEST_F(StoreTest, RefusesAnAddressWithoutPortAtOnce) {
  const auto store = TcpStore::connect("127.0.0.1", kLong);
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.error().code(), ErrorCode::kInvalidArgument);
}

TEST_F(StoreTest, ServingABusyPortIsRefusedWithTheAddress) {
  const auto second = TcpStoreServer::start(server_->address());
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message().find(server_->address()), std::string::npos);
}

using Rendezvous = StoreTest;

CommunicatorOptions group(std::uint32_t rank, std::uint32_t ranks, Duration timeout) {
  CommunicatorOptions options;
  options.rank = rank;
  options.ranks = ranks;
  options.setup_timeout = timeout;
  return options;
}

TEST_F(Rendezvous, EveryRankLearnsEveryAddressAndTheNonce) {
  std::array<Roster, 3> rosters;
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      const auto store = client();
      rosters[rank] = meet(*store, group(rank, 3, kLong),
                           {.address = "udp://10.0.0." + std::to_string(rank),
                            .same_host_address = rank == 1 ? "" : "shm://" + std::to_string(rank),
                            .host = rank == 2 ? 7U : 9U,
                            .costs = "costs of " + std::to_string(rank)})
                          .value();
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  for (const Roster& roster : rosters) {
    EXPECT_EQ(roster.nonce, rosters[0].nonce);
    ASSERT_EQ(roster.seats.size(), 3U);
    for (std::uint32_t rank = 0; rank < 3; ++rank)
      EXPECT_EQ(roster.seats[rank].address, "udp://10.0.0." + std::to_string(rank));
    EXPECT_EQ(roster.seats[1].same_host_address, "");
    EXPECT_EQ(roster.seats[2].same_host_address, "shm://2");
    EXPECT_EQ(roster.seats[0].costs, "costs of 0");
    EXPECT_EQ(roster.hosts(), (std::vector<std::uint32_t>{0, 0, 1}));
  }
}

TEST_F(Rendezvous, NamesTheRanksThatDidNotAppear) {
  std::string of_zero;
  std::thread zero([&] {
    of_zero = meet(*client(), group(0, 4, kShort), {.address = "udp://a"}).error().message();
  });
  const Result<Roster> roster = meet(*client(), group(2, 4, kShort), {.address = "udp://c"});
  zero.join();
  ASSERT_FALSE(roster.ok());
  EXPECT_NE(of_zero.find("ranks 1, 3 of 4"), std::string::npos) << of_zero;
}

TEST_F(Rendezvous, RefusesASecondProcessOfTheSameRank) {
  (void)meet(*client(), group(1, 2, kShort), {.address = "udp://a"});
  const Result<Roster> second = meet(*client(), group(1, 2, kShort), {.address = "udp://b"});
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message().find("rank 1 is taken"), std::string::npos);
}

}  // namespace
}  // namespace spindrift::collectives
