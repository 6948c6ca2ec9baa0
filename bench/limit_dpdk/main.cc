// dpdk_limit: what two processes can do over a pair of DPDK devices with nothing above them but the
// copies of payload into packets and out of them: the yardstick of `./dev bench dpdk`.
//
//   stream    frames one way, from the far device to the near one
//   ping      a frame there and back; with --acknowledged, each followed by another one as long, as
//             transports that acknowledge need
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "providers/dpdk/pools.h"
#include "providers/dpdk/port_device.h"
#include "providers/monotonic_clock.h"

namespace spindrift::limit {
namespace {

constexpr std::size_t kBurst = 32;
constexpr std::size_t kHeaderBytes = 42;         // Ethernet, IPv4, UDP: what a packet would have
constexpr std::size_t kMemoryBytes = 4U << 20U;  // that payload comes from and goes to
constexpr std::uint64_t kCheckedPackets = 2000;
constexpr std::uint64_t kAcknowledgement = ~std::uint64_t{0};  // in the place of a frame's number

struct Options {
  std::string what = "stream";
  std::string near_device;  // "net_memif0,role=server,..."
  std::string far_device;
  std::uint32_t payload_bytes = 4096;
  std::uint32_t mtu = 9000;
  bool has_external_buffers = false;
  bool is_acknowledged = false;
  double seconds = 1;
  int first_cpu = 0;
  int second_cpu = 1;
};

void bind_to(int cpu) {
  if (cpu < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(cpu), &set);
  static_cast<void>(sched_setaffinity(0, sizeof(set), &set));
}

[[noreturn]] void give_up(const std::string& sentence) {
  std::printf("%s\n", nlohmann::json{{"error", sentence}}.dump().c_str());
  std::exit(1);
}

// One end: the device, packets to send, and memory.
class End {
 public:
  End(const std::string& device, const Options& options) : memory_(kMemoryBytes) {
    DeviceOptions wanted;
    wanted.device = device.substr(0, device.find(','));
    const std::size_t comma = device.find(',');
    if (comma != std::string::npos) wanted.arguments = device.substr(comma + 1);
    wanted.mtu = options.mtu;
    auto opened = PortDevice::open(wanted);
    if (!opened.ok()) give_up(opened.error().message());
    device_ = std::move(opened).value();
    pool_ = take_pool(pool_wish(wanted, device_->socket()));
    if (pool_ == nullptr) give_up("no memory for packets");
    for (std::size_t i = 0; i < memory_.size(); ++i)
      memory_[i] = static_cast<std::byte>(i * 31 + (i >> 8U));
    while (!device_->is_up())
      usleep(1000);
  }
  PortDevice& device() { return *device_; }
  // Where the payload of a packet lies, at both ends.
  std::byte* place(std::uint64_t number, std::size_t bytes) {
    return memory_.data() + number % (kMemoryBytes / bytes) * bytes;
  }

  rte_mbuf* make(std::uint64_t number, const Options& options) {
    rte_mbuf* frame = rte_pktmbuf_alloc(pool_);
    if (frame == nullptr) return nullptr;
    const std::size_t bytes = options.payload_bytes;
    char* at = rte_pktmbuf_append(frame, kHeaderBytes);
    std::memcpy(at + 34, &number, sizeof number);
    const std::byte* payload = place(number, bytes);
    if (!options.has_external_buffers) {
      std::memcpy(rte_pktmbuf_append(frame, static_cast<std::uint16_t>(bytes)), payload, bytes);
      return frame;
    }
    rte_mbuf* tail = rte_pktmbuf_alloc(pool_);
    if (tail == nullptr) {
      rte_pktmbuf_free(frame);
      return nullptr;
    }
    auto* shared = &shared_[number % shared_.size()];
    shared->free_cb = [](void*, void*) {};
    rte_mbuf_ext_refcnt_set(shared, 1);
    rte_pktmbuf_attach_extbuf(tail, const_cast<std::byte*>(payload), RTE_BAD_IOVA,
                              static_cast<std::uint16_t>(bytes), shared);
    tail->data_off = 0;
    tail->data_len = static_cast<std::uint16_t>(bytes);
    tail->pkt_len = tail->data_len;
    rte_pktmbuf_chain(frame, tail);
    return frame;
  }
  static std::uint64_t number_of(const rte_mbuf* frame) {
    std::uint64_t number = 0;
    std::memcpy(&number, rte_pktmbuf_mtod(frame, const std::byte*) + 34, sizeof number);
    return number;
  }
  // Copies the payload out; false: it is not what was sent.
  bool take(rte_mbuf* frame, const Options& options, std::vector<std::byte>& into,
            std::uint64_t count) {
    const auto* at = rte_pktmbuf_mtod(frame, const std::byte*);
    const std::uint64_t number = number_of(frame);
    const std::size_t bytes = options.payload_bytes;
    std::byte* target = into.data() + number % (kMemoryBytes / bytes) * bytes;
    std::memcpy(target, at + kHeaderBytes, bytes);
    return count > kCheckedPackets || std::memcmp(target, place(number, bytes), bytes) == 0;
  }

