// Long lives and many of everything: connections, endpoints and threads come and go, and neither
// memory nor descriptors grow; what runs out is named.
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>

#include "spindrift/open.h"

#include "tests/contract/endpoint_world.h"

namespace spindrift {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;  // its allocator keeps what was freed, and is slow
#else
constexpr bool kIsSanitized = false;
#endif

std::size_t heap_bytes() {
  return kIsSanitized ? 0 : ::mallinfo2().uordblks;
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

std::unique_ptr<EndpointWorld> make_world(const std::string& name) {
  for (const WorldFactory& factory : all_worlds())
    if (factory.name == name) return factory.make();
  return nullptr;
}

// Connections are smaller where there are many.
Pair::Options small_options(std::uint32_t connections) {
  Pair::Options options;
  for (WorldEndpointConfig* end : {&options.a, &options.b}) {
    end->endpoint.max_connections = connections;
    end->endpoint.window_packets = 128;
    end->endpoint.send_queue = 4;
    end->endpoint.receive_queue = 4;
    end->endpoint.max_reads = 4;
    end->endpoint.inline_buffers = 16;
    end->endpoint.completion_queue = 4096;
  }
  options.connect.path_count = 4;
  options.accept.path_count = 4;
  return options;
}

// One connection's whole life: opened, used, closed by the caller, released by both.
void live_once(Pair& pair, const Sge& source, std::uint64_t key) {
  ASSERT_TRUE(pair.open()) << pair.a->last_error(pair.ab);
  ASSERT_TRUE(pair.post_a({.kind = OpKind::kWrite, .local = {&source, 1}, .remote_key = key}));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 1)) << pair.a->last_error(pair.ab);
  ASSERT_EQ(pair.a_done.back().status, OpStatus::kOk);
  pair.a->close(pair.ab);
  ASSERT_TRUE(pair.run_until([&] {
    return has_event(pair.a_events, ConnEvent::Kind::kClosed, pair.ab) &&
           has_event(pair.b_events, ConnEvent::Kind::kClosed, pair.ba);
  }));
  pair.a->release(pair.ab);
  pair.b->release(pair.ba);
  pair.a_done.clear();
  pair.b_done.clear();
}

void expect_no_growth(const std::string& world_name, int lives) {
  constexpr int kWarmUp = 100;
  const auto world = make_world(world_name);
  Pair pair(*world, small_options(16));
  Buffer from(*pair.a, 1000);
  Buffer to(*pair.b, 1000);
  const Sge source = from.all();
  std::size_t bytes = 0;
  std::size_t descriptors = 0;
  for (int i = 0; i < kWarmUp + lives; ++i) {
    live_once(pair, source, to.key());
    if (testing::Test::HasFatalFailure()) return;
    if (i + 1 < kWarmUp) continue;
    if (i + 1 == kWarmUp) {
      bytes = heap_bytes();
      descriptors = open_descriptors();
    }
  }
  EXPECT_LE(heap_bytes(), bytes + 4096);
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(counter(*pair.a, "connections_opened"), static_cast<std::uint64_t>(kWarmUp + lives));
}

TEST(Limits, TenThousandConnectionsInTurnLeaveNothingBehind) {
  expect_no_growth("memory", kIsSanitized ? 500 : 10000);
}

TEST(Limits, ConnectionsOverUdpLeaveNothingBehind) {
  expect_no_growth("udp", 300);
}

TEST(Limits, AThousandConnectionsAtOnceAllCarryTraffic) {
  constexpr std::size_t kCount = 1000;
  const auto world = make_world("memory");
  Pair pair(*world, small_options(kCount));
  Buffer from(*pair.a, 20000);
  Buffer to(*pair.b, 20000);
  from.fill(1);
  const Sge source = from.all();
  std::vector<ConnId> conns;
  for (std::size_t i = 0; i < kCount; ++i) {
    const Pair::Ends ends = pair.open_another(pair.options.connect, pair.options.accept);
    ASSERT_NE(ends.ba.value, 0U) << i << pair.a->last_error(ends.ab);
    conns.push_back(ends.ab);
  }
  for (int round = 0; round < 2; ++round)
    for (const ConnId conn : conns)
      ASSERT_TRUE(pair.post_a(
          {.conn = conn, .kind = OpKind::kWrite, .local = {&source, 1}, .remote_key = to.key()}));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 2 * kCount)) << pair.a_done.size();
  EXPECT_THAT(statuses(pair.a_done), Each(OpStatus::kOk));
  EXPECT_TRUE(to.matches(1, 0, 20000));
  const auto one_more = pair.a->connect(pair.address, pair.options.connect);
  ASSERT_FALSE(one_more.ok());
  EXPECT_THAT(one_more.error().message(),
              AllOf(HasSubstr("all 1000 connections"), HasSubstr("raise")));
}

