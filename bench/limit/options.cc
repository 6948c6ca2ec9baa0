#include "bench/limit/options.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "providers/udp/udp_sender.h"

namespace spindrift::limit {
namespace {

// Of a data packet of the transport without CRC: RUD_REQ and REQ_STD.
constexpr std::uint32_t kHeaderBytes = 12 + 44;
constexpr std::uint32_t kSmallMessageBytes = 64;
constexpr std::uint32_t kMaxPacketBytes = 65507;
constexpr std::uint32_t kMaxSockets = 256;
constexpr std::uint32_t kMaxMilliseconds = 600'000;
constexpr std::uint64_t kSuperPacketBytes = UdpSender::kMaxSuperPacketBytes;
// More than the smaller caches of today's processors hold would measure memory.
constexpr std::uint64_t kMaxMemoryBytes = 1ULL << 30U;

constexpr const char* kAbout =
    "What two processes move over UDP sockets with the transport's socket options, packet sizes "
    "and "
    "super-packets, and no protocol: the yardstick for the transport";

constexpr const char* kFooter = R"(
EXAMPLES
  udp_limit                            both processes on this host: bandwidth, packets of 8832 B
  udp_limit --mtu 1408 --sockets 16    the transport's spraying over 16 source ports
  udp_limit --messages                 packets as long as those of 64-byte SENDs, per second
  udp_limit --latency --bytes 8        half a round trip of 8 bytes, both sides polling
  udp_limit server 10.0.0.2            on one host, and on the other:
  udp_limit client 10.0.0.2 --mtu 1408

RESULTS
  Bytes and packets are counted at the receiver, after the warm-up. GB are 10^9 bytes of payload; a
  packet is the payload and 56 bytes more, as long as the transport's headers are. CPU seconds
  are those of both processes, over the whole run. Sender and receiver each poll on a processor of
  their own. Data that is dropped is not sent again: kernel_drops counts it.

EXIT CODES
  0 done; 1 the network, the peer or this host failed; 2 wrong arguments)";

[[noreturn]] void refuse(const std::string& sentence) {
  std::cerr << "udp_limit: " << sentence << "; 'udp_limit --help' explains\n";
  std::exit(2);  // NOLINT(concurrency-mt-unsafe): there is one thread
}

struct Arguments {
  std::string role = "local";
  std::string address;
  bool has_messages = false;
  bool has_latency = false;
  std::uint32_t mtu = 8832;
  std::uint32_t bytes = 8;
  std::uint32_t sockets = 1;
  std::uint32_t super_packets = UdpSender::kMaxSegments;
  std::uint64_t window = 4U << 20U;
  std::uint64_t memory = 1U << 16U;
  double seconds = 1;
  double warmup_seconds = 0.2;
};

void declare(CLI::App& app, Arguments* a, Options* options) {
  app.footer(kFooter);
  app.add_option("role", a->role, "local (both processes here; default), server or client");
  app.add_option("address", a->address,
                 "to listen at (server, 0.0.0.0:4799) or of the server (client)");
  app.add_flag("--latency", a->has_latency, "ping-pong instead of a stream");
  app.add_flag("--messages", a->has_messages, "a stream of packets that carry 64 bytes each");
  app.add_option("--mtu", a->mtu, "payload of each packet, 1..65451 (8832)");
  app.add_option("--bytes", a->bytes, "of each datagram of --latency, 1..65507 (8)");
  app.add_option("--sockets", a->sockets, "that send by turns, 1..256 (1)");
  app.add_option("--segments", a->super_packets,
                 "packets per super-packet, 1..64 (64, or as many as 64 KiB hold)");
  app.add_option("--window", a->window, "bytes under way at most, 65536..4194304 (4194304)");
  app.add_option("--memory", a->memory,
                 "bytes that each side reads or fills round and round, 65536..2^30 (65536)");
  app.add_option("-D,--duration", a->seconds, "seconds, 0.01..600 (1)");
  app.add_option("--warmup", a->warmup_seconds, "seconds before that, 0..600 (0.2)");
  app.add_option("--sender-cpu", options->sender_cpu, "processor of the sender, -1: any (0)");
  app.add_option("--receiver-cpu", options->receiver_cpu, "processor of the receiver, -1: any (1)");
  app.add_flag("--once", options->serves_once, "server: end after one test");
  app.add_flag("--json", options->has_json, "one JSON object instead of a sentence");
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters)
void require(const char* option, double value, double low, double high) {
  if (value >= low && value <= high) return;
  std::ostringstream text;
  text << option << " " << value << " is outside " << low << ".." << high;
  refuse(text.str());
}

void check_ranges(const Arguments& a, const Options& options) {
  require("--mtu", a.mtu, 1, kMaxPacketBytes - kHeaderBytes);
  require("--bytes", a.bytes, 1, kMaxPacketBytes);
  require("--sockets", a.sockets, 1, kMaxSockets);
  require("--segments", a.super_packets, 1, UdpSender::kMaxSegments);
  require("--window", static_cast<double>(a.window), 65536, 4 << 20);
  require("--memory", static_cast<double>(a.memory), 65536, static_cast<double>(kMaxMemoryBytes));
  require("--duration", a.seconds, 0.01, kMaxMilliseconds / 1000.0);
  require("--warmup", a.warmup_seconds, 0, kMaxMilliseconds / 1000.0);
  const auto processors = static_cast<double>(sysconf(_SC_NPROCESSORS_CONF));
  require("--sender-cpu", options.sender_cpu, -1, processors - 1);
  require("--receiver-cpu", options.receiver_cpu, -1, processors - 1);
}

TestPlan plan_of(const Arguments& a) {
  TestPlan plan;
  plan.test = a.has_latency ? Test::kPingPong : Test::kStream;
  plan.payload_bytes = a.has_messages ? kSmallMessageBytes : a.mtu;
  plan.packet_bytes = plan.payload_bytes + kHeaderBytes;
  if (a.has_latency) plan.payload_bytes = plan.packet_bytes = a.bytes;
  plan.sockets = a.sockets;
  plan.packets_per_super = static_cast<std::uint32_t>(std::max<std::uint64_t>(
      1, std::min<std::uint64_t>(a.super_packets, kSuperPacketBytes / plan.packet_bytes)));
  plan.window_bytes = a.window;
  plan.memory_bytes = a.memory / 65536 * 65536;
  plan.warmup_ms = static_cast<std::uint32_t>(a.warmup_seconds * 1000);
  plan.duration_ms = static_cast<std::uint32_t>(a.seconds * 1000);
  return plan;
}

}  // namespace

