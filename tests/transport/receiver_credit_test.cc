// Receiver-driven connections end to end, in virtual time: who may send what, and what it does to
// the queue before the receiver.
//
//   senders 1..n --- 10 Gb/s ---> [queue] --- 10 Gb/s ---> receiver 0
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spindrift/open.h"

#include "providers/memory/memory_network.h"
#include "providers/wrap/fault_io.h"
#include "providers/wrap/fault_spec.h"
#include "tests/contract/endpoint_world.h"
#include "transport/base/check.h"

namespace spindrift {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr std::size_t kMessage = 1U << 20U;

class Incast {
 public:
  struct Config {
    std::size_t senders = 8;
    std::string algorithm = "receiver_credit";
    std::string sender_algorithm{};  // empty: the same
    std::string faults{};            // of every host
    std::uint64_t queue_bytes = 1U << 20U;
  };

  explicit Incast(const Config& config)
      : config_(config),
        network_({.one_way_delay = 20us,
                  .link_rate = Rate::gbps(10),
                  .queue_bytes = config.queue_bytes}) {
    for (std::uint8_t i = 0; i <= config.senders; ++i)
      hosts_.push_back(make_host(i));
    target_ = std::make_unique<Buffer>(*hosts_[0], kMessage);
    SPINDRIFT_CHECK(hosts_[0]->listen("memory://", {}).ok());
    for (std::size_t i = 1; i <= config.senders; ++i) {
      sources_.push_back(std::make_unique<Buffer>(*hosts_[i], kMessage));
      sources_.back()->fill(i);
      ends_.push_back(hosts_[i]->connect(hosts_[0]->local_addresses()[0], options(true)).value());
    }
    done_.resize(config.senders);
    run_until([this] { return opened_ + failed_ >= config_.senders; });
    start_ = network_.now();
  }

  void write(std::size_t sender, std::size_t bytes = kMessage) {
    const Sge piece = sources_[sender]->piece(0, bytes);
    const WorkRequest work{.conn = ends_[sender],
                           .kind = OpKind::kWrite,
                           .local = {&piece, 1},
                           .remote_key = target_->key()};
    SPINDRIFT_CHECK(hosts_[sender + 1]->post({&work, 1}).accepted == 1);
    ++posted_;
  }
  bool run_until(const std::function<bool()>& is_done, Duration limit = 10s) {
    const Time end = network_.now() + limit;
    while (!is_done()) {
      if (network_.now() > end) return false;
      turn();
    }
    return true;
  }
  bool finish() {
    return run_until([this] { return completed_ == posted_; });
  }
  void pass(Duration duration) {
    const Time end = network_.now() + duration;
    run_until([&] { return network_.now() >= end; });
  }

  Duration taken() const { return last_done_ - start_; }
  Duration elapsed() const { return network_.now() - start_; }
  Time done(std::size_t sender) const { return done_[sender]; }
  std::uint64_t drops() const { return network_.stats().queue_drops; }
  std::uint64_t sent(std::size_t sender, std::string_view name) const {
    return counter(*hosts_[sender + 1], name);
  }
  Endpoint& receiver() { return *hosts_[0]; }
  Endpoint& sender(std::size_t i) { return *hosts_[i + 1]; }
  ConnId connection(std::size_t i) const { return ends_[i]; }
  const std::string& error() const { return error_; }
  Duration since_start(Time when) const { return when - start_; }
  std::size_t failed() const { return failed_; }
  Buffer& target() { return *target_; }

