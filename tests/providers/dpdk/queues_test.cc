// Several queues, endpoints, threads and devices in one process.
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "providers/dpdk/dpdk_io.h"
#include "providers/dpdk/frame_parse.h"
#include "providers/dpdk/port_device.h"
#include "tests/providers/dpdk/dpdk_pair.h"
#include "transport/base/unique_fd.h"

namespace spindrift::testing {
namespace {

constexpr std::uint64_t kPackets = 20000;
constexpr std::uint64_t kAhead = 64;  // that may be under way to one endpoint

// Cable 0 or 1 of memif, each with a host at either end. The device of host 0 listens.
DeviceOptions device(std::size_t cable, std::size_t host) {
  DeviceOptions options;
  options.device = "net_memif" + std::to_string(2 + 2 * cable + host);
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

class DpdkQueues : public ::testing::TestWithParam<std::string> {};

// Each thread has an endpoint of its own at either end, and sends to that of the other: what comes
// to the wrong queue is handed over between the threads. af_packet's queues are filled by the
// kernel's hash of addresses and ports.
TEST_P(DpdkQueues, TwoThreadsOnOneDeviceGetWhatIsTheirs) {
  const std::string reason = reason_to_skip_dpdk_pair(GetParam());
  if (!reason.empty()) GTEST_SKIP() << reason;
  const auto pair = make_dpdk_pair(GetParam(), {.queues = 2});
  const std::array<DeviceOptions, 2> devices = {pair->options(0), pair->options(1)};
  std::array<std::unique_ptr<PacketIo>, 2> senders;
  std::array<std::unique_ptr<PacketIo>, 2> receivers;
  for (auto& one : senders)
    one = open({&devices[0], 1});
  for (auto& one : receivers)
    one = open({&devices[1], 1});
  pair->connect();
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

INSTANTIATE_TEST_SUITE_P(Links, DpdkQueues, ::testing::Values("memif", "vhost", "af_packet"),
                         [](const auto& one) { return one.param; });

bool run(const std::string& command) {
  return std::system((command + " > /dev/null 2>&1").c_str()) == 0;
}

// Of a tap with two queues, whose kernel end has the address of a neighbour.
DeviceOptions tap_device() {
  DeviceOptions options;
  options.device = "net_tap0";
  options.arguments = "iface=sdq" + std::to_string(getpid());
  options.queues = 2;
  options.ring = 512;
  options.nets.push_back({dpdk_address(4, 0, 0), 24});
  return options;
}

std::string reason_to_skip_rules() {
  if (geteuid() != 0) return "NOT TESTED: tap needs root";
  const bool has_rules =
      run("ip tuntap add sdprobe3 mode tap multi_queue && tc qdisc add dev sdprobe3 handle 1: root "
          "multiq && "
          "tc filter add dev sdprobe3 parent 1: protocol ip flower ip_proto udp dst_port 9 action "
          "skbedit queue_mapping 1");
  run("ip link del sdprobe3");
  return has_rules ? std::string()
                   : "NOT TESTED: rules need tap, multiq, flower and skbedit of the kernel (./dev "
                     "vm-test has them)";
}

// Sockets of the kernel's at the other end send a word each to this port.
void send_words(const NetAddress& to, int sockets) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = __builtin_bswap16(to.port);
  std::memcpy(&address.sin_addr, to.ip.data(), 4);
  for (int i = 0; i < sockets; ++i) {
    const UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(
        sendto(fd.get(), "word", 4, 0, reinterpret_cast<const sockaddr*>(&address), sizeof address),
        4);
  }
}

// Packets for a UDP port that come to a queue within a while.
int words_in(PortDevice& device, std::uint16_t queue, std::uint16_t port, int wanted) {
  int count = 0;
  for (int tries = 0; tries < 2000 && count < wanted; ++tries) {
    rte_mbuf* frame = nullptr;
    if (device.receive(queue, {&frame, 1}) == 0) {
      usleep(1000);
      continue;
    }
    ParsedFrame parsed;
    const FrameVerdict verdict = parse_frame(
        {rte_pktmbuf_mtod(frame, const std::byte*), rte_pktmbuf_data_len(frame)}, parsed);
    if (verdict == FrameVerdict::kUdp && parsed.destination_port == port) ++count;
    rte_pktmbuf_free(frame);
  }
  return count;
}

// The driver's own hash would spread them over both queues.
TEST(DpdkSteering, BringsPacketsToTheQueueOfTheirAddress) {
  const std::string reason = reason_to_skip_rules();
  if (!reason.empty()) GTEST_SKIP() << reason;
  const DeviceOptions options = tap_device();
  auto device = std::move(PortDevice::open(options)).value();
  ASSERT_EQ(device->queues(), 2);
  const std::string interface = options.arguments.substr(options.arguments.find('=') + 1);
  NetAddress to = options.nets[0].address;
  ASSERT_TRUE(run("ip link set " + interface + " address 02:00:00:00:77:02 up && ip addr add " +
                  "10.77.0.9/24 dev " + interface + " && ip neigh replace " +
                  to.to_string().substr(0, to.to_string().find(':')) +
                  " lladdr 02:00:00:00:77:01 dev " + interface));
  constexpr int kSockets = 32;
  for (const std::uint16_t queue : {std::uint16_t{0}, std::uint16_t{1}}) {
    to.port = static_cast<std::uint16_t>(4793 + queue);
    rte_flow* const rule = device->steer(to, queue);
    ASSERT_NE(rule, nullptr);
    send_words(to, kSockets);
    EXPECT_EQ(words_in(*device, queue, to.port, kSockets), kSockets) << queue;
    device->stop_steering(rule);
  }
}

TEST(DpdkPorts, TwoDevicesAreTwoRails) {
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
