// Runs against single packets: the same burst, harmed in the same way, leaves a receiver in the
// same state whether its packets are taken in together or one by one.
#include <cstring>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/transport/engine_host.h"

namespace spindrift::test {
namespace {

constexpr std::uint32_t kMtu = 1024;
constexpr std::size_t kMessage = 40 * std::size_t{kMtu} + 77;

struct Arrival {
  std::vector<std::byte> bytes;
  Ecn ecn = Ecn::kEct0;
  bool ends_burst = true;
};

// One connection; b has memory and RECEIVEs, a sends one message of `kind`.
class Side {
 public:
  explicit Side(bool has_crc) : from_(kMessage), to_(kMessage) {
    ConnectOptions options;
    options.crc = has_crc ? CrcChoice::kOn : CrcChoice::kOff;
    options.path_count = 1;
    options.path_selector = "single";
    options.max_payload_mtu = kMtu;
    options.congestion_control = "fixed_window";
    is_open_ = pair_.open(options, 1000);
    for (std::size_t i = 0; i < from_.size(); ++i)
      from_[i] = static_cast<std::byte>(i * 7 >> 3);
    source_ = pair_.a.context().memory.add(from_, kAllAccess, {}, 1).value();
    target_ = pair_.b.context().memory.add(to_, kAllAccess, {}, 2).value();
  }
  bool is_open() const { return is_open_; }

  std::vector<Arrival> send(OpKind kind, int messages) {
    const Sge source = sge_of(source_, 0, kMessage);
    const Sge target = sge_of(target_, 0, kMessage);
    std::vector<Arrival> out;
    for (int i = 0; i < messages; ++i) {
      EXPECT_TRUE(
          pair_.b.post({.conn = pair_.at_b->id, .kind = OpKind::kReceive, .local = {&target, 1}}));
      pair_.at_a->send->peer_credits = pair_.at_b->receives->credits();
      EXPECT_TRUE(pair_.a.post({.conn = pair_.at_a->id,
                                .kind = kind,
                                .local = {&source, 1},
                                .remote_key = target_.remote.key}));
    }
    while (take_burst(out)) {
    }
    return out;
  }
  // Handed to b's engine, `at_once` packets a call.
  void arrive(const std::vector<Arrival>& burst, std::size_t at_once) {
    std::vector<RxPacket> packets;
    for (const Arrival& one : burst)
      packets.push_back({.bytes = one.bytes,
                         .source = pair_.a.address(),
                         .ecn = one.ecn,
                         .ends_burst = one.ends_burst});
    for (std::size_t i = 0; i < packets.size(); i += at_once)
      pair_.b.engine().on_packets(
          std::span(packets).subspan(i, std::min(at_once, packets.size() - i)),
          pair_.network.now());
    pair_.b.take_completions(pair_.b_done);
  }
  // Everything that can be seen of the receiver.
  std::vector<std::uint64_t> state() const {
    const ReceiveState& receive = *pair_.at_b->receive;
    const ConnectionCounters& n = pair_.at_b->counters;
    std::vector<std::uint64_t> out = {receive.log.cumulative().value,
                                      receive.log.newest().value,
                                      receive.log.out_of_order(),
                                      receive.ack.received_nominal_bytes,
                                      receive.ack.duplicates,
                                      static_cast<std::uint64_t>(pair_.at_b->phase),
                                      n.packets_received,
                                      n.bytes_received,
                                      n.duplicates_received,
                                      n.out_of_window_received,
                                      n.marked_received,
                                      n.crc_errors,
                                      n.receiver_not_ready,
                                      n.requests_refused,
                                      pair_.b_done.size()};
    for (const Completion& done : pair_.b_done)
      out.push_back(done.bytes + static_cast<std::uint64_t>(done.status) * 1000000);
    return out;
  }
  const std::vector<std::byte>& received() const { return to_; }
  const std::vector<std::byte>& sent() const { return from_; }
  Connection& receiver() { return *pair_.at_b; }

