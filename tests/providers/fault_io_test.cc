// The fault wrapper over a perfect network: how much harm, to whom, and that it repeats.
#include "providers/wrap/fault_io.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "providers/memory/memory_network.h"

namespace spindrift {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;

constexpr std::size_t kPackets = 20000;
constexpr std::size_t kBytes = 64;

class Values final : public CounterWriter {
 public:
  void counter(std::string_view name, std::uint64_t value) override {
    values[std::string(name)] = value;
  }
  std::map<std::string, std::uint64_t> values;
};

struct Arrival {
  std::uint64_t index = 0;
  Time at{};
  bool is_intact = false;
};

class FaultIoTest : public ::testing::Test {
 protected:
  void open(const FaultConfig& config, bool copies_on_send = true) {
    network_ = std::make_unique<MemoryNetwork>(MemoryNetworkConfig{});
    MemoryHostConfig host;
    host.addresses = {parse_net_address("10.0.0.1", 0).value()};
    host.copies_on_send = copies_on_send;
    sender_ = wrap_with_faults(network_->add_host(host), config);
    ASSERT_TRUE(sender_->add_rail(host.addresses[0]).ok());
    ASSERT_TRUE(sender_->open_entropies(0, 8).ok());
    host.addresses = {parse_net_address("10.0.0.2", 0).value()};
    receiver_ = network_->add_host(host);
    ASSERT_TRUE(receiver_->add_rail(host.addresses[0]).ok());
  }
  void open(const std::string& spec) {
    const auto config = parse_fault_spec(spec);
    ASSERT_TRUE(config.ok()) << config.error().message();
    open(config.value());
  }

  void advance(Duration by) {
    const Time target = network_->now() + by;
    while (network_->now() < target) {
      network_->advance_to(std::min(network_->now() + std::chrono::microseconds(1), target));
      std::array<RxPacket, 1> none{};
      ASSERT_EQ(sender_->receive(none), 0U);
      take();
    }
  }

  void take() {
    std::array<RxPacket, 64> packets{};
    std::size_t count = 0;
    while ((count = receiver_->receive(packets)) > 0) {
      for (const RxPacket& packet : std::span(packets).first(count)) {
        Arrival arrival{0, packet.arrival, packet.bytes.size() == kBytes};
        std::memcpy(&arrival.index, packet.bytes.data(), sizeof arrival.index);
        for (const std::byte byte : packet.bytes.subspan(8)) {
          arrival.is_intact = arrival.is_intact && byte == std::byte{0x33};
        }
        arrival.is_intact = arrival.is_intact && arrival.index < sent_;
        arrivals_.push_back(arrival);
      }
      receiver_->release(std::span(packets).first(count));
    }
  }

  void send_one(std::uint16_t entropy) {
    std::array<TxPacket, 1> packets{};
    ASSERT_EQ(sender_->reserve(packets), 1U);
    packets[0].header = packets[0].header.first(kBytes);
    std::fill(packets[0].header.begin(), packets[0].header.end(), std::byte{0x33});
    std::memcpy(packets[0].header.data(), &sent_, sizeof sent_);
    packets[0].to = &receiver_->rails()[0];
    packets[0].entropy = entropy;
    sender_->send(packets);
    ++sent_;
  }

  void send_many(std::size_t count = kPackets) {
    for (std::size_t i = 0; i < count; ++i) {
      send_one(static_cast<std::uint16_t>(i % 8));
      if (i % 16 == 15) advance(std::chrono::microseconds(1));
    }
    advance(std::chrono::milliseconds(2));
  }

  std::uint64_t counted(const std::string& name) {
    Values values;
    sender_->counters(values);
    return values.values[name];
  }