Options parse_command_line(int argc, char** argv) {
  Options options;
  // A single processor is shared; who has two takes one for each.
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) options.sender_cpu = options.receiver_cpu = -1;
  Arguments arguments;
  CLI::App app(kAbout, "udp_limit");
  declare(app, &arguments, &options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) std::exit(app.exit(error));  // NOLINT(concurrency-mt-unsafe)
    refuse(error.what());
  }
  if (arguments.role == "server") {
    options.role = Role::kServer;
    options.address = arguments.address.empty() ? "0.0.0.0:4799" : arguments.address;
  } else if (arguments.role == "client") {
    options.role = Role::kClient;
    if (arguments.address.empty()) refuse("the client needs the server's address");
    options.address = arguments.address;
  } else if (arguments.role != "local") {
    refuse("there is no '" + arguments.role + "'; choose local, server or client");
  } else if (!arguments.address.empty()) {
    refuse("local takes no address, it uses 127.0.0.1");
  }
  if (arguments.has_latency && arguments.has_messages) refuse("choose --latency or --messages");
  check_ranges(arguments, options);
  options.plan = plan_of(arguments);
  return options;
}

nlohmann::json to_json(const TestPlan& plan) {
  return {{"test", plan.test == Test::kStream ? "stream" : "ping_pong"},
          {"packet_bytes", plan.packet_bytes},
          {"payload_bytes", plan.payload_bytes},
          {"sockets", plan.sockets},
          {"packets_per_super", plan.packets_per_super},
          {"window_bytes", plan.window_bytes},
          {"memory_bytes", plan.memory_bytes},
          {"warmup_ms", plan.warmup_ms},
          {"duration_ms", plan.duration_ms}};
}

Result<TestPlan> parse_plan(const nlohmann::json& object) {
  TestPlan plan;
  try {
    plan.test = object.at("test") == "stream" ? Test::kStream : Test::kPingPong;
    object.at("packet_bytes").get_to(plan.packet_bytes);
    object.at("payload_bytes").get_to(plan.payload_bytes);
    object.at("sockets").get_to(plan.sockets);
    object.at("packets_per_super").get_to(plan.packets_per_super);
    object.at("window_bytes").get_to(plan.window_bytes);
    object.at("memory_bytes").get_to(plan.memory_bytes);
    object.at("warmup_ms").get_to(plan.warmup_ms);
    object.at("duration_ms").get_to(plan.duration_ms);
  } catch (const nlohmann::json::exception& error) {
    return Error(ErrorCode::kInvalidArgument,
                 std::string("the client's test is not understood (") + error.what() +
                     "); use the same build of udp_limit on both sides");
  }
  if (plan.packet_bytes == 0 || plan.packet_bytes > kMaxPacketBytes ||
      plan.payload_bytes > plan.packet_bytes || plan.memory_bytes < 65536 ||
      plan.memory_bytes > kMaxMemoryBytes || plan.window_bytes < 65536) {
    return Error(
        ErrorCode::kInvalidArgument,
        "the client's test is out of range; use the same build of udp_limit on both sides");
  }
  return plan;
}

}  // namespace spindrift::limit
