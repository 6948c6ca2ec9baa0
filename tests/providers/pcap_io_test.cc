// Captures, read back by libpcap and by tshark where it is installed.
#include "providers/wrap/pcap_io.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <pcap/pcap.h>
#include <unistd.h>

#include "providers/memory/memory_network.h"

namespace spindrift {
namespace {

using Frame = std::vector<unsigned char>;

std::size_t get16(const Frame& frame, std::size_t at) {
  return static_cast<std::size_t>(frame[at]) << 8U | frame[at + 1];
}

// Zero over bytes that include their own checksum.
unsigned checksum_error(const Frame& frame, std::size_t from, std::size_t to,
                        std::size_t extra = 0) {
  std::size_t sum = extra;
  for (std::size_t i = from; i < to; i += 2) {
    sum += static_cast<std::size_t>(frame[i]) << 8U | (i + 1 < to ? frame[i + 1] : 0U);
  }
  while (sum >> 16U != 0)
    sum = (sum & 0xffffU) + (sum >> 16U);
  return static_cast<unsigned>(~sum & 0xffffU);
}

class Values final : public CounterWriter {
 public:
  void counter(std::string_view name, std::uint64_t value) override {
    values[std::string(name)] = value;
  }
  std::map<std::string, std::uint64_t> values;
};

class PcapIoTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "/pcap_io_" + std::to_string(getpid()) + ".pcap";
    const bool is_v6 = GetParam() == 6;
    for (std::size_t i = 0; i < 2; ++i) {
      MemoryHostConfig host;
      host.addresses = {
          parse_net_address(
              (is_v6 ? "[fd00::" : "10.0.0.") + std::to_string(i + 1) + (is_v6 ? "]:0" : ":0"), 0)
              .value()};
      hosts_[i] = network_.add_host(host);
      if (i == 0) wrap(path_);
      ASSERT_TRUE(hosts_[i]->add_rail(host.addresses[0]).ok());
      ASSERT_TRUE(hosts_[i]->open_entropies(0, 4).ok());
    }
  }
  void TearDown() override { std::remove(path_.c_str()); }

  void wrap(const std::string& path) {
    auto wrapped = wrap_with_capture(std::move(hosts_[0]), path, false);
    ASSERT_TRUE(wrapped.ok()) << wrapped.error().message();
    hosts_[0] = std::move(wrapped).value();
  }

  void send(std::size_t from, std::size_t bytes) {
    const std::vector<std::byte> payload(bytes, std::byte{0x77});
    std::array<TxPacket, 1> packets{};
    ASSERT_EQ(hosts_[from]->reserve(packets), 1U);
    packets[0].header = packets[0].header.first(0);
    packets[0].payload[0] = payload;
    packets[0].payload_pieces = 1;
    packets[0].to = &hosts_[1 - from]->rails()[0];
    packets[0].entropy = 3;
    packets[0].dscp = 46;
    packets[0].ecn = Ecn::kEct0;
    hosts_[from]->send(packets);
    network_.advance_to(network_.now() + std::chrono::microseconds(10));
    std::array<RxPacket, 4> received{};
    const std::size_t count = hosts_[1 - from]->receive(received);
    ASSERT_EQ(count, 1U);
    hosts_[1 - from]->release(std::span(received).first(count));
  }

  std::vector<Frame> read_back() {
    hosts_[0].reset();  // closes the file
    std::vector<Frame> frames;
    char why[PCAP_ERRBUF_SIZE];
    pcap_t* pcap = pcap_open_offline(path_.c_str(), why);
    EXPECT_NE(pcap, nullptr) << why;
    if (pcap == nullptr) return frames;
    EXPECT_EQ(pcap_datalink(pcap), DLT_RAW);
    pcap_pkthdr* header = nullptr;
    const u_char* bytes = nullptr;
    while (pcap_next_ex(pcap, &header, &bytes) == 1) {
      EXPECT_EQ(header->caplen, header->len);
      frames.emplace_back(bytes, bytes + header->caplen);
    }
    pcap_close(pcap);
    return frames;
  }

  std::string path_;
  MemoryNetwork network_{MemoryNetworkConfig{}};
  std::array<std::unique_ptr<PacketIo>, 2> hosts_{};
};

TEST_P(PcapIoTest, WritesBothDirectionsWithTrueHeaders) {
  send(0, 101);
  send(1, 50);
  const std::size_t port = hosts_[0]->rails()[0].port;
  const std::size_t peer_port = hosts_[1]->rails()[0].port;
  const auto frames = read_back();
  ASSERT_EQ(frames.size(), 2U);
  const bool is_v6 = GetParam() == 6;
  const std::size_t udp = is_v6 ? 40 : 20;
  const std::array<std::size_t, 2> payload_bytes{101, 50};
  for (std::size_t i = 0; i < 2; ++i) {
    const Frame& frame = frames[i];
    ASSERT_EQ(frame.size(), udp + 8 + payload_bytes[i]);
    const unsigned traffic_class = is_v6 ? ((frame[0] & 0xfU) << 4U | frame[1] >> 4U) : frame[1];
    EXPECT_EQ(traffic_class, 46U << 2U | 2U);
    EXPECT_EQ(get16(frame, udp + 4), 8 + payload_bytes[i]);
    if (!is_v6) {
      EXPECT_EQ(checksum_error(frame, 0, 20), 0U);
    }
    EXPECT_EQ(checksum_error(frame, is_v6 ? 8 : 12, frame.size(), 17 + frame.size() - udp), 0U);
    EXPECT_EQ(frame.back(), 0x77);
  }
  EXPECT_EQ(get16(frames[0], udp), 49152U + 3);
  EXPECT_EQ(get16(frames[0], udp + 2), peer_port);
  EXPECT_EQ(get16(frames[1], udp + 2), port);
}

TEST_P(PcapIoTest, IsReadByTshark) {
  if (std::system("command -v tshark > /dev/null 2>&1") != 0) {
    GTEST_SKIP() << "tshark is not installed";
  }
  send(0, 1000);
  send(1, 8900);
  ASSERT_EQ(read_back().size(), 2U);
  const std::string command =
      "tshark -r " + path_ +
      " -o ip.check_checksum:TRUE -o udp.check_checksum:TRUE -T fields -e udp.length"
      " -e udp.checksum.status 2>/dev/null";
  FILE* output = popen(command.c_str(), "r");
  ASSERT_NE(output, nullptr);
  std::string text;
  for (int c = 0; (c = std::fgetc(output)) != EOF;)
    text.push_back(static_cast<char>(c));
  pclose(output);
  EXPECT_EQ(text, "1008\t1\n8908\t1\n");  // 1: good
}

TEST_P(PcapIoTest, EndsTheCaptureAndNotTheTrafficWhenTheDiskIsFull) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full";
  wrap("/dev/full");
  for (int i = 0; i < 100; ++i)
    send(0, 1000);
  Values values;
  hosts_[0]->counters(values);
  EXPECT_EQ(values.values["tx_packets"], 100U);
  EXPECT_EQ(values.values["capture_write_errors"], 1U);
}

TEST_P(PcapIoTest, SaysWhyAFileCannotBeWritten) {
  const auto wrapped = wrap_with_capture(std::move(hosts_[0]), "/nonexistent/folder/x.pcap");
  ASSERT_FALSE(wrapped.ok());
  EXPECT_NE(wrapped.error().message().find("/nonexistent/folder/x.pcap"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Families, PcapIoTest, ::testing::Values(4, 6));

}  // namespace
}  // namespace spindrift
