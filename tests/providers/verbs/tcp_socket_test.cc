// The sockets by which two sides find each other.
#include "providers/verbs/tcp_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

namespace spindrift {
namespace {

void wait_for(int fd, short what) {
  pollfd waiting{.fd = fd, .events = what, .revents = 0};
  ASSERT_EQ(::poll(&waiting, 1, 5000), 1);
}

TEST(TcpSocketTest, WhatIsSaidArrivesBeforeTheEnd) {
  NetAddress address = parse_net_address("127.0.0.1:0", 0).value();
  const auto listener = listen_tcp(address);
  ASSERT_TRUE(listener.ok()) << listener.error().message();
  EXPECT_NE(address.port, 0);
  auto dialed = dial_tcp(address);
  ASSERT_TRUE(dialed.ok());
  wait_for(dialed.value().get(), POLLOUT);
  EXPECT_EQ(dial_error(dialed.value().get()), 0);
  wait_for(listener.value().get(), POLLIN);
  const TcpCaller caller = accept_tcp(listener.value().get());
  ASSERT_TRUE(caller.socket.is_open());
  EXPECT_TRUE(caller.from.is_same_host(address));
  EXPECT_TRUE(local_address(caller.socket.get()).is_same_host(address));
  EXPECT_FALSE(accept_tcp(listener.value().get()).socket.is_open());
  std::vector<std::byte> heard;
  EXPECT_EQ(receive_tcp(caller.socket.get(), heard), TcpGot::kNothing);
  const std::vector<std::byte> words(5000, std::byte{7});
  ASSERT_TRUE(send_tcp(dialed.value().get(), words));
  dialed.value() = UniqueFd();
  while (heard.size() < words.size()) {
    wait_for(caller.socket.get(), POLLIN);
    ASSERT_EQ(receive_tcp(caller.socket.get(), heard), TcpGot::kBytes);
  }
  EXPECT_EQ(heard, words);
  wait_for(caller.socket.get(), POLLIN);
  EXPECT_EQ(receive_tcp(caller.socket.get(), heard), TcpGot::kEnd);
  EXPECT_FALSE(send_tcp(caller.socket.get(), words) && send_tcp(caller.socket.get(), words) &&
               send_tcp(caller.socket.get(), words))
      << "there is nobody to hear it";
}

TEST(TcpSocketTest, BusyPortsAndForeignAddressesAreNamed) {
  NetAddress address = parse_net_address("127.0.0.1:0", 0).value();
  const auto listener = listen_tcp(address);
  ASSERT_TRUE(listener.ok());
  NetAddress again = address;
  const auto second = listen_tcp(again);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(second.error().message(), testing::HasSubstr(address.to_string()));
  NetAddress foreign = parse_net_address("192.0.2.1:0", 0).value();
  const auto third = listen_tcp(foreign);
  ASSERT_FALSE(third.ok());
  EXPECT_THAT(third.error().message(), testing::HasSubstr("no address of this host"));
}

TEST(TcpSocketTest, NobodyThereIsHeardOf) {
  NetAddress address = parse_net_address("127.0.0.1:0", 0).value();
  { ASSERT_TRUE(listen_tcp(address).ok()); }
  const auto dialed = dial_tcp(address);
  if (!dialed.ok()) return;  // refused at once
  wait_for(dialed.value().get(), POLLOUT);
  EXPECT_EQ(dial_error(dialed.value().get()), ECONNREFUSED);
}

}  // namespace
}  // namespace spindrift
