// The engine without its endpoint: wrap-around, allocations, spurious retransmissions, floods and
// hostile packets.
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/transport/engine_host.h"

namespace spindrift::test {
namespace {

using namespace std::chrono_literals;

struct Memory {
  Memory(EngineHost& host, std::size_t count) : bytes(count) {
    region = host.context().memory.add(bytes, kAllAccess, {}, 12345 + count).value();
  }
  Sge piece(std::size_t offset, std::size_t count) const {
    return sge_of(region, offset, static_cast<std::uint32_t>(count));
  }
  std::vector<std::byte> bytes;
  MemoryRegion region;
};

ConnectOptions with_crc() {
  ConnectOptions options;
  options.crc = CrcChoice::kOn;
  options.path_count = 4;
  return options;
}

bool run_until(EnginePair& pair, std::size_t a_count, std::size_t b_count, int steps = 2000000) {
  for (int i = 0; i < steps; ++i) {
    pair.step();
    pair.a.take_completions(pair.a_done);
    pair.b.take_completions(pair.b_done);
    if (pair.a_done.size() >= a_count && pair.b_done.size() >= b_count) return true;
  }
  return false;
}

// 1,000 PSNs before 2^32 on the wire, 64-bit inside.
TEST(PacketEngine, PsnsWrapAtTwoToThe32) {
  EnginePair pair;
  ASSERT_TRUE(pair.open(with_crc(), (2ULL << 32) - 1000));
  Memory from(pair.a, 1000000);
  Memory to(pair.b, 1000000);
  for (std::size_t i = 0; i < from.bytes.size(); ++i)
    from.bytes[i] = static_cast<std::byte>(i * 7 >> 3);
  const Sge source = from.piece(0, 1000000);
  for (int i = 0; i < 30; ++i)
    ASSERT_TRUE(pair.a.post({.conn = pair.at_a->id,
                             .kind = OpKind::kWrite,
                             .local = {&source, 1},
                             .remote_key = to.region.remote.key}));
  ASSERT_TRUE(run_until(pair, 30, 0)) << pair.at_a->error;
  for (const Completion& done : pair.a_done)
    EXPECT_EQ(done.status, OpStatus::kOk);
  EXPECT_GT(pair.at_a->send->log.next().value, 2ULL << 32);
  EXPECT_TRUE(from.bytes == to.bytes);
  EXPECT_EQ(pair.at_a->counters.acks_impossible, 0U);
  EXPECT_EQ(pair.at_b->counters.out_of_window_received, 0U);
}

TEST(PacketEngine, MessageIdsAndReadSerialsWrapAt16Bits) {
  EnginePair pair;
  ASSERT_TRUE(pair.open(with_crc()));
  Memory at_a(pair.a, 4096);
  Memory at_b(pair.b, 4096);
  const Sge cell = at_a.piece(0, 8);
  constexpr std::uint64_t kRounds = 70000;
  std::uint64_t posted = 0;
  std::uint64_t done = 0;
  for (int steps = 0; done < 2 * kRounds && steps < 4000000; ++steps) {
    while (posted < kRounds && 2 * posted < done + 100) {
      ASSERT_TRUE(
          pair.b.post({.user_data = posted, .conn = pair.at_b->id, .kind = OpKind::kReceive}));
      ASSERT_TRUE(pair.a.post({.user_data = posted, .conn = pair.at_a->id, .kind = OpKind::kSend}));
      ASSERT_TRUE(pair.a.post({.user_data = posted,
                               .conn = pair.at_a->id,
                               .kind = OpKind::kFetchAdd,
                               .local = {&cell, 1},
                               .remote_key = at_b.region.remote.key,
                               .operand = 1}));
      ++posted;
    }
    pair.step();
    pair.a_done.clear();
    done += pair.a.take_completions(pair.a_done);
    for (const Completion& one : pair.a_done)
      ASSERT_EQ(one.status, OpStatus::kOk) << pair.at_a->error;
    pair.b.take_completions(pair.b_done);
  }
  EXPECT_EQ(done, 2 * kRounds) << pair.at_a->error << pair.at_b->error;
  ASSERT_EQ(pair.b_done.size(), kRounds);
  for (std::uint64_t i = 0; i < kRounds; ++i)
    ASSERT_EQ(pair.b_done[i].user_data, i);
  std::uint64_t sum = 0;
  std::copy_n(at_b.bytes.data(), 8, reinterpret_cast<std::byte*>(&sum));
  EXPECT_EQ(sum, kRounds);
}

TEST(PacketEngine, AllocatesNothingInSteadyState) {
  EnginePair pair;
  ASSERT_TRUE(pair.open(with_crc()));
  Memory from(pair.a, 100000);
  Memory to(pair.b, 100000);
  const Sge source = from.piece(0, 100000);
  pair.a_done.reserve(20000);
  const auto write = [&](std::size_t count) {
    std::size_t posted = 0;
    pair.a_done.clear();
    for (int steps = 0; pair.a_done.size() < count && steps < 4000000; ++steps) {
      while (posted < count && posted < pair.a_done.size() + 64) {
        ++posted;
        ASSERT_TRUE(pair.a.post({.conn = pair.at_a->id,
                                 .kind = OpKind::kWrite,
                                 .local = {&source, 1},
                                 .remote_key = to.region.remote.key}));
      }
      pair.step();
      pair.a.take_completions(pair.a_done);
    }
    ASSERT_EQ(pair.a_done.size(), count);
  };
  write(500);
  pair.a.allocations = 0;
  pair.b.allocations = 0;
  write(10000);
  EXPECT_EQ(pair.a.allocations, 0U);
  EXPECT_EQ(pair.b.allocations, 0U);
}

TEST(PacketEngine, AMediumWithFewerPathsThanAskedForGivesWhatItHas) {
  EnginePair pair({}, {}, 3);
  ConnectOptions options = with_crc();
  options.path_count = 16;
  ASSERT_TRUE(pair.open(options));
  EXPECT_EQ(pair.at_a->routes.size(), 16U);
  ASSERT_EQ(pair.at_b->routes.size(), 3U);
  EXPECT_EQ(pair.at_b->paths->size(), 3U);
  EXPECT_EQ(pair.at_b->routes.back().entropy, 2);
}

// Paths of one network do not reorder within themselves here, so every retransmission must be of a
// packet that was lost.
TEST(PacketEngine, WithoutLossNothingIsSentAgain) {
  EnginePair pair;
  ConnectOptions options = with_crc();
  options.path_count = 16;
  ASSERT_TRUE(pair.open(options));
  Memory from(pair.a, 1000000);
  Memory to(pair.b, 1000000);
  const Sge source = from.piece(0, 1000000);
  for (int i = 0; i < 100; ++i)
    ASSERT_TRUE(pair.a.post({.conn = pair.at_a->id,
                             .kind = OpKind::kWrite,
                             .local = {&source, 1},
                             .remote_key = to.region.remote.key}));
  ASSERT_TRUE(run_until(pair, 100, 0));
  const ConnectionCounters& counted = pair.at_a->counters;
  EXPECT_EQ(counted.retransmits_reordered + counted.retransmits_timeout, 0U);
  EXPECT_EQ(counted.spurious_retransmits, 0U);
  EXPECT_EQ(pair.at_b->counters.duplicates_received, 0U);
}

// Random loss on many paths: what is sent again was lost, and no path is given up for it.
TEST(PacketEngine, OnePercentLossCausesNoSpuriousRetransmission) {
  EnginePair pair;
  ConnectOptions options = with_crc();
  options.path_count = 16;
  FaultConfig faults;
  faults.loss = 0.01;
  faults.seed = 3;
  pair.a.harm(faults);
  ASSERT_TRUE(pair.open(options));
  Memory from(pair.a, 1000000);
  Memory to(pair.b, 1000000);
  const Sge source = from.piece(0, 1000000);
  for (int i = 0; i < 200; ++i)
    ASSERT_TRUE(pair.a.post({.conn = pair.at_a->id,
                             .kind = OpKind::kWrite,
                             .local = {&source, 1},
                             .remote_key = to.region.remote.key}));
  ASSERT_TRUE(run_until(pair, 200, 0));
  const ConnectionCounters& counted = pair.at_a->counters;
  EXPECT_GT(counted.retransmits_reordered, 100U);
  EXPECT_EQ(counted.spurious_retransmits, 0U);
  EXPECT_EQ(pair.at_b->counters.duplicates_received, 0U);
  EXPECT_GE(pair.at_a->paths->usable(), 15U);
}

TEST(PacketEngine, StrangersMustReturnACookieUnderAFlood) {
  EndpointConfig config;
  config.half_open_before_cookie = 0;
  EnginePair pair({}, config);
  ASSERT_TRUE(pair.open(with_crc()));
  EXPECT_EQ(pair.b.context().counters.cookies_sent, 1U);
  EXPECT_EQ(pair.b.context().half_open, 0U);
}

// The HELLO was taken as it came, and a copy of it met a full house and was asked for a cookie:
// both sides must begin at the same PSN.
TEST(PacketEngine, ALateCookieDoesNotDivideTheTwoSides) {
  EnginePair pair;
  Connection* a = pair.a.connect(pair.b.address(), with_crc());
  ASSERT_NE(a, nullptr);
  const auto requested = [&]() -> Connection* {
    for (auto& holder : pair.b.context().connections)
      if (holder && holder->phase == Phase::kRequested) return holder.get();
    return nullptr;
  };
  for (int i = 0; i < 1000 && requested() == nullptr; ++i)
    pair.step();
  Connection* b = requested();
  ASSERT_NE(b, nullptr);
  wire::Nack cookie;
  cookie.code = static_cast<std::uint8_t>(wire::NackCode::kNewStartPsn);
  cookie.psn = static_cast<std::uint32_t>(a->first_psn.value);
  cookie.payload = cookie.psn ^ 0x12345678;
  on_hello_nack(pair.a.context(), *a, cookie, pair.network.now());
  ASSERT_TRUE(accept_request(pair.b.context(), *b, with_crc(), {}, pair.network.now()).ok());
  for (int i = 0; i < 1000 && b->phase != Phase::kOpen; ++i)
    pair.step();
  ASSERT_EQ(a->phase, Phase::kOpen) << a->error;
  Memory from(pair.a, 1000);
  Memory to(pair.b, 1000);
  const Sge source = from.piece(0, 1000);
  ASSERT_TRUE(pair.a.post({.conn = a->id,
                           .kind = OpKind::kWrite,
                           .local = {&source, 1},
                           .remote_key = to.region.remote.key}));
  EXPECT_TRUE(run_until(pair, 1, 0, 10000));
  EXPECT_EQ(b->counters.out_of_window_received, 0U);
}

// A super-packet may end with an acknowledgement, or with a packet for somebody else.
TEST(PacketEngine, DataIsAcknowledgedWhateverEndsItsSuperPacket) {
  EnginePair pair;
  ASSERT_TRUE(pair.open(with_crc()));
  Memory from(pair.a, 1000);
  Memory to(pair.b, 1000);
  const Sge source = from.piece(0, 1000);
  ASSERT_TRUE(pair.a.post({.conn = pair.at_a->id,
                           .kind = OpKind::kWrite,
                           .local = {&source, 1},
                           .remote_key = to.region.remote.key}));
  TxPacket sent;
  ASSERT_EQ(pair.a.io().reserve({&sent, 1}), 1U);
  ASSERT_EQ(pair.a.engine().poll_transmit({&sent, 1}, pair.network.now()), 1U);
  std::vector<std::byte> bytes(sent.header.begin(), sent.header.end());
  bytes.insert(bytes.end(), sent.payload[0].begin(), sent.payload[0].end());
  bytes.insert(bytes.end(), sent.trailer.begin(), sent.trailer.begin() + sent.trailer_bytes);
  const std::array<std::byte, 1> other{};
  const RxPacket super_packet[] = {
      {.bytes = bytes, .source = pair.a.address(), .ends_burst = false},
      {.bytes = other, .source = pair.a.address(), .ends_burst = true}};
  const AckState& ack = pair.at_b->receive->ack;
  pair.b.engine().on_packets({super_packet, 1}, pair.network.now());
  EXPECT_EQ(ack.trigger_count, 0);
  pair.b.engine().on_packets({super_packet + 1, 1}, pair.network.now());
  EXPECT_EQ(ack.trigger_count, 1);
}

// It was acknowledged behind a hole that never closed: the peer flushes its RECEIVE, so it must not
// count as received here.
TEST(PacketEngine, WhatArrivedBehindAHoleIsFlushedWithIt) {
  EnginePair pair;
  ASSERT_TRUE(pair.open(with_crc()));
  Memory from(pair.a, 1000);
  const Sge source = from.piece(0, 1000);
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(
        pair.a.post({.conn = pair.at_a->id, .kind = OpKind::kWrite, .local = {&source, 1}}));
  pair.at_a->send->queue.requests[1].state = Request::State::kFinished;
  fail_connection(pair.a.context(), *pair.at_a, OpStatus::kFlushed, "its deadline passed");
  pair.a.take_completions(pair.a_done);
  ASSERT_EQ(pair.a_done.size(), 3U);
  for (const Completion& done : pair.a_done)
    EXPECT_EQ(done.status, OpStatus::kFlushed);
}

// Random bytes, and valid packets with some bytes changed, sent from the peer's own address.
TEST(PacketEngine, HostilePacketsAreCountedAndTheHonestConnectionLives) {
  EnginePair pair;
  ASSERT_TRUE(pair.open(with_crc()));
  Memory from(pair.a, 200000);
  Memory to(pair.b, 200000);
  const Sge source = from.piece(0, 200000);
  std::mt19937_64 rng(7);
  std::vector<std::byte> payload(2048);
  const NetAddress target = pair.b.address();
  for (int round = 0; round < 3000; ++round) {
    if (round % 10 == 0) {
      ASSERT_TRUE(pair.a.post({.conn = pair.at_a->id,
                               .kind = OpKind::kWrite,
                               .local = {&source, 1},
                               .remote_key = to.region.remote.key}));
    }
    TxPacket packet;
    ASSERT_EQ(pair.a.io().reserve({&packet, 1}), 1U);
    const std::size_t bytes = 1 + rng() % 120;
    packet.header = packet.header.first(std::min<std::size_t>(bytes, kMaxHeaderBytes));
    for (std::byte& one : packet.header)
      one = static_cast<std::byte>(rng());
    if (packet.header.size() >= 12 && rng() % 4 != 0) {
      // A plausible prologue and the right connection ids.
      const unsigned types[] = {2, 13, 7, 8, 10, 11};
      packet.header[0] = static_cast<std::byte>(types[rng() % 6] << 3 | rng() % 8);
      packet.header[8] = std::byte{0};
      packet.header[9] = static_cast<std::byte>(pair.at_a->pdcid);
      packet.header[10] = std::byte{0};
      packet.header[11] = static_cast<std::byte>(pair.at_b->pdcid);
    }
    const std::size_t more = rng() % 2 == 0 ? 0 : rng() % payload.size();
    packet.payload[0] = std::span<const std::byte>(payload).first(more);
    packet.payload_pieces = more == 0 ? 0 : 1;
    packet.to = &target;
    pair.a.io().send({&packet, 1});
    ++pair.a.context().transmissions;
    pair.step();
    pair.a.take_completions(pair.a_done);
  }
  ASSERT_TRUE(run_until(pair, 300, 0)) << pair.at_a->error << pair.at_b->error;
  for (const Completion& done : pair.a_done)
    EXPECT_EQ(done.status, OpStatus::kOk);
  EXPECT_EQ(pair.at_a->phase, Phase::kOpen);
  EXPECT_EQ(pair.at_b->phase, Phase::kOpen);
  EXPECT_GT(pair.at_b->counters.crc_errors, 100U);
  EXPECT_GT(pair.b.context().counters.malformed_strangers, 100U);
}

}  // namespace
}  // namespace spindrift::test
