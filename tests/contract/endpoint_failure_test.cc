// The endpoint contract: connections that do not come about, bounds of options, denied paths,
// rails, reports.
#include "providers/memory/memory_network.h"
#include "tests/contract/endpoint_contract.h"

namespace spindrift {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

// Connects and waits for the end of the attempt; the sentence that explains it.
std::string why_not(Pair& pair, const std::string& address, const ConnectOptions& options) {
  const auto conn = pair.a->connect(address, options);
  if (!conn.ok()) return conn.error().message();
  const bool has_failed = pair.run_until(
      [&] { return has_event(pair.a_events, ConnEvent::Kind::kFailed, conn.value()); });
  EXPECT_TRUE(has_failed);
  EXPECT_EQ(pair.a->info(conn.value()).value().state, ConnState::kFailed);
  return pair.a->last_error(conn.value());
}

TEST_P(EndpointContract, ConnectingToNobodyFailsWithinItsTimeoutAndSaysSo) {
  Pair pair(*world, {});
  ConnectOptions options;
  options.connect_timeout = 300ms;
  const Time start = world->now();
  EXPECT_THAT(why_not(pair, world->nobody_address(), options), Not(""));
  EXPECT_LT(world->now() - start, 3s);
}

TEST_P(EndpointContract, APeerThatDoesNotAcceptIsNamed) {
  Pair pair(*world, {});
  ConnectOptions options;
  options.connect_timeout = 200ms;
  EXPECT_THAT(why_not(pair, pair.address, options), HasSubstr("did not accept"));
}

TEST_P(EndpointContract, ARejectionCarriesItsSentence) {
  Pair pair(*world, {});
  const auto conn = pair.a->connect(pair.address);
  ASSERT_TRUE(conn.ok());
  ASSERT_TRUE(pair.run_until([&] { return !pair.b_events.empty(); }));
  const std::string reason(200, 'x');
  ASSERT_TRUE(pair.b->reject(pair.b_events[0].conn, reason).ok());
  ASSERT_TRUE(pair.run_until(
      [&] { return has_event(pair.a_events, ConnEvent::Kind::kFailed, conn.value()); }));
  EXPECT_THAT(pair.a->last_error(conn.value()), HasSubstr(reason));
  EXPECT_FALSE(pair.b->accept(pair.b_events[0].conn).ok());
}

TEST_P(EndpointContract, MorePartnersThanTheBacklogAreRefused) {
  Pair pair(*world, {});
  const auto small = pair.b->listen(world->listen_address(), {.backlog = 1});
  ASSERT_TRUE(small.ok());
  pair.b->stop_listening(ListenerId{1});
  ASSERT_TRUE(pair.a->connect(pair.address).ok());
  ASSERT_TRUE(pair.run_until([&] { return !pair.b_events.empty(); }));
  EXPECT_THAT(why_not(pair, pair.address, {}), HasSubstr("backlog"));
}

TEST_P(EndpointContract, AnotherPartitionKeyIsRefused) {
  Pair::Options options;
  options.a.endpoint.partition_key = 1;
  options.b.endpoint.partition_key = 2;
  Pair pair(*world, options);
  EXPECT_THAT(why_not(pair, pair.address, {}), HasSubstr("partition"));
}

TEST_P(EndpointContract, CrcOnAgainstOffIsRefusedOnBothSides) {
  Pair::Options options;
  options.connect.crc = CrcChoice::kOn;
  options.accept.crc = CrcChoice::kOff;
  Pair pair(*world, options);
  const auto conn = pair.a->connect(pair.address, options.connect);
  ASSERT_TRUE(conn.ok());
  ASSERT_TRUE(pair.run_until([&] { return !pair.b_events.empty(); }));
  const Status refused = pair.b->accept(pair.b_events[0].conn, options.accept);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message(), HasSubstr("CRC"));
  ASSERT_TRUE(pair.run_until(
      [&] { return has_event(pair.a_events, ConnEvent::Kind::kFailed, conn.value()); }));
  EXPECT_THAT(pair.a->last_error(conn.value()), HasSubstr("CRC"));
}

