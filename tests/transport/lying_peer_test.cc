// A peer that lies, lie by lie: each is counted under its name, and nothing is written, completed
// or remembered because of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/transport/forger.h"
#include "transport/open_connection.h"

namespace spindrift::test {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr std::size_t kGuard = 4096;
constexpr std::size_t kGranted = 8192;

class LyingPeer : public testing::Test {
 protected:
  void open(CrcChoice crc = CrcChoice::kOn, Access rights = kAllAccess) {
    ConnectOptions options;
    options.crc = crc;
    options.path_count = 4;
    ASSERT_TRUE(pair.open(options));
    region = pair.b.context()
                 .memory.add(std::span(memory).subspan(kGuard, kGranted), rights, {}, 77)
                 .value();
  }
  bool is_untouched() const {
    return std::all_of(memory.begin(), memory.end(), [](std::byte b) { return b == std::byte{0}; });
  }
  ConnectionCounters& counted() { return pair.at_b->counters; }
  // b can still do honest work with its peer.
  void expect_alive() {
    ASSERT_EQ(pair.at_b->phase, Phase::kOpen) << pair.at_b->error;
    std::vector<std::byte> target(8);
    const MemoryRegion there = pair.a.context().memory.add(target, kAllAccess, {}, 5).value();
    ASSERT_TRUE(pair.b.post(
        {.conn = pair.at_b->id, .kind = OpKind::kWrite, .remote_key = there.remote.key}));
    for (int i = 0; i < 200; ++i)
      pair.step();
    pair.b_done.clear();
    pair.b.take_completions(pair.b_done);
    ASSERT_EQ(pair.b_done.size(), 1U);
    EXPECT_EQ(pair.b_done[0].status, OpStatus::kOk);
  }