 private:
  bool take_burst(std::vector<Arrival>& out) {
    TxPacket tx[64];
    const std::size_t reserved = pair_.a.io().reserve(tx);
    const std::size_t count = pair_.a.engine().poll_transmit({tx, reserved}, pair_.network.now());
    for (std::size_t i = 0; i < count; ++i) {
      Arrival& one = out.emplace_back();
      const auto add = [&one](std::span<const std::byte> piece) {
        one.bytes.insert(one.bytes.end(), piece.begin(), piece.end());
      };
      add(tx[i].header);
      for (std::size_t k = 0; k < tx[i].payload_pieces; ++k)
        add(tx[i].payload[k]);
      add(std::span(tx[i].trailer).first(tx[i].trailer_bytes));
    }
    return count != 0;
  }

  EnginePair pair_;
  std::vector<std::byte> from_;
  std::vector<std::byte> to_;
  MemoryRegion source_;
  MemoryRegion target_;
  bool is_open_ = false;
};

using Random = std::minstd_rand;

std::size_t below(Random& random, std::size_t limit) {
  return random() % limit;
}

void damage(std::vector<Arrival>& burst, Random& random) {
  std::vector<std::byte>& bytes = burst[below(random, burst.size())].bytes;
  bytes[below(random, 60)] ^= static_cast<std::byte>(1U << below(random, 8));
}

// A few times one of: lost, doubled, swapped, damaged in its headers, marked, cut short.
std::vector<Arrival> harmed(std::vector<Arrival> burst, Random& random) {
  for (std::size_t left = below(random, 5); left != 0 && burst.size() > 2; --left) {
    const std::size_t at = below(random, burst.size() - 1);
    const auto here = burst.begin() + static_cast<std::ptrdiff_t>(at);
    switch (below(random, 6)) {
      case 0:
        burst.erase(here);
        break;
      case 1:
        burst.insert(here, Arrival(burst[below(random, burst.size())]));
        break;
      case 2:
        std::swap(burst[at], burst[below(random, burst.size())]);
        break;
      case 3:
        damage(burst, random);
        break;
      case 4:
        burst[at].ecn = Ecn::kCe;
        break;
      default:
        burst[at].bytes.resize(burst[at].bytes.size() - below(random, 50));
        break;
    }
  }
  const std::size_t super_packet = 1 + below(random, 20);
  for (std::size_t i = 0; i < burst.size(); ++i)
    burst[i].ends_burst = (i + 1) % super_packet == 0 || i + 1 == burst.size();
  return burst;
}

class DataRuns : public testing::TestWithParam<std::tuple<OpKind, bool>> {};

TEST_P(DataRuns, LeaveTheReceiverAsSinglePacketsDo) {
  const auto [kind, has_crc] = GetParam();
  for (unsigned seed = 1; seed <= 100; ++seed) {
    Side together(has_crc);
    Side one_by_one(has_crc);
    ASSERT_TRUE(together.is_open() && one_by_one.is_open());
    const std::vector<Arrival> plain = together.send(kind, 2);
    ASSERT_GT(plain.size(), 80U);
    static_cast<void>(one_by_one.send(kind, 2));
    Random random(seed);
    const std::vector<Arrival> burst = harmed(plain, random);
    together.arrive(burst, 64);
    one_by_one.arrive(burst, 1);
    ASSERT_EQ(together.state(), one_by_one.state()) << "seed " << seed;
    ASSERT_TRUE(together.received() == one_by_one.received()) << "seed " << seed;
  }
}

TEST_P(DataRuns, AnUnharmedBurstIsWholeAndInPlace) {
  const auto [kind, has_crc] = GetParam();
  Side side(has_crc);
  ASSERT_TRUE(side.is_open());
  side.arrive(side.send(kind, 1), 64);
  EXPECT_TRUE(side.received() == side.sent());
  EXPECT_EQ(side.receiver().counters.packets_received, kMessage / kMtu + 1);
  EXPECT_EQ(side.receiver().counters.requests_refused, 0U);
}

INSTANTIATE_TEST_SUITE_P(All, DataRuns,
                         testing::Combine(testing::Values(OpKind::kWrite, OpKind::kSend,
                                                          OpKind::kWriteImm),
                                          testing::Bool()));

}  // namespace
}  // namespace spindrift::test