TEST_P(EndpointContract, CrcIsNegotiated) {
  struct Case {
    CrcChoice a;
    CrcChoice b;
    bool expected;
  };
  for (const Case& one :
       {Case{CrcChoice::kAuto, CrcChoice::kAuto, false},
        Case{CrcChoice::kOn, CrcChoice::kAuto, true}, Case{CrcChoice::kAuto, CrcChoice::kOn, true},
        Case{CrcChoice::kAuto, CrcChoice::kOff, false}}) {
    Pair::Options options;
    options.connect.crc = one.a;
    options.accept.crc = one.b;
    Pair pair(*world, options);
    ASSERT_OPENS(pair);
    EXPECT_EQ(pair.a->info(pair.ab).value().has_crc, one.expected);
    EXPECT_EQ(pair.b->info(pair.ba).value().has_crc, one.expected);
  }
}

TEST_P(EndpointContract, OptionsOutOfBoundsAreRefusedByName) {
  Pair pair(*world, {});
  struct Case {
    std::string expected;
    void (*spoil)(ConnectOptions& options);
  };
  const Case cases[] = {
      {"private_data", [](ConnectOptions& o) { o.private_data.resize(193); }},
      {"nscc", [](ConnectOptions& o) { o.congestion_control = "nosuch"; }},
      {"telemetry", [](ConnectOptions& o) { o.congestion_control = "hpcc"; }},
      {"reps", [](ConnectOptions& o) { o.path_selector = "nosuch"; }},
      {"path_count", [](ConnectOptions& o) { o.path_count = 0; }},
      {"path_count", [](ConnectOptions& o) { o.path_count = 257; }},
      {"burst_bytes", [](ConnectOptions& o) { o.burst_bytes = 1048577; }},
      {"max_payload_mtu", [](ConnectOptions& o) { o.max_payload_mtu = 500; }},
      {"max_payload_mtu", [](ConnectOptions& o) { o.max_payload_mtu = 600; }},
      {"dscp", [](ConnectOptions& o) { o.dscp = 64; }},
      {"control_dscp", [](ConnectOptions& o) { o.control_dscp = 64; }},
      {"connect_timeout", [](ConnectOptions& o) { o.connect_timeout = 999us; }},
      {"silence_limit", [](ConnectOptions& o) { o.silence_limit = 2h; }},
      {"silence_limit_passive", [](ConnectOptions& o) { o.silence_limit_passive = 0s; }},
      {"close_timeout", [](ConnectOptions& o) { o.close_timeout = -1s; }},
      {"default_timeout", [](ConnectOptions& o) { o.default_timeout = -1s; }},
      {"keepalive", [](ConnectOptions& o) { o.keepalive = 2h; }},
      {"rto_min", [](ConnectOptions& o) { o.rto_min = 0s; }},
      {"rto_max", [](ConnectOptions& o) { o.rto_max = 1us; }},
  };
  for (const Case& one : cases) {
    ConnectOptions options;
    one.spoil(options);
    const auto conn = pair.a->connect(pair.address, options);
    ASSERT_FALSE(conn.ok()) << one.expected;
    EXPECT_THAT(conn.error().message(), HasSubstr(one.expected));
    EXPECT_EQ(pair.a->last_error(ConnId{}), conn.error().message());
  }
  // The accepting side too; the request survives and may be accepted with better ones.
  const auto conn = pair.a->connect(pair.address);
  ASSERT_TRUE(conn.ok());
  ASSERT_TRUE(pair.run_until([&] { return !pair.b_events.empty(); }));
  ConnectOptions bad;
  bad.path_selector = "nosuch";
  const ConnId asked = pair.b_events[0].conn;
  EXPECT_FALSE(pair.b->accept(asked, bad).ok());
  EXPECT_THAT(pair.b->last_error(asked), HasSubstr("reps"));
  EXPECT_TRUE(pair.b->accept(asked).ok());
  EXPECT_TRUE(pair.run_until(
      [&] { return has_event(pair.a_events, ConnEvent::Kind::kEstablished, conn.value()); }));
  EXPECT_FALSE(pair.a->connect("nosuch://1.2.3.4:5").ok());
  EXPECT_FALSE(pair.a->connect(world->listen_address()).ok());
}

TEST_P(EndpointContract, TheLargestPrivateDataArrives) {
  Pair::Options options;
  options.connect.private_data.assign(192, std::byte{5});
  options.accept.private_data.assign(192, std::byte{6});
  Pair pair(*world, options);
  ASSERT_OPENS(pair);
  EXPECT_EQ(pair.b->info(pair.ba).value().private_data, options.connect.private_data);
  EXPECT_EQ(pair.a->info(pair.ab).value().private_data, options.accept.private_data);
}