TEST(Limits, EndpointsMadeAndDestroyedLeaveNothingBehind) {
  std::size_t bytes = 0;
  std::size_t descriptors = 0;
  const auto live = [](bool has_guardian) {
    const auto world = make_world("udp");
    Pair::Options options = small_options(4);
    options.a.endpoint.has_guardian = has_guardian;
    Pair pair(*world, options);
    ASSERT_TRUE(pair.open());  // destroyed while open
  };
  for (int i = 0; i < 60; ++i) {
    live(i % 2 == 0);
    if (i != 20) continue;
    bytes = heap_bytes();
    descriptors = open_descriptors();
  }
  EXPECT_LE(heap_bytes(), bytes + 4096);
  EXPECT_EQ(open_descriptors(), descriptors);
}

// Each thread has its endpoint, as the contract says; they share nothing but the host.
TEST(Limits, EndpointsInTwoThreadsTalkToEachOther) {
  constexpr int kMessages = 500;
  auto server = open_endpoint("udp://127.0.0.1:0").value();
  ASSERT_TRUE(server->listen("udp://").ok());
  const std::string address = server->local_addresses().at(0);
  const auto talk = [](Endpoint& endpoint, ConnId conn) {
    Buffer in(endpoint, 4096);
    Buffer out(endpoint, 4096);
    const Sge to = in.all();
    const Sge from = out.all();
    for (int i = 0; i < kMessages; ++i) {
      const WorkRequest work[] = {{.conn = conn, .kind = OpKind::kReceive, .local = {&to, 1}},
                                  {.conn = conn, .kind = OpKind::kSend, .local = {&from, 1}}};
      ASSERT_EQ(endpoint.post(work).accepted, 2U) << endpoint.last_error(conn);
      for (int done = 0; done < 2; ++done) {
        const auto completion = wait_completion(endpoint, 20s);
        ASSERT_TRUE(completion.ok()) << endpoint.last_error(conn);
        ASSERT_EQ(completion.value().status, OpStatus::kOk);
      }
    }
  };
  std::thread other([&] {
    const auto conn = accept_one(*server, 20s);
    ASSERT_TRUE(conn.ok()) << conn.error().message();
    talk(*server, conn.value());
    // What the other side still waits for is acknowledged by the farewell.
    server->close(conn.value());
    while (server->info(conn.value()).value().state == ConnState::kDraining) {
      server->progress();
      server->wait(1ms);
    }
  });
  auto client = open_endpoint("udp://127.0.0.1:0").value();
  const auto conn = connect_and_wait(*client, address);
  ASSERT_TRUE(conn.ok()) << conn.error().message();
  talk(*client, conn.value());
  while (client->info(conn.value()).value().state == ConnState::kOpen) {
    client->progress();
    client->wait(1ms);
  }
  other.join();
}

TEST(Limits, WithoutDescriptorsItSaysWhichLimitToRaiseAndGoesOnAfterwards) {
  auto server = open_endpoint("udp://127.0.0.1:0").value();
  ASSERT_TRUE(server->listen("udp://").ok());
  const std::string address = server->local_addresses().at(0);
  auto client = open_endpoint("udp://127.0.0.1:0").value();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const std::size_t taken = open_descriptors();
  rlimit low = before;
  low.rlim_cur = taken + 4;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  const auto no_paths = client->connect(address, {.path_count = 256});
  const auto no_endpoint = open_endpoint("udp://127.0.0.1:0");
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(no_paths.ok());
  EXPECT_THAT(no_paths.error().message(),
              AllOf(HasSubstr("RLIMIT_NOFILE"), HasSubstr("ulimit -n")));
  ASSERT_FALSE(no_endpoint.ok());
  EXPECT_THAT(no_endpoint.error().message(), HasSubstr("descriptors"));
  std::thread other([&] { EXPECT_TRUE(accept_one(*server, 10s).ok()); });
  EXPECT_TRUE(connect_and_wait(*client, address).ok());
  other.join();
}

}  // namespace
}  // namespace spindrift
