// The TCP connection over which two endpoints of libfabric meet.
#include "providers/libfabric/ofi_greeting.h"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

namespace spindrift {
namespace {

constexpr int kPatienceMs = 10000;

void await(int fd, short events) {
  pollfd one{.fd = fd, .events = events, .revents = 0};
  ASSERT_EQ(::poll(&one, 1, kPatienceMs), 1);
}

struct Meeting {
  Meeting() {
    const NetAddress any = parse_net_address("127.0.0.1:0", 0).value();
    listener = std::move(listen_tcp(any).value());
    caller = OfiTalk(std::move(connect_tcp(bound_address(listener.get())).value()));
    await(caller.fd(), POLLOUT);
    await(listener.get(), POLLIN);
    called = OfiTalk(accept_tcp(listener.get()));
  }
  UniqueFd listener;
  OfiTalk caller;
  OfiTalk called;
};

OfiTalk::Got next(OfiTalk& talk, OfiGreeting& out) {
  for (;;) {
    const OfiTalk::Got got = talk.receive(out);
    if (got != OfiTalk::Got::kNothing) return got;
    await(talk.fd(), POLLIN);
  }
}

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

TEST(OfiGreeting, ArrivesWholeAndInOrder) {
  Meeting meeting;
  ASSERT_TRUE(meeting.caller.finish_connecting().ok());
  EXPECT_EQ(meeting.caller.peer(), bound_address(meeting.listener.get()));
  OfiGreeting call;
  call.connection = 7;
  call.set_provider("tcp;ofi_rxm");
  call.rails = 2;
  call.rail[1].set_address(bytes_of("an address"));
  call.set_hello(bytes_of("who"));
  meeting.caller.send(call);
  call.kind = OfiGreetingKind::kFarewell;
  call.messages_sent = 99;
  meeting.caller.send(call);
  OfiGreeting got;
  ASSERT_EQ(next(meeting.called, got), OfiTalk::Got::kGreeting);
  EXPECT_EQ(got.kind, OfiGreetingKind::kCall);
  EXPECT_EQ(got.connection, 7U);
  EXPECT_STREQ(got.provider.data(), "tcp;ofi_rxm");
  EXPECT_EQ(got.rails, 2);
  EXPECT_TRUE(std::ranges::equal(got.rail[1].address_span(), bytes_of("an address")));
  EXPECT_TRUE(std::ranges::equal(got.hello_span(), bytes_of("who")));
  ASSERT_EQ(next(meeting.called, got), OfiTalk::Got::kGreeting);
  EXPECT_EQ(got.messages_sent, 99U);
  meeting.caller.close();
  EXPECT_EQ(next(meeting.called, got), OfiTalk::Got::kEnd);
  EXPECT_EQ(meeting.called.trouble(), "");
}

TEST(OfiGreeting, ThatNoVersionSaysIsNonsense) {
  const auto damage = [](auto change) {
    Meeting meeting;
    OfiGreeting call;
    change(call);
    meeting.caller.send(call);
    OfiGreeting got;
    return next(meeting.called, got);
  };
  EXPECT_EQ(damage([](OfiGreeting&) {}), OfiTalk::Got::kGreeting);
  EXPECT_EQ(damage([](OfiGreeting& g) { g.magic = 1; }), OfiTalk::Got::kNonsense);
  EXPECT_EQ(damage([](OfiGreeting& g) { g.kind = OfiGreetingKind(99); }), OfiTalk::Got::kNonsense);
  EXPECT_EQ(damage([](OfiGreeting& g) { g.hello_bytes = 5000; }), OfiTalk::Got::kNonsense);
  EXPECT_EQ(damage([](OfiGreeting& g) { g.rail[3].address_bytes = 5000; }),
            OfiTalk::Got::kNonsense);
  EXPECT_EQ(damage([](OfiGreeting& g) { g.rails = 5; }), OfiTalk::Got::kNonsense);
  EXPECT_EQ(damage([](OfiGreeting& g) { g.provider.fill('x'); }), OfiTalk::Got::kNonsense);
}

TEST(OfiGreeting, NobodyListensIsSaid) {
  NetAddress nobody;
  {
    const UniqueFd gone =
        std::move(listen_tcp(parse_net_address("127.0.0.1:0", 0).value()).value());
    nobody = bound_address(gone.get());
  }
  auto socket = connect_tcp(nobody);
  if (!socket.ok()) {
    EXPECT_THAT(socket.error().message(), testing::HasSubstr("no process listens there"));
    return;
  }
  OfiTalk talk(std::move(socket).value());
  await(talk.fd(), POLLOUT);
  const Status status = talk.finish_connecting();
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message(), testing::HasSubstr("no process listens there"));
}

TEST(OfiGreeting, TheWayToLoopbackBeginsAtLoopback) {
  const auto source = source_towards(parse_net_address("127.0.0.1:9", 0).value());
  ASSERT_TRUE(source.ok());
  EXPECT_TRUE(source.value().is_loopback());
  EXPECT_EQ(source.value().port, 0);
  EXPECT_TRUE(any_own_address(4).is_set());
}

}  // namespace
}  // namespace spindrift