void write_much(Pair& pair, int count) {
  Buffer from(*pair.a, 200000);
  Buffer to(*pair.b, 200000);
  from.fill(1);
  const Sge source = from.all();
  pair.a_done.clear();
  for (int i = 0; i < count; ++i)
    ASSERT_TRUE(
        pair.post_a({.kind = OpKind::kWrite, .local = {&source, 1}, .remote_key = to.key()}));
  ASSERT_TRUE(pair.wait_completions(*pair.a, static_cast<std::size_t>(count)))
      << pair.a->last_error(pair.ab);
  EXPECT_THAT(statuses(pair.a_done), Each(OpStatus::kOk));
  EXPECT_TRUE(to.matches(1, 0, 200000));
}

// By both ends: where the receiver reads the sender's memory, its report has what was read.
std::uint64_t packets_by(const Pair& pair, std::size_t path) {
  return pair.a->paths(pair.ab).at(path).packets_sent +
         pair.b->paths(pair.ba).at(path).packets_sent;
}

TEST_P(EndpointContract, ADeniedPathCarriesNothingUntilAllowedAgain) {
  if (world->paths(4) != 4) GTEST_SKIP() << "needs a medium with several paths";
  Pair::Options options;
  options.connect.path_selector = "round_robin";
  options.connect.path_count = 4;
  options.connect.burst_bytes = 0;
  options.accept = options.connect;
  Pair pair(*world, options);
  ASSERT_OPENS(pair);
  ASSERT_TRUE(pair.a->deny_path(pair.ab, PathId{2}, true).ok());
  const std::uint64_t before = packets_by(pair, 2);
  write_much(pair, 5);
  EXPECT_EQ(packets_by(pair, 2), before);
  EXPECT_EQ(pair.a->paths(pair.ab).at(2).state, "denied");
  EXPECT_GT(packets_by(pair, 1), 0U);
  ASSERT_TRUE(pair.a->deny_path(pair.ab, PathId{2}, false).ok());
  write_much(pair, 5);
  EXPECT_GT(packets_by(pair, 2), before);
  EXPECT_FALSE(pair.a->deny_path(pair.ab, PathId{4}, true).ok());
}

TEST_P(EndpointContract, WorkWaitsWhileEveryPathIsDenied) {
  Pair::Options options;
  options.connect.path_count = 2;
  Pair pair(*world, options);
  ASSERT_OPENS(pair);
  Buffer remote(*pair.b, 8);
  const auto paths = static_cast<std::uint16_t>(world->paths(2));
  for (std::uint16_t path = 0; path < paths; ++path)
    ASSERT_TRUE(pair.a->deny_path(pair.ab, PathId{path}, true).ok());
  ASSERT_TRUE(pair.post_a({.kind = OpKind::kWrite, .remote_key = remote.key()}));
  EXPECT_FALSE(pair.wait_completions(*pair.a, 1, 20ms));
  const PathId last{static_cast<std::uint16_t>(paths - 1)};
  ASSERT_TRUE(pair.a->deny_path(pair.ab, last, false).ok());
  EXPECT_TRUE(pair.wait_completions(*pair.a, 1));
}

TEST_P(EndpointContract, TrafficUsesEveryRail) {
  if (world->paths(2) != 2 || !world->has_rails())
    GTEST_SKIP() << "needs a medium with several paths and rails";
  Pair::Options options;
  options.a.rails = 2;
  options.b.rails = 2;
  options.connect.path_selector = "round_robin";
  options.connect.burst_bytes = 0;
  Pair pair(*world, options);
  const auto to = pair.b->local_addresses();
  const auto from = pair.a->local_addresses();
  ASSERT_EQ(to.size(), 2U);
  pair.address = to[0] + "," + to[1].substr(to[1].find("//") + 2);
  pair.options.connect.local_addresses = from;
  ASSERT_OPENS(pair);
  write_much(pair, 5);
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  const std::vector<PathReport> paths = pair.a->paths(pair.ab);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const PathReport& path = paths[i];
    (path.local_address == from[0] ? first : second) += packets_by(pair, i);
    // Rails are joined in the order they were named: the first may not reach the second.
    EXPECT_EQ(path.remote_address == to[0], path.local_address == from[0])
        << path.local_address << " to " << path.remote_address;
  }
  EXPECT_GT(first, 10U);
  EXPECT_GT(second, 10U);
}

