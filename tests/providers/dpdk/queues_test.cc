// Several queues, endpoints, threads and devices in one process, over memif.
#include <array>
#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "providers/dpdk/dpdk_io.h"
#include "tests/providers/dpdk/dpdk_pair.h"

namespace spindrift::testing {
namespace {

constexpr std::uint64_t kPackets = 20000;
constexpr std::uint64_t kAhead = 64;  // that may be under way to one endpoint

// Cable 0 or 1, each with a host at either end. The device of host 0 listens.
DeviceOptions device(std::size_t cable, std::size_t host) {
  DeviceOptions options;
  options.device = "net_memif" + std::to_string(2 * cable + host);
  options.arguments = std::string("role=") + (host == 0 ? "server" : "client") +
                      ",socket-abstract=no,rsize=9,bsize=2048,id=" + std::to_string(cable) +
                      ",socket=" + std::filesystem::temp_directory_path().string() +
                      "/spindrift-queues-" + std::to_string(getpid()) + "-" + std::to_string(cable);
  options.queues = 2;
  options.ring = 512;
  options.nets.push_back({dpdk_address(4, host, cable), 24});
  return options;
}

std::unique_ptr<PacketIo> open(std::span<const DeviceOptions> devices) {
  auto io = open_dpdk(devices);
  if (!io.ok()) {
    ADD_FAILURE() << io.error().message();
    std::abort();
  }
  for (const DeviceOptions& one : devices) {
    const auto rail = io.value()->add_rail(one.nets[0].address);
    EXPECT_TRUE(rail.ok());
    EXPECT_TRUE(io.value()->open_entropies(rail.value(), 4).ok());
  }
  return std::move(io).value();
}

std::size_t send(PacketIo& from, std::uint16_t rail, const NetAddress& to, std::size_t count) {
  static const std::vector<std::byte> payload(200, std::byte{5});
  std::array<TxPacket, 32> packets{};
  const std::size_t reserved =
      from.reserve(std::span(packets).first(std::min<std::size_t>(count, 32)));
  for (TxPacket& packet : std::span(packets).first(reserved)) {
    packet.header = packet.header.first(0);
    packet.payload[0] = payload;
    packet.payload_pieces = 1;
    packet.to = &to;
    packet.rail = rail;
  }
  from.send(std::span(packets).first(reserved));
  return reserved;
}

// Packets by the rail they came on.
std::array<std::uint64_t, 2> receive(PacketIo& io) {
  std::array<RxPacket, 32> packets{};
  std::array<std::uint64_t, 2> count{};
  const std::size_t n = io.receive(packets);
  for (const RxPacket& packet : std::span(packets).first(n))
    ++count.at(packet.rail);
  io.release(std::span(packets).first(n));
  return count;
}

// Asks until both ends of a cable know each other.
void meet(PacketIo& a, PacketIo& b) {
  for (std::uint16_t rail = 0; rail < a.rails().size(); ++rail) {
    std::uint64_t arrived = 0;
    for (int tries = 0; tries < 5000 && arrived == 0; ++tries) {
      send(a, rail, b.rails()[rail], 1);
      receive(a);
      const auto count = receive(b);
      arrived += count[0] + count[1];
      usleep(1000);
    }
    EXPECT_NE(arrived, 0U);
    for (int tries = 0; tries < 10; ++tries) {
      receive(a);
      receive(b);
    }
  }
}

// Each thread has an endpoint of its own at either end, and sends to that of the other: what comes
// to the wrong queue is handed over between the threads.
TEST(DpdkQueues, TwoThreadsOnOneDeviceGetWhatIsTheirs) {
  const std::array<DeviceOptions, 2> devices = {device(0, 0), device(0, 1)};
  std::array<std::unique_ptr<PacketIo>, 2> senders;
  std::array<std::unique_ptr<PacketIo>, 2> receivers;
  for (auto& one : senders)
    one = open({&devices[0], 1});
  for (auto& one : receivers)
    one = open({&devices[1], 1});
  meet(*senders[0], *receivers[0]);
  meet(*senders[1], *receivers[1]);
  std::array<std::atomic<std::uint64_t>, 2> arrived{};
  const auto run = [&](std::size_t self) {
    std::uint64_t sent = 0;
    const std::size_t other = 1 - self;
    for (int idle = 0; idle < 20'000'000; ++idle) {
      if (sent == kPackets && arrived[0] >= kPackets && arrived[1] >= kPackets) break;
      const std::uint64_t room = arrived[other] + kAhead - sent;
      if (sent < kPackets && room <= kAhead)
        sent +=
            send(*senders[self], 0, receivers[other]->rails()[0], std::min(room, kPackets - sent));
      receive(*senders[self]);
      arrived[self] += receive(*receivers[self])[0];
      if ((idle & 63) == 0) std::this_thread::yield();
    }
    EXPECT_EQ(sent, kPackets);
  };
  std::thread second(run, 1);
  run(0);
  second.join();
  EXPECT_EQ(arrived[0], kPackets);
  EXPECT_EQ(arrived[1], kPackets);
}

TEST(DpdkQueues, TwoDevicesAreTwoRails) {
  const std::array<DeviceOptions, 2> near = {device(0, 0), device(1, 0)};
  const std::array<DeviceOptions, 2> far = {device(0, 1), device(1, 1)};
  auto a = open(near);
  auto b = open(far);
  meet(*a, *b);
  for (const std::uint16_t rail : {std::uint16_t{0}, std::uint16_t{1}}) {
    const std::size_t count = 10U + rail;
    EXPECT_EQ(send(*a, rail, b->rails()[rail], count), count);
    std::array<std::uint64_t, 2> total{};
    for (int tries = 0; tries < 100; ++tries) {
      const auto some = receive(*b);
      total[0] += some[0];
      total[1] += some[1];
    }
    EXPECT_EQ(total.at(rail), count);
    EXPECT_EQ(total.at(1U - rail), 0U);
  }
}

}  // namespace
}  // namespace spindrift::testing
