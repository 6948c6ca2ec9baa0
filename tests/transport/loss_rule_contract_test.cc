// What every loss rule must do, over all that are registered: loss_per_path.cc, loss_rack.cc,
// loss_packet_threshold.cc and loss_timeout.cc.
#include <gtest/gtest.h>

#include "tests/transport/engine_host.h"
#include "transport/loss_rules.h"

namespace spindrift {
inline void PrintTo(const LossRuleInfo& info, std::ostream* out) {
  *out << info.name;
}
}  // namespace spindrift

namespace spindrift::test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kMessages = 64;
constexpr std::uint32_t kMessageBytes = 100000;
constexpr std::uint16_t kPaths = 8;

class LossRuleContract : public testing::TestWithParam<LossRuleInfo> {
 protected:
  ConnectOptions options() const {
    ConnectOptions out;
    out.crc = CrcChoice::kOn;
    out.path_count = kPaths;
    out.loss_rule = std::string(GetParam().name);
    return out;
  }
};

// A writes to B until all is acknowledged.
class Transfer {
 public:
  Transfer(EnginePair& pair, std::uint32_t messages, std::uint32_t bytes)
      : pair_(pair), messages_(messages), from_(bytes), to_(bytes) {
    for (std::size_t i = 0; i < bytes; ++i)
      from_[i] = static_cast<std::byte>(i * 31 >> 4);
    source_ = pair.a.context().memory.add(from_, kAllAccess, {}, 77).value();
    target_ = pair.b.context().memory.add(to_, kAllAccess, {}, 78).value();
    pair.a_done.reserve(pair.a_done.size() + messages);
  }
  // False: it did not end within `limit` of virtual time. `each_step` sees the number of messages
  // that have ended.
  template <class EachStep>
  bool run(EachStep each_step, Duration limit = 60s) {
    const Time end = pair_.network.now() + limit;
    const Sge piece = sge_of(source_, 0, static_cast<std::uint32_t>(from_.size()));
    std::uint32_t posted = 0;
    std::size_t done = 0;
    while (done < messages_ && pair_.network.now() < end) {
      while (posted < messages_ && posted < done + 16 &&
             pair_.a.post({.user_data = posted,
                           .conn = pair_.at_a->id,
                           .kind = OpKind::kWrite,
                           .local = {&piece, 1},
                           .remote_key = target_.remote.key}))
        ++posted;
      each_step(done);
      pair_.step();
      done += pair_.a.take_completions(pair_.a_done);
    }
    return done == messages_ &&
           std::all_of(pair_.a_done.begin(), pair_.a_done.end(),
                       [](const Completion& one) { return one.status == OpStatus::kOk; });
  }
  bool run() {
    return run([](std::size_t) {});
  }
  bool has_arrived() const { return from_ == to_; }

 private:
  EnginePair& pair_;
  std::uint32_t messages_;
  std::vector<std::byte> from_;
  std::vector<std::byte> to_;
  MemoryRegion source_;
  MemoryRegion target_;
};

std::uint64_t retransmits(const ConnectionCounters& n) {
  return n.retransmits_reordered + n.retransmits_timeout + n.retransmits_trimmed;
}

TEST_P(LossRuleContract, IsWhatTheConnectionChose) {
  EnginePair pair;
  ASSERT_TRUE(pair.open(options()));
  EXPECT_EQ(pair.at_a->loss_rule, GetParam().rule);
  EXPECT_FALSE(GetParam().summary.empty());
}

TEST_P(LossRuleContract, EverythingArrivesUnderRandomLoss) {
  EnginePair pair;
  pair.a.harm({.loss = 0.05, .seed = 5});
  pair.b.harm({.loss = 0.05, .seed = 6});
  ASSERT_TRUE(pair.open(options()));
  Transfer transfer(pair, kMessages, kMessageBytes);
  ASSERT_TRUE(transfer.run()) << pair.at_a->error;
  EXPECT_TRUE(transfer.has_arrived());
  EXPECT_GT(retransmits(pair.at_a->counters), 0U);
}