TEST_P(EndpointContract, CountersAndReportsTellWhatHappened) {
  Pair::Options options;
  options.connect.dscp = 10;
  Pair pair(*world, options);
  ASSERT_OPENS(pair);
  write_much(pair, 3);
  EXPECT_GT(counter(*pair.a, "packets_sent"), 30U);
  EXPECT_EQ(counter(*pair.a, pair.ab, "requests_completed"), 3U);
  EXPECT_GE(counter(*pair.b, pair.ba, "bytes_received"), 600000U);
  EXPECT_GT(state(*pair.a, pair.ab, "window_bytes"), 0);
  EXPECT_GT(state(*pair.a, pair.ab, "rtt_us"), 0);
  const ConnInfo info = pair.a->info(pair.ab).value();
  EXPECT_EQ(info.congestion_control, "nscc");
  EXPECT_EQ(info.path_selector, "reps");
  EXPECT_THAT(info.remote_address, HasSubstr("://"));
  EXPECT_FALSE(info.peer_progresses_alone);
}

// No contract of mine with the machine: a path that carries 1500-byte frames only.
TEST_P(EndpointContract, ThePayloadMtuFitsThePath) {
  if (world->network() == nullptr) GTEST_SKIP() << "needs a path of which the test sets the MTU";
  Pair pair(*world, {});
  world->network()->set_path_max_packet_bytes(1472);
  ASSERT_OPENS(pair);
  EXPECT_EQ(pair.a->info(pair.ab).value().payload_mtu, 1408U);
  EXPECT_EQ(pair.b->info(pair.ba).value().payload_mtu, 1408U);
  write_much(pair, 1);
}

TEST_P(EndpointContract, AGuardianAnswersWhileTheProgramComputes) {
  if (world->is_virtual()) GTEST_SKIP() << "virtual time belongs to one thread";
  for (const bool has_guardian : {true, false}) {
    Pair::Options options;
    options.b.endpoint.has_guardian = has_guardian;
    Pair pair(*world, options);
    ASSERT_OPENS(pair);
    EXPECT_EQ(pair.a->info(pair.ab).value().peer_progresses_alone, has_guardian);
    Buffer from(*pair.a, 1000000);
    Buffer to(*pair.b, 1000000);
    from.fill(1);
    const Sge source = from.all();
    pair.b_is_frozen = true;
    ASSERT_TRUE(
        pair.post_a({.kind = OpKind::kWrite, .local = {&source, 1}, .remote_key = to.key()}));
    EXPECT_EQ(pair.wait_completions(*pair.a, 1, has_guardian ? Duration(10s) : Duration(500ms)),
              has_guardian);
    pair.b_is_frozen = false;
    ASSERT_TRUE(pair.wait_completions(*pair.a, 1)) << pair.a->last_error(pair.ab);
    EXPECT_EQ(pair.a_done[0].status, OpStatus::kOk);
    EXPECT_TRUE(to.matches(1, 0, 1000000));
  }
}

TEST_P(EndpointContract, AGuardianSendsWhatWasPostedByAProgramThatWentOnComputing) {
  if (world->is_virtual()) GTEST_SKIP() << "virtual time belongs to one thread";
  Pair::Options options;
  options.a.endpoint.has_guardian = true;
  options.connect.keepalive = 0s;
  Pair pair(*world, options);
  ASSERT_OPENS(pair);
  Buffer from(*pair.a, 1000);
  Buffer to(*pair.b, 1000);
  from.fill(1);
  const Sge source = from.all();
  const auto only_b_runs = [&](Duration limit, const std::function<bool()>& is_done) {
    const Time start = world->now();
    while (!is_done() && world->now() - start < limit)
      pair.b->progress();
    return is_done();
  };
  only_b_runs(100ms, [] { return false; });
  ASSERT_TRUE(pair.post_a({.kind = OpKind::kWrite, .local = {&source, 1}, .remote_key = to.key()}));
  EXPECT_TRUE(only_b_runs(2s, [&] { return to.matches(1, 0, 1000); }));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 1));  // the buffer is the guardian's until then
}

TEST(EndpointOverIpv6, ConnectsAndMovesBytes) {
  const auto world = ipv6_world().make();
  Pair pair(*world, {});
  EXPECT_THAT(pair.address, HasSubstr("[::1]"));
  ASSERT_OPENS(pair);
  write_much(pair, 5);
}

}  // namespace
}  // namespace spindrift