  EnginePair pair;
  Forger forger{pair};
  std::vector<std::byte> memory = std::vector<std::byte>(2 * kGuard + kGranted);
  MemoryRegion region;
};

struct Overreach {
  const char* name;
  Access rights;
  OpKind kind;
  std::uint64_t key_change;
  std::uint64_t offset;
  OpStatus expected;
};

class Overreaches : public LyingPeer, public testing::WithParamInterface<Overreach> {};

TEST_P(Overreaches, AreRefusedWithTheReason) {
  const Overreach& one = GetParam();
  open(CrcChoice::kOn, one.rights);
  std::vector<std::byte> own(8, std::byte{0xee});
  const MemoryRegion local = pair.a.context().memory.add(own, kAllAccess, {}, 1).value();
  const Sge sge = sge_of(local, 0, 8);
  ASSERT_TRUE(pair.a.post({.conn = pair.at_a->id,
                           .kind = one.kind,
                           .local = {&sge, 1},
                           .remote_key = region.remote.key ^ one.key_change,
                           .remote_offset = one.offset,
                           .operand = 1}));
  for (int i = 0; i < 200; ++i)
    pair.step();
  pair.a.take_completions(pair.a_done);
  ASSERT_EQ(pair.a_done.size(), 1U);
  EXPECT_EQ(pair.a_done[0].status, one.expected);
  EXPECT_EQ(counted().requests_refused, 1U);
  EXPECT_EQ(pair.at_b->phase, Phase::kFailed);
  EXPECT_TRUE(is_untouched());
  EXPECT_THAT(own, Each(std::byte{0xee}));
}

constexpr std::uint64_t kOtherKey = 1ULL << 40;
constexpr std::uint64_t kOverflow = ~std::uint64_t{0} - 3;  // + 8 bytes wraps to 4

INSTANTIATE_TEST_SUITE_P(
    Lies, Overreaches,
    testing::Values(
        Overreach{"WriteWrongKey", kAllAccess, OpKind::kWrite, kOtherKey, 0, OpStatus::kRemoteKey},
        Overreach{"ReadWrongKey", kAllAccess, OpKind::kRead, kOtherKey, 0, OpStatus::kRemoteKey},
        Overreach{"AtomicWrongIndex", kAllAccess, OpKind::kFetchAdd, 7, 0, OpStatus::kRemoteKey},
        Overreach{"WritePastTheEnd", kAllAccess, OpKind::kWrite, 0, kGranted - 4,
                  OpStatus::kRemoteBounds},
        Overreach{"WriteOverflow", kAllAccess, OpKind::kWrite, 0, kOverflow,
                  OpStatus::kRemoteBounds},
        Overreach{"ReadOverflow", kAllAccess, OpKind::kRead, 0, kOverflow, OpStatus::kRemoteBounds},
        Overreach{"AtomicOverflow", kAllAccess, OpKind::kCompareSwap, 0, kOverflow,
                  OpStatus::kRemoteBounds},
        Overreach{"ReadPastTheEnd", kAllAccess, OpKind::kRead, 0, kGranted - 4,
                  OpStatus::kRemoteBounds},
        Overreach{"AtomicUnaligned", kAllAccess, OpKind::kFetchAdd, 0, 4,
                  OpStatus::kRemoteAlignment},
        Overreach{"WriteWithoutRight", Access::kRemoteRead | Access::kRemoteAtomic, OpKind::kWrite,
                  0, 0, OpStatus::kRemoteAccess},
        Overreach{"ReadWithoutRight", Access::kRemoteWrite | Access::kRemoteAtomic, OpKind::kRead,
                  0, 0, OpStatus::kRemoteAccess},
        Overreach{"AtomicWithoutRight", Access::kRemoteRead | Access::kRemoteWrite,
                  OpKind::kFetchAdd, 0, 0, OpStatus::kRemoteAccess}),
    [](const auto& one) { return std::string(one.param.name); });

TEST_F(LyingPeer, ReusesAPsnAndTouchesNothing) {
  open();
  const std::uint64_t psn = forger.next_psn();
  forger.send(forger.packet(8, forger.request(psn), write_of(region.remote.key, 8)));
  EXPECT_EQ(memory[kGuard], std::byte{0xee});
  memory[kGuard] = std::byte{1};  // delivered: the owner's again
  for (int i = 0; i < 3; ++i)
    forger.send(forger.packet(8, forger.request(psn), write_of(region.remote.key, 8)));
  EXPECT_EQ(counted().duplicates_received, 3U);
  EXPECT_EQ(memory[kGuard], std::byte{1});
}

TEST_F(LyingPeer, InventsPsns) {
  open();
  const std::uint64_t psn = forger.next_psn();
  for (const std::uint64_t distance : {4000ULL, 100000ULL, 1ULL << 31, (1ULL << 32) - 5000})
    forger.send(forger.packet(8, forger.request(psn + distance), write_of(region.remote.key, 8)));
  EXPECT_EQ(counted().out_of_window_received, 4U);
  forger.send(forger.packet(0, forger.control(wire::ControlType::kCloseCommand, psn + 4000)));
  EXPECT_EQ(counted().out_of_window_received, 5U);
  EXPECT_TRUE(is_untouched());
  expect_alive();
}

TEST_F(LyingPeer, ContradictsItselfAboutLengths) {
  struct Lengths {
    std::uint32_t request;
    std::uint32_t offset;
    std::uint16_t told;
    std::size_t sent;
    bool is_first;
    bool is_last;
  };
  for (const Lengths& one :
       {Lengths{0xffffffff, 0, 0, 8, true, true}, Lengths{0xffffffff, 0, 0, 8, true, false},
        Lengths{4, 0, 0, 8, true, true},     // more than it says
        Lengths{16, 0, 0, 8, true, true},    // less, and the last
        Lengths{16, 12, 8, 8, false, true},  // leaves its message
        Lengths{16, 0xfffffff8, 8, 8, false, true},
        Lengths{16, 8, 16, 8, false, true},  // not what the packet holds
        Lengths{16, 8, 0, 0, false, true}}) {
    EnginePair fresh;
    Forger liar(fresh);
    ConnectOptions options;
    options.crc = CrcChoice::kOn;
    ASSERT_TRUE(fresh.open(options));
    const MemoryRegion target =
        fresh.b.context()
            .memory.add(std::span(memory).subspan(kGuard, kGranted), kAllAccess, {}, 77)
            .value();
    wire::StandardRequest ses = write_of(target.remote.key, one.request);
    ses.is_som = one.is_first;
    ses.is_eom = one.is_last;
    ses.payload_length = one.told;
    ses.message_offset = one.offset;
    liar.send(liar.packet(one.sent, liar.request(liar.next_psn()), ses));
    EXPECT_EQ(fresh.at_b->counters.requests_refused, 1U)
        << one.request << " " << one.offset << " " << one.sent;
    EXPECT_TRUE(is_untouched());
  }
}

TEST_F(LyingPeer, SendsNothingAtAllInManyPackets) {
  open();
  std::uint64_t psn = forger.next_psn();
  forger.send(forger.packet(0, forger.request(psn++), write_of(region.remote.key, 0)));
  wire::StandardRequest middle = write_of(region.remote.key, 100);
  middle.is_som = false;
  middle.is_eom = false;
  for (int i = 0; i < 50; ++i)
    forger.send(forger.packet(0, forger.request(psn++), middle));
  EXPECT_EQ(counted().packets_received, 51U);
  EXPECT_TRUE(is_untouched());
  expect_alive();
}

TEST_F(LyingPeer, CutsPacketsShort) {
  open(CrcChoice::kOff);
  const auto whole =
      forger.packet(8, forger.request(forger.next_psn()), write_of(region.remote.key, 8));
  const std::uint64_t before = pair.b.context().counters.malformed_strangers;
  for (std::size_t bytes = 0; bytes < 12; ++bytes)
    forger.send(std::span(whole).first(bytes));
  EXPECT_EQ(pair.b.context().counters.malformed_strangers - before, 12U);
  EXPECT_TRUE(is_untouched());
  // The delivery header is whole, what is asked for is not.
  forger.send(std::span(whole).first(30));
  EXPECT_EQ(counted().requests_refused, 1U);
}

TEST_F(LyingPeer, AcknowledgesWhatWasNeverSent) {
  open();
  wire::Ack edge = forger.ack();
  edge.cack_psn += 1;
  wire::Ack map = forger.ack();
  map.sack_psn_offset = 1;
  map.sack_bitmap = 1;
  wire::Ack far_map = forger.ack();
  far_map.sack_psn_offset = 30000;
  far_map.sack_bitmap = ~std::uint64_t{0};
  wire::Ack trigger = forger.ack();
  trigger.ack_psn_offset = 5;
  wire::Ack old_kind = forger.ack();
  old_kind.has_cc = false;
  for (const wire::Ack& one : {edge, map, far_map, trigger, old_kind})
    forger.send(forger.packet(0, one));
  EXPECT_EQ(counted().acks_impossible, 5U);
  expect_alive();
}

TEST_F(LyingPeer, RefusesWhatWasNeverSent) {
  open();
  const std::uint64_t never = pair.at_b->send->log.next().value;
  constexpr std::uint8_t kMeant[] = {0x01, 0x02, 0x07, 0x09, 0x0a, 0xfe};
  for (const std::uint8_t code : kMeant)
    forger.send(forger.packet(0, forger.nack(code, never)));
  EXPECT_EQ(counted().acks_impossible, 6U);
  constexpr std::uint8_t kMeaningless[] = {0x00, 0x0f, 0x15, 0x33, 0xff};
  for (const std::uint8_t code : kMeaningless)
    forger.send(forger.packet(0, forger.nack(code, never - 1)));
  EXPECT_EQ(counted().malformed_received, 5U);
  expect_alive();
}

TEST_F(LyingPeer, AnswersReadsThatNobodyPosted) {
  open();
  wire::RudRequest pds = forger.request(forger.next_psn());
  pds.next = wire::NextHeader::kResponseData;
  wire::ResponseData ses;
  ses.payload_length = 8;
  ses.modified_length = 8;
  forger.send(forger.packet(8, pds, ses));
  EXPECT_EQ(counted().requests_refused, 1U);
  EXPECT_TRUE(is_untouched());
}

TEST_F(LyingPeer, SpeaksOfControlThatIsNotSpokenHere) {
  open();
  for (const auto type : {wire::ControlType::kNoop, wire::ControlType::kClearCommand,
                          wire::ControlType::kClearRequest, wire::ControlType::kCloseRequest,
                          wire::ControlType::kCredit, wire::ControlType::kCreditRequest,
                          wire::ControlType::kNegotiation})
    forger.send(forger.packet(0, forger.control(type, forger.next_psn())));
  EXPECT_EQ(counted().malformed_received, 7U);
  expect_alive();
}

TEST_F(LyingPeer, ProbesWithoutEndAndTakesNoMemory) {
  open();
  const std::uint64_t before = pair.b.allocations;
  for (int i = 0; i < 500; ++i)
    forger.send(forger.packet(0, forger.control(wire::ControlType::kProbe, 0)));
  EXPECT_EQ(pair.b.allocations, before);
  expect_alive();
}

// The reason of a refusal is for a terminal: what would drive it is spelled out.
TEST_F(LyingPeer, PutsControlCharactersIntoItsReason) {
  pair.at_a = pair.a.connect(pair.b.address(), {});
  ASSERT_NE(pair.at_a, nullptr);
  Connection* request = nullptr;
  for (int i = 0; i < 1000 && request == nullptr; ++i) {
    pair.step();
    request = pair.b.context().connections[0].get();
  }
  ASSERT_NE(request, nullptr);
  ASSERT_TRUE(
      reject_request(pair.b.context(), *request, "\x1b[2Jgo\naway\x7f\xc2\x9b \xff \u00e9").ok());
  for (int i = 0; i < 1000 && pair.at_a->phase == Phase::kConnecting; ++i)
    pair.step();
  EXPECT_THAT(pair.at_a->error, HasSubstr("\\x1b[2Jgo\\x0aaway\\x7f\\xc2\\x9b \\xff \u00e9"));
}

}  // namespace
}  // namespace spindrift::test