 private:
  std::unique_ptr<PortDevice> device_;
  rte_mempool* pool_ = nullptr;
  std::vector<std::byte> memory_;
  std::array<rte_mbuf_ext_shared_info, 8192> shared_{};
};

void send_for_ever(End& end, const Options& options) {
  std::uint64_t number = 0;
  for (;;) {
    std::array<rte_mbuf*, kBurst> frames{};
    std::size_t count = 0;
    while (count < kBurst && (frames[count] = end.make(number, options)) != nullptr) {
      ++count;
      ++number;
    }
    std::size_t sent = 0;
    while (sent < count)
      sent += end.device().transmit(0, std::span(frames).subspan(sent, count - sent));
  }
}

nlohmann::json receive(End& end, const Options& options) {
  std::vector<std::byte> into(kMemoryBytes);
  std::uint64_t packets = 0;
  std::uint64_t before = 0;
  Time start{};
  const Duration length(static_cast<std::int64_t>(options.seconds * 1e9));
  for (;;) {
    std::array<rte_mbuf*, kBurst> frames{};
    const std::size_t count = end.device().receive(0, frames);
    for (std::size_t i = 0; i < count; ++i) {
      // Where the kernel has the interface too, it says a word of its own when a link comes up.
      if (frames[i]->pkt_len != kHeaderBytes + options.payload_bytes) continue;
      if (!end.take(frames[i], options, into, packets++)) give_up("payload arrived damaged");
    }
    if (count != 0) rte_pktmbuf_free_bulk(frames.data(), static_cast<unsigned>(count));
    if (packets < 2 * kCheckedPackets) continue;
    const Time now = monotonic_now();
    if (start == Time{}) {
      start = now;
      before = packets;
    }
    if (now - start < length) continue;
    const double rate =
        static_cast<double>(packets - before) * 1e9 / static_cast<double>((now - start).count());
    return {{"packets_per_s", rate}, {"gb_per_s", rate * options.payload_bytes / 1e9}};
  }
}

bool send_one(End& end, const Options& options, std::uint64_t number) {
  rte_mbuf* frame = end.make(number, options);
  if (frame == nullptr || end.device().transmit(0, {&frame, 1}) == 1) return frame != nullptr;
  rte_pktmbuf_free(frame);
  return false;
}

// One frame, if there is one; true: it is no acknowledgement, and its payload has been copied out.
bool take_one(End& end, const Options& options, std::vector<std::byte>& into) {
  rte_mbuf* frame = nullptr;
  if (end.device().receive(0, {&frame, 1}) == 0) return false;
  const bool is_acknowledgement = End::number_of(frame) == kAcknowledgement;
  if (!is_acknowledgement) static_cast<void>(end.take(frame, options, into, ~std::uint64_t{0}));
  rte_pktmbuf_free(frame);
  return !is_acknowledgement;
}

void echo_for_ever(End& end, const Options& options) {
  std::vector<std::byte> into(kMemoryBytes);
  for (std::uint64_t number = 0;;) {
    if (!take_one(end, options, into)) continue;
    static_cast<void>(send_one(end, options, number++));
    if (options.is_acknowledged) static_cast<void>(send_one(end, options, kAcknowledgement));
  }
}

nlohmann::json ping(End& end, const Options& options) {
  std::vector<std::byte> into(kMemoryBytes);
  std::vector<std::int64_t> times;
  times.reserve(1U << 22U);
  constexpr Duration kLinkPatience = std::chrono::seconds(10);
  const Duration length(static_cast<std::int64_t>(options.seconds * 1e9));
  Time now = monotonic_now();
  // The time runs from the first frame that the link takes: both ends must have met before.
  Time stop = now + kLinkPatience;
  for (std::uint64_t number = 0; now < stop && times.size() < times.capacity(); ++number) {
    const Time begin = now;
    if (!send_one(end, options, number)) {
      now = monotonic_now();
      continue;
    }
    if (times.empty()) stop = now + length;
    if (options.is_acknowledged) static_cast<void>(send_one(end, options, kAcknowledgement));
    while (!take_one(end, options, into)) {
      now = monotonic_now();
      if (now - begin > std::chrono::milliseconds(100)) break;  // lost
    }
    now = monotonic_now();
    times.push_back((now - begin).count());
  }
  if (times.empty()) give_up("nothing came back");
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  return {{"round_trip_ns", times[times.size() / 2]}};
}

// The near end exists first: servers and hosts of memory links must.
int run(const Options& options) {
  int ready[2];
  if (pipe(ready) != 0) return 1;
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bind_to(options.second_cpu);
    char byte = 0;
    if (read(ready[0], &byte, 1) != 1) _exit(1);
    static End end(options.far_device, options);
    if (options.what == "ping")
      echo_for_ever(end, options);
    else
      send_for_ever(end, options);
  }
  bind_to(options.first_cpu);
  // The device listens once it is started; End waits for the link, which takes the other process.
  close(ready[0]);
  std::signal(SIGCHLD, [](int) {
    constexpr char kText[] = "{\"error\":\"the other process ended\"}\n";
    static_cast<void>(!write(STDOUT_FILENO, kText, sizeof kText - 1));
    _exit(1);
  });
  std::thread telling([&] {
    usleep(700000);
    static_cast<void>(!write(ready[1], "x", 1));
  });
  static End end(options.near_device, options);
  telling.join();
  const nlohmann::json result = options.what == "ping" ? ping(end, options) : receive(end, options);
  std::signal(SIGCHLD, SIG_DFL);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  std::printf("%s\n", result.dump().c_str());
  std::fflush(stdout);
  _exit(0);  // DPDK's threads are not waited for
}

}  // namespace
}  // namespace spindrift::limit