 private:
  std::unique_ptr<Endpoint> make_host(std::uint8_t index) {
    NetAddress address{.port = 0, .family = 4};
    address.ip = {10, 0, 0, static_cast<std::uint8_t>(index + 1)};
    std::unique_ptr<PacketIo> io = network_.add_host({.addresses = {address}});
    SPINDRIFT_CHECK(io->add_rail(address).ok());
    if (!config_.faults.empty())
      io = wrap_with_faults(std::move(io), parse_fault_spec(config_.faults).value());
    EndpointConfig endpoint;
    endpoint.seed = 100U + index;
    return Endpoint::create(std::move(io), endpoint, builtin_registry()).value();
  }
  ConnectOptions options(bool is_sender) const {
    ConnectOptions options;
    options.congestion_control = is_sender && !config_.sender_algorithm.empty()
                                     ? config_.sender_algorithm
                                     : config_.algorithm;
    options.path_count = 4;
    options.burst_bytes = 0;
    options.max_payload_mtu = 4096;
    options.crc = CrcChoice::kOn;
    return options;
  }
  void turn() {
    for (const auto& host : hosts_) {
      host->progress();
      take(*host);
    }
    Time next = std::min(network_.next_event(), network_.now() + 1ms);
    for (const auto& host : hosts_)
      next = std::min(next, host->next_deadline());
    network_.advance_to(std::max(next, network_.now() + Duration(100)));
  }
  void take(Endpoint& host) {
    ConnEvent events[8];
    for (std::size_t n = host.poll_events(events); n != 0; --n) {
      const ConnEvent& event = events[n - 1];
      if (event.kind == ConnEvent::Kind::kRequest) {
        const Status accepted = host.accept(event.conn, options(false));
        if (!accepted.ok()) error_ = accepted.error().message();
      }
      if (&host == hosts_[0].get()) continue;
      if (event.kind == ConnEvent::Kind::kEstablished) ++opened_;
      if (event.kind == ConnEvent::Kind::kFailed) {
        ++failed_;
        error_ = host.last_error(event.conn);
      }
    }
    Completion completions[8];
    for (std::size_t n = host.poll(completions); n != 0; --n) {
      SPINDRIFT_CHECK(completions[n - 1].status == OpStatus::kOk);
      ++completed_;
      for (std::size_t i = 0; i < ends_.size(); ++i)
        if (&host == hosts_[i + 1].get()) done_[i] = last_done_ = network_.now();
    }
  }

