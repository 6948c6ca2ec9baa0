// Sleeping and waking: the endpoint's descriptor set, the blocking helpers, who this host is.
#include <cstdlib>

#include <gtest/gtest.h>
#include <unistd.h>

#include "spindrift/open.h"

#include "transport/base/host_identity.h"
#include "transport/endpoint_waiter.h"

namespace spindrift {
namespace {

using std::chrono::milliseconds;

TEST(EndpointWaiter, WakesForAProviderDescriptor) {
  int ends[2] = {};
  ASSERT_EQ(::pipe(ends), 0);
  EndpointWaiter waiter;
  ASSERT_TRUE(waiter.watch({ends[0]}).ok());
  EXPECT_FALSE(waiter.sleep(Duration{}));
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  EXPECT_TRUE(waiter.sleep(std::chrono::seconds(10)));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(EndpointWaiter, WakesAtItsDeadlineAndNotBeforeAfterDrain) {
  EndpointWaiter waiter;
  ASSERT_TRUE(waiter.watch({}).ok());
  const Time now{std::chrono::seconds(5)};
  waiter.set_deadline(now + milliseconds(1), now);
  EXPECT_TRUE(waiter.sleep(std::chrono::seconds(10)));
  waiter.drain();
  waiter.set_deadline(kNever, now);
  EXPECT_FALSE(waiter.sleep(Duration{}));
}

TEST(EndpointWaiter, WakeStaysUntilDrained) {
  EndpointWaiter waiter;
  ASSERT_TRUE(waiter.watch({}).ok());
  waiter.wake();
  EXPECT_TRUE(waiter.sleep(Duration{}));
  EXPECT_TRUE(waiter.sleep(Duration{}));
  waiter.drain();
  EXPECT_FALSE(waiter.sleep(Duration{}));
}

TEST(HostIdentity, IsStableAndFollowsTheEnvironment) {
  const std::uint64_t own = host_identity("");
  EXPECT_EQ(own, host_identity(""));
  ::setenv("SPINDRIFT_HOST_ID", "another", 1);  // NOLINT(concurrency-mt-unsafe): one thread
  EXPECT_NE(own, host_identity(""));
  ::unsetenv("SPINDRIFT_HOST_ID");  // NOLINT(concurrency-mt-unsafe): one thread
  EXPECT_EQ(own, host_identity(""));
}

TEST(Blocking, WaitsEndWithASentenceThatSaysWhatDidNotCome) {
  auto endpoint = open_endpoint("udp://127.0.0.1:0");
  ASSERT_TRUE(endpoint.ok());
  const auto completion = wait_completion(*endpoint.value(), milliseconds(2));
  ASSERT_FALSE(completion.ok());
  EXPECT_EQ(completion.error().code(), ErrorCode::kTimedOut);
  EXPECT_EQ(completion.error().message(), "no completion within 2.0 ms");
  const auto event = wait_event(*endpoint.value(), milliseconds(2));
  ASSERT_FALSE(event.ok());
  EXPECT_EQ(event.error().message(), "no connection event within 2.0 ms");
  const auto accepted = accept_one(*endpoint.value(), milliseconds(2));
  ASSERT_FALSE(accepted.ok());
  EXPECT_EQ(accepted.error().message(), "nobody connected within 2.0 ms");
}

TEST(Blocking, ConnectAndWaitTellsWhyItFailed) {
  auto endpoint = open_endpoint("udp://127.0.0.1:0");
  ASSERT_TRUE(endpoint.ok());
  ConnectOptions options;
  options.connect_timeout = milliseconds(300);
  const auto conn = connect_and_wait(*endpoint.value(), "udp://127.0.0.1:9", options);
  ASSERT_FALSE(conn.ok());
  EXPECT_NE(conn.error().message().find("127.0.0.1:9"), std::string::npos)
      << conn.error().message();
}

TEST(Blocking, WhatDidNotOpenLeavesNoSlotTaken) {
  auto endpoint = open_endpoint("udp://127.0.0.1:0", {.endpoint = {.max_connections = 1}});
  ASSERT_TRUE(endpoint.ok());
  const ConnectOptions options{.connect_timeout = milliseconds(50)};
  for (int i = 0; i < 3; ++i) {
    const auto conn = connect_and_wait(*endpoint.value(), "udp://127.0.0.1:9", options);
    ASSERT_FALSE(conn.ok());
    EXPECT_NE(conn.error().message().find("127.0.0.1:9"), std::string::npos)
        << conn.error().message();
  }
}

TEST(Blocking, AcceptOneLeavesTheEventsOfOthers) {
  auto server = open_endpoint("udp://127.0.0.1:0");
  auto client = open_endpoint("udp://127.0.0.1:0", {.endpoint = {.has_guardian = true}});
  ASSERT_TRUE(server.ok() && client.ok());
  Endpoint& endpoint = *server.value();
  ASSERT_TRUE(endpoint.listen("udp://127.0.0.1:0").ok());
  const auto other = endpoint.connect("udp://127.0.0.1:9", {.connect_timeout = milliseconds(50)});
  ASSERT_TRUE(other.ok());
  while (endpoint.info(other.value()).value().state == ConnState::kConnecting)
    endpoint.progress();
  ASSERT_TRUE(client.value()->connect(endpoint.local_addresses().at(0)).ok());
  const auto accepted = accept_one(endpoint, std::chrono::seconds(10));
  ASSERT_TRUE(accepted.ok()) << accepted.error().message();
  ConnEvent event;
  ASSERT_EQ(endpoint.poll_events(std::span(&event, 1)), 1U);
  EXPECT_EQ(event.kind, ConnEvent::Kind::kFailed);
  EXPECT_EQ(event.conn, other.value());
}

}  // namespace
}  // namespace spindrift