TEST_P(LossRuleContract, EverythingArrivesUnderReorderingAndDuplication) {
  EnginePair pair;
  pair.a.harm({.loss = 0.01, .duplicate = 0.05, .reorder = 0.2, .seed = 7});
  ASSERT_TRUE(pair.open(options()));
  Transfer transfer(pair, kMessages, kMessageBytes);
  ASSERT_TRUE(transfer.run()) << pair.at_a->error;
  EXPECT_TRUE(transfer.has_arrived());
}

// Messages of one packet, each alone: nothing sent later shows that it is missing.
TEST_P(LossRuleContract, TheTailIsNotForgotten) {
  EnginePair pair;
  pair.a.harm({.loss = 0.2, .seed = 8});
  ASSERT_TRUE(pair.open(options()));
  for (int i = 0; i < 50; ++i) {
    Transfer transfer(pair, 1, 64);
    ASSERT_TRUE(transfer.run()) << i << pair.at_a->error;
    EXPECT_TRUE(transfer.has_arrived());
  }
}

TEST_P(LossRuleContract, EverythingArrivesThoughAPathGoesDark) {
  EnginePair pair;
  ASSERT_TRUE(pair.open(options()));
  Transfer transfer(pair, kMessages, kMessageBytes);
  ASSERT_TRUE(transfer.run([&](std::size_t done) {
    if (done == kMessages / 4) pair.network.set_path_down(0, 3, true);
  })) << pair.at_a->error;
  EXPECT_TRUE(transfer.has_arrived());
}

TEST_P(LossRuleContract, WithoutLossAndReorderingNothingIsSentTwice) {
  EnginePair pair;
  ASSERT_TRUE(pair.open(options()));
  Transfer transfer(pair, kMessages, kMessageBytes);
  ASSERT_TRUE(transfer.run());
  EXPECT_EQ(retransmits(pair.at_a->counters), 0U);
  EXPECT_EQ(pair.at_b->counters.duplicates_received, 0U);
}

// A peer that only computes must not be sent everything again.
TEST_P(LossRuleContract, SilenceAloneLosesNothing) {
  EnginePair pair;
  ASSERT_TRUE(pair.open(options()));
  Transfer transfer(pair, 8, kMessageBytes);
  ASSERT_TRUE(transfer.run());
  const Time end = pair.network.now() + 300ms;
  std::vector<std::byte> bytes(kMessageBytes);
  const MemoryRegion region = pair.a.context().memory.add(bytes, kAllAccess, {}, 79).value();
  const Sge piece = sge_of(region, 0, kMessageBytes);
  ASSERT_TRUE(pair.a.post(
      {.conn = pair.at_a->id, .kind = OpKind::kRead, .local = {&piece, 1}, .remote_key = 4711}));
  while (pair.network.now() < end) {
    pair.a.turn();
    pair.network.advance_to(pair.network.now() + 50us);
  }
  EXPECT_EQ(retransmits(pair.at_a->counters), 0U);
}

TEST_P(LossRuleContract, AllocatesNothing) {
  EnginePair pair;
  pair.a.harm({.loss = 0.02, .seed = 9});
  ASSERT_TRUE(pair.open(options()));
  ASSERT_TRUE(Transfer(pair, kMessages, kMessageBytes).run());
  Transfer transfer(pair, kMessages, kMessageBytes);
  pair.a.allocations = 0;
  ASSERT_TRUE(transfer.run());
  EXPECT_EQ(pair.a.allocations, 0U);
}

TEST_P(LossRuleContract, TheSameSeedGivesTheSameHistory) {
  std::uint64_t sent[2] = {};
  Time ended[2];
  for (int i = 0; i < 2; ++i) {
    EndpointConfig config;
    config.seed = 1;
    EnginePair pair({}, config);
    pair.a.harm({.loss = 0.03, .reorder = 0.1, .seed = 10});
    ASSERT_TRUE(pair.open(options()));
    ASSERT_TRUE(Transfer(pair, kMessages, kMessageBytes).run());
    sent[i] = pair.at_a->counters.packets_sent + retransmits(pair.at_a->counters);
    ended[i] = pair.network.now();
  }
  EXPECT_EQ(sent[0], sent[1]);
  EXPECT_EQ(ended[0], ended[1]);
}

INSTANTIATE_TEST_SUITE_P(All, LossRuleContract, testing::ValuesIn(builtin_registry().loss_rules()),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace spindrift::test