  Config config_;
  MemoryNetwork network_;
  std::vector<std::unique_ptr<Endpoint>> hosts_;
  std::vector<std::unique_ptr<Buffer>> sources_;
  std::unique_ptr<Buffer> target_;
  std::vector<ConnId> ends_;
  std::vector<Time> done_;
  std::string error_;
  Time start_{};
  Time last_done_{};
  std::size_t opened_ = 0;
  std::size_t failed_ = 0;
  std::size_t posted_ = 0;
  std::size_t completed_ = 0;
};

// 4096 of 4212 bytes on the wire, 99 % of the link.
double least_ms(std::size_t messages) {
  return static_cast<double>(messages * kMessage) * 8 / 10e9 * 1e3;
}
double to_ms(Duration duration) {
  return static_cast<double>(duration.count()) * 1e-6;
}

class ReceiverCredit : public ::testing::TestWithParam<const char*> {};

TEST_P(ReceiverCredit, AnIncastFillsTheLinkWithoutALoss) {
  Incast incast({.algorithm = GetParam()});
  for (std::size_t i = 0; i < 8; ++i)
    incast.write(i);
  ASSERT_TRUE(incast.finish());
  EXPECT_EQ(incast.drops(), 0U);
  EXPECT_GT(to_ms(incast.taken()), least_ms(8));
  EXPECT_LT(to_ms(incast.taken()), 1.08 * least_ms(8));
}

TEST(ReceiverCreditAgainst, AFixedWindowThatOverrunsTheSameQueue) {
  Incast incast({.algorithm = "fixed_window"});
  for (std::size_t i = 0; i < 8; ++i)
    incast.write(i);
  ASSERT_TRUE(incast.finish());
  EXPECT_GT(incast.drops(), 100U);
}

TEST_P(ReceiverCredit, SendersShareTheLinkEqually) {
  Incast incast({.algorithm = GetParam()});
  for (std::size_t i = 0; i < 8; ++i)
    incast.write(i);
  ASSERT_TRUE(incast.finish());
  Time first = Time::max();
  for (std::size_t i = 0; i < 8; ++i)
    first = std::min(first, incast.done(i));
  EXPECT_GT(to_ms(incast.since_start(first)), 0.85 * to_ms(incast.taken()));
}

TEST_P(ReceiverCredit, OneSenderHasTheLinkToItself) {
  Incast incast({.senders = 1, .algorithm = GetParam()});
  for (int i = 0; i < 8; ++i)
    incast.write(0);
  ASSERT_TRUE(incast.finish());
  EXPECT_LT(to_ms(incast.taken()), 1.06 * least_ms(8));
}

TEST_P(ReceiverCredit, AShortMessageGoesOnSpeculation) {
  Incast incast({.senders = 1, .algorithm = GetParam()});
  incast.write(0, 8'192);
  ASSERT_TRUE(incast.finish());
  EXPECT_EQ(incast.sent(0, "credit_requests_sent"), 0U);
  EXPECT_LT(to_ms(incast.taken()), 0.06);
}

TEST_P(ReceiverCredit, SpareCreditLetsTheNextMessageGoAtOnce) {
  Incast incast({.senders = 1, .algorithm = GetParam()});
  incast.write(0);
  ASSERT_TRUE(incast.finish());
  incast.pass(1ms);
  const std::uint64_t asked = incast.sent(0, "credit_requests_sent");
  const Duration before = incast.elapsed();
  incast.write(0, 4'096);
  ASSERT_TRUE(incast.finish());
  EXPECT_LT(to_ms(incast.taken() - before), 0.06);
  EXPECT_EQ(incast.sent(0, "credit_requests_sent"), asked);
}

TEST_P(ReceiverCredit, GrantsStopWhenNobodyWantsAny) {
  Incast incast({.senders = 2, .algorithm = GetParam()});
  incast.write(0);
  incast.write(1);
  ASSERT_TRUE(incast.finish());
  incast.pass(10ms);
  const std::uint64_t granted = counter(incast.receiver(), "credit_grants_sent");
  incast.pass(100ms);
  EXPECT_EQ(counter(incast.receiver(), "credit_grants_sent"), granted);
}

TEST_P(ReceiverCredit, LostRequestsAndGrantsAreRepeated) {
  Incast incast({.senders = 3, .algorithm = GetParam(), .faults = "loss=20%"});
  for (std::size_t i = 0; i < 3; ++i)
    incast.write(i);
  ASSERT_TRUE(incast.finish()) << state(incast.sender(0), incast.connection(0), "granted_bytes");
}

TEST_P(ReceiverCredit, WithoutSpeculationTheFirstMessageAsks) {
  Incast incast({.senders = 1, .algorithm = std::string(GetParam()) + ":speculative_bdp=0"});
  incast.write(0, 8'192);
  ASSERT_TRUE(incast.finish());
  EXPECT_GE(incast.sent(0, "credit_requests_sent"), 1U);
}

TEST_P(ReceiverCredit, ResponsesNeedTheCreditOfTheirDirection) {
  Incast incast({.senders = 2, .algorithm = GetParam()});
  for (std::size_t i = 0; i < 2; ++i) {
    Buffer into(incast.sender(i), kMessage);
    const Sge piece = into.all();
    const WorkRequest work{.conn = incast.connection(i),
                           .kind = OpKind::kRead,
                           .local = {&piece, 1},
                           .remote_key = incast.target().key()};
    incast.target().fill(77);
    ASSERT_EQ(incast.sender(i).post({&work, 1}).accepted, 1U);
    std::size_t before = 0;
    ASSERT_TRUE(incast.run_until([&] { return into.matches(77, 0, kMessage) && ++before > 10; }));
    EXPECT_GE(counter(incast.receiver(), "credit_requests_sent"), 1U);
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, ReceiverCredit,
                         ::testing::Values("receiver_credit", "nscc+receiver_credit"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::replace(name.begin(), name.end(), '+', '_');
                           return name;
                         });

TEST(ReceiverCreditOpening, RefusesASenderDrivenPeerWithASentence) {
  Incast incast({.senders = 1, .algorithm = "receiver_credit", .sender_algorithm = "nscc"});
  EXPECT_EQ(incast.failed(), 1U);
  EXPECT_THAT(incast.error(), HasSubstr("choose the same family"));
}

}  // namespace
}  // namespace spindrift