  std::unique_ptr<MemoryNetwork> network_;
  std::unique_ptr<FaultIo> sender_;
  std::unique_ptr<PacketIo> receiver_;
  std::uint64_t sent_ = 0;
  std::vector<Arrival> arrivals_;
};

TEST_F(FaultIoTest, LosesTheShareAskedFor) {
  open("loss=2%,seed=11");
  send_many();
  // 400 expected; five standard deviations are 99.
  EXPECT_THAT(counted("fault_lost_packets"), AllOf(Ge(300U), Le(500U)));
  EXPECT_EQ(arrivals_.size(), kPackets - counted("fault_lost_packets"));
}

TEST_F(FaultIoTest, DuplicatesTheShareAskedFor) {
  open("duplicate=0.05,seed=3");
  send_many();
  EXPECT_THAT(counted("fault_duplicated_packets"), AllOf(Ge(850U), Le(1150U)));
  EXPECT_EQ(arrivals_.size(), kPackets + counted("fault_duplicated_packets"));
}

TEST_F(FaultIoTest, CorruptsCopiesAndNotTheCallersMemory) {
  open("corrupt=5%,seed=5");
  send_many();
  EXPECT_THAT(counted("fault_corrupted_packets"), AllOf(Ge(850U), Le(1150U)));
  EXPECT_EQ(arrivals_.size(), kPackets);
  // A flipped index that is still a valid one does not show.
  const auto harmed = static_cast<std::uint64_t>(std::count_if(
      arrivals_.begin(), arrivals_.end(), [](const Arrival& one) { return !one.is_intact; }));
  EXPECT_LE(harmed, counted("fault_corrupted_packets"));
  EXPECT_GE(harmed, counted("fault_corrupted_packets") * 8 / 10);
}

TEST_F(FaultIoTest, ReordersByThePacketsAskedForAndLosesNone) {
  open("reorder=5%,reorder_packets=4,seed=9");
  send_many();
  EXPECT_THAT(counted("fault_reordered_packets"), AllOf(Ge(850U), Le(1150U)));
  ASSERT_EQ(arrivals_.size(), kPackets);
  std::uint64_t newest = 0;
  std::uint64_t late = 0;
  std::uint64_t latest_by = 0;
  for (const Arrival& one : arrivals_) {
    if (one.index < newest) {
      ++late;
      latest_by = std::max(latest_by, newest - one.index);
    }
    newest = std::max(newest, one.index);
  }
  EXPECT_GE(late, counted("fault_reordered_packets") * 9 / 10);
  EXPECT_GE(latest_by, 4U);
  EXPECT_LE(latest_by, 12U);
}

TEST_F(FaultIoTest, ReleasesAReorderedPacketInTimeWhenNoneFollows) {
  open("reorder=100%,reorder_time=50us");
  send_one(0);
  advance(std::chrono::microseconds(54));
  EXPECT_TRUE(arrivals_.empty());
  EXPECT_FALSE(network_->next_event() == kNever);
  advance(std::chrono::microseconds(2));
  EXPECT_EQ(arrivals_.size(), 1U);
}

TEST_F(FaultIoTest, DelaysByTheTimeAskedFor) {
  open("delay=100us,jitter=50us,seed=2");
  const Time start = network_->now();
  for (int i = 0; i < 200; ++i)
    send_one(0);
  EXPECT_TRUE(sender_->has_unsent());
  advance(std::chrono::microseconds(200));
  EXPECT_FALSE(sender_->has_unsent());
  ASSERT_EQ(arrivals_.size(), 200U);
  // 5 us in the network, and the wrapper looks at the clock once a microsecond here.
  for (const Arrival& one : arrivals_) {
    EXPECT_GE(one.at - start, std::chrono::microseconds(105));
    EXPECT_LE(one.at - start, std::chrono::microseconds(156));
  }
  EXPECT_GT(arrivals_.back().at - arrivals_.front().at, std::chrono::microseconds(30));
}

TEST_F(FaultIoTest, SwallowsABlackholesEntropiesForItsTimeOnly) {
  open("blackhole=ev2-3@10us+20us");
  for (int i = 0; i < 40; ++i) {
    for (std::uint16_t entropy = 0; entropy < 8; ++entropy)
      send_one(entropy);
    advance(std::chrono::microseconds(1));
  }
  advance(std::chrono::microseconds(10));
  EXPECT_EQ(counted("fault_blackholed_packets"), 40U);
  EXPECT_EQ(arrivals_.size(), 40U * 8 - 40);
}

TEST_F(FaultIoTest, TouchesTheChosenPathsAlone) {
  open("loss=100%,paths=0-3");
  send_many(800);
  EXPECT_EQ(counted("fault_lost_packets"), 400U);
  for (const Arrival& one : arrivals_)
    EXPECT_GE(one.index % 8, 4U);
}

TEST_F(FaultIoTest, RepeatsWithTheSameSeed) {
  const std::string faults = "loss=5%,duplicate=5%,reorder=5%,corrupt=5%,jitter=20us,seed=";
  std::vector<std::vector<std::uint64_t>> histories;
  for (const char* seed : {"7", "7", "8"}) {
    sent_ = 0;
    arrivals_.clear();
    sender_.reset();
    receiver_.reset();
    open(faults + seed);
    send_many(2000);
    std::vector<std::uint64_t> history;
    for (const Arrival& one : arrivals_)
      history.push_back(one.index);
    histories.push_back(history);
  }
  EXPECT_EQ(histories[0], histories[1]);
  EXPECT_NE(histories[0], histories[2]);
}

TEST_F(FaultIoTest, ReleasesPayloadOnlyWhenTheInnerProviderHas) {
  open(FaultConfig{}, false);
  send_one(0);
  EXPECT_EQ(sender_->released(), 0U);
  advance(std::chrono::microseconds(6));
  EXPECT_EQ(sender_->released(), 1U);
}

TEST_F(FaultIoTest, ReleasesPayloadOfHeldAndLostPacketsAtOnce) {
  FaultConfig config;
  config.delay = std::chrono::milliseconds(1);
  open(config, false);
  send_one(0);
  EXPECT_EQ(sender_->released(), 1U);
  config = FaultConfig{};
  config.loss = 1;
  sender_->set_faults(config);
  send_one(0);
  EXPECT_EQ(sender_->released(), 2U);
}

TEST_F(FaultIoTest, CountsWhatItHasNoRoomToHoldAsDropped) {
  open("delay=10s");
  for (int i = 0; i < 9000; ++i)
    send_one(0);
  EXPECT_EQ(counted("fault_overflow_packets") + counted("fault_delayed_packets"), 9000U);
  EXPECT_GT(counted("fault_overflow_packets"), 0U);
}

TEST(FaultSpec, ReadsEveryKey) {
  const auto config = parse_fault_spec(
      "loss=1%,duplicate=0.5%,reorder=5%,corrupt=0.25,delay=100us,jitter=1.5ms,"
      "blackhole=ev3@100ms+2s,blackhole=ev4-5@0s+1us,seed=7,paths=0-3,rails=1,"
      "reorder_packets=9,reorder_time=3ns");
  ASSERT_TRUE(config.ok()) << config.error().message();
  const FaultConfig& faults = config.value();
  EXPECT_DOUBLE_EQ(faults.loss, 0.01);
  EXPECT_DOUBLE_EQ(faults.duplicate, 0.005);
  EXPECT_DOUBLE_EQ(faults.corrupt, 0.25);
  EXPECT_EQ(faults.delay, std::chrono::microseconds(100));
  EXPECT_EQ(faults.jitter, std::chrono::microseconds(1500));
  ASSERT_EQ(faults.blackholes.size(), 2U);
  EXPECT_EQ(faults.blackholes[0].entropies.first, 3U);
  EXPECT_EQ(faults.blackholes[0].entropies.last, 3U);
  EXPECT_EQ(faults.blackholes[0].start, std::chrono::milliseconds(100));
  EXPECT_EQ(faults.blackholes[0].length, std::chrono::seconds(2));
  EXPECT_EQ(faults.blackholes[1].entropies.last, 5U);
  EXPECT_EQ(faults.seed, 7U);
  EXPECT_EQ(faults.entropies.last, 3U);
  EXPECT_EQ(faults.rails.first, 1U);
  EXPECT_EQ(faults.reorder_packets, 9U);
  EXPECT_EQ(faults.reorder_time, std::chrono::nanoseconds(3));
  EXPECT_TRUE(parse_fault_spec("").ok());
}

TEST(FaultSpec, RefusesWithTheItemAndTheKnownKeys) {
  for (const char* spec : {"los=1%",
                           "loss",
                           "loss=",
                           "loss=101%",
                           "loss=-1%",
                           "loss=nan",
                           "loss=1%x",
                           "delay=5",
                           "delay=11s",
                           "delay=-1us",
                           "jitter=us",
                           "paths=3-1",
                           "paths=256",
                           "paths=-",
                           "seed=-1",
                           "seed=x",
                           "reorder_packets=0",
                           "reorder_packets=1025",
                           "blackhole=3@1s+1s",
                           "blackhole=ev3@1s",
                           "blackhole=ev3+1s@1s",
                           "blackhole=ev@1s+1s",
                           "loss=1%,,",
                           "=1"}) {
    const auto config = parse_fault_spec(spec);
    ASSERT_FALSE(config.ok()) << spec;
    EXPECT_EQ(config.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(config.error().message(), HasSubstr("duplicate")) << spec;
  }
}

}  // namespace
}  // namespace spindrift