int main(int argc, char** argv) {
  spindrift::limit::Options options;
  CLI::App app("What a pair of DPDK devices carries between two processes");
  app.add_option("what", options.what, "stream or ping")->check(CLI::IsMember({"stream", "ping"}));
  app.add_option("--near", options.near_device, "DEVICE,ARGUMENTS of the end that is first")
      ->required();
  app.add_option("--far", options.far_device, "DEVICE,ARGUMENTS of the other end")->required();
  app.add_option("-s,--size", options.payload_bytes, "bytes of payload per frame")
      ->check(CLI::Range(1, 60000));
  app.add_option("--mtu", options.mtu, "largest IP packet")->check(CLI::Range(1280, 65000));
  app.add_flag("--external", options.has_external_buffers,
               "payload is sent from where it lies (external buffers) instead of copied");
  app.add_flag("--acknowledged", options.is_acknowledged,
               "ping: each frame is followed by another one of its length");
  app.add_option("-D,--duration", options.seconds, "seconds")->check(CLI::Range(0.01, 60.0));
  app.add_option("--first-cpu", options.first_cpu, "of the receiver; -1: any");
  app.add_option("--second-cpu", options.second_cpu, "of the sender; -1: any");
  CLI11_PARSE(app, argc, argv);
  return spindrift::limit::run(options);
}
