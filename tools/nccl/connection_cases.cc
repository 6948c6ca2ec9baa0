// Listening, connecting, accepting.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/nccl/cases.h"

namespace spindrift::nccl_check {
namespace {

using std::chrono::steady_clock;

void connect_self(Rank& rank) {
  Channel channel = rank.open_channel(0, 0, 0);
  run_ring(rank, channel, 8, 65536, 4);
  rank.close(channel);
  require_ok(rank.net().finalize(), "finalize");
}

// Several times before the other side does anything.
void connect_early(Rank& rank) {
  Net& net = rank.net();
  char* shared = rank.arena().handles[0][1][0];
  void* listener = nullptr;
  void* comm = nullptr;
  if (rank.rank() == 0) require_ok(net.listen(0, shared, &listener), "listen");
  rank.barrier();
  if (rank.rank() == 1) {
    char handle[nccl::kHandleBytes];
    std::memcpy(handle, shared, sizeof(handle));
    for (int i = 0; i < 100; ++i)
      if (comm == nullptr) require_ok(net.connect(0, handle, &comm), "connect");
    rank.arena().signals[0].store(1);
    while (comm == nullptr)
      require_ok(net.connect(0, handle, &comm), "connect");
  } else {
    void* none = nullptr;
    rank.wait_signal(0, 1);
    while (none == nullptr)
      require_ok(net.accept(listener, &none), "accept");
    comm = none;
    require_ok(net.close_listen(listener), "closeListen");
  }
  rank.barrier();
  require_ok(rank.rank() == 0 ? net.close_recv(comm) : net.close_send(comm), "close");
}

void accept_nobody(Rank& rank) {
  Net& net = rank.net();
  char handle[nccl::kHandleBytes] = {};
  void* listener = nullptr;
  require_ok(net.listen(0, handle, &listener), "listen");
  for (int i = 0; i < 1000; ++i) {
    void* comm = reinterpret_cast<void*>(std::uintptr_t{0xdead});
    require_ok(net.accept(listener, &comm), "accept");
    require(comm == nullptr, "accept invented a connection");
  }
  require_ok(net.close_listen(listener), "closeListen");
}

// NCCL would wait for ever if it were said to be under way.
void foreign_handle(Rank& rank) {
  char handle[nccl::kHandleBytes];
  std::memset(handle, 0x5a, sizeof(handle));
  void* comm = nullptr;
  const NcclResult result = rank.net().connect(0, handle, &comm);
  require(result != nccl::kSuccess && comm == nullptr,
          "connect took a handle of another plugin for one of its own");
}

void close_null(Rank& rank) {
  Net& net = rank.net();
  require_ok(net.close_send(nullptr), "closeSend(NULL)");
  require_ok(net.close_recv(nullptr), "closeRecv(NULL)");
  require_ok(net.close_listen(nullptr), "closeListen(NULL)");
}

struct Port {
  bool is_udp = false;
  bool is_v6 = false;
  std::array<std::uint8_t, 16> ip{};
  std::uint16_t number = 0;
};

std::set<std::string> own_inodes() {
  std::set<std::string> out;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const std::string target = std::filesystem::read_symlink(entry.path(), ignored).string();
    if (target.starts_with("socket:[")) out.insert(target.substr(8, target.size() - 9));
  }
  return out;
}

// IPv4 sockets of this process that strangers can reach.
std::vector<Port> own_ports(const char* file, bool is_udp) {
  std::vector<Port> out;
  const std::set<std::string> inodes = own_inodes();
  std::ifstream table(file);
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::string slot, local, remote, state, queue, timer, retransmits, user, timeout, inode;
    words >> slot >> local >> remote >> state >> queue >> timer >> retransmits >> user >> timeout >>
        inode;
    if (!inodes.contains(inode) || (!is_udp && state != "0A")) continue;
    Port port{.is_udp = is_udp};
    const std::uint32_t ip =
        static_cast<std::uint32_t>(std::stoul(local.substr(0, 8), nullptr, 16));
    std::memcpy(port.ip.data(), &ip, 4);
    port.number = static_cast<std::uint16_t>(std::stoul(local.substr(9), nullptr, 16));
    out.push_back(port);
  }
  return out;
}

void bother(const Port& port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  std::memcpy(&to.sin_addr, port.ip.data(), 4);
  to.sin_port = htons(port.number);
  const int fd = ::socket(AF_INET, port.is_udp ? SOCK_DGRAM : SOCK_STREAM, 0);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0) {
    const char request[] = "GET / HTTP/1.0\r\n\r\n";
    for (int i = 0; i < 3; ++i)
      static_cast<void>(::send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL));
    if (!port.is_udp) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ::close(fd);
}

// A port scanner finds the port before the peer does.
void strangers(Rank& rank) {
  Net& net = rank.net();
  char* shared = rank.arena().handles[0][1][0];
  void* listener = nullptr;
  void* comm = nullptr;
  if (rank.rank() == 0) {
    require_ok(net.listen(0, shared, &listener), "listen");
    std::vector<Port> ports = own_ports("/proc/net/udp", true);
    const std::vector<Port> tcp = own_ports("/proc/net/tcp", false);
    ports.insert(ports.end(), tcp.begin(), tcp.end());
    require(!ports.empty(), "listen opened no IPv4 port that could be found");
    for (const Port& port : ports) {
      bother(port);
      for (int i = 0; i < 100; ++i)
        if (comm == nullptr) require_ok(net.accept(listener, &comm), "accept after a stranger");
      require(comm == nullptr, "a stranger was accepted");
    }
  }
  rank.barrier();
  char handle[nccl::kHandleBytes];
  std::memcpy(handle, shared, sizeof(handle));
  while (comm == nullptr)
    require_ok(rank.rank() == 0 ? net.accept(listener, &comm) : net.connect(0, handle, &comm),
               "connecting after a stranger");
  if (listener != nullptr) require_ok(net.close_listen(listener), "closeListen");
  rank.barrier();
  require_ok(rank.rank() == 0 ? net.close_recv(comm) : net.close_send(comm), "close");
}

void many_comms(Rank& rank) {
  std::vector<Channel> channels;
  channels.reserve(kMaxChannels);
  for (int i = 0; i < kMaxChannels; ++i)
    channels.push_back(rank.open_channel(rank.next(), rank.previous(), i));
  for (Channel& channel : channels)
    run_ring(rank, channel, 4, 16384, 2);
  rank.barrier();
  for (Channel& channel : channels)
    rank.close(channel);
  require_ok(rank.net().finalize(), "finalize");
}

void merged(Rank& rank) {
  Net& net = rank.net();
  int count = 0;
  require_ok(net.devices(&count), "devices");
  if (!net.has_make_device()) throw Skipped("it does not merge devices, or this version cannot");
  if (count < 2) throw Skipped("this host has one device");
  int device = -1;
  require_ok(net.make_device({0, 1}, &device), "makeVDevice");
  Properties both;
  Properties first;
  require_ok(net.properties(device, &both), "getProperties of a merged device");
  require_ok(net.properties(0, &first), "getProperties");
  require(both.parts == std::vector<int>{0, 1}, "vProps of a merged device do not name its parts");
  require(both.speed_mbps > first.speed_mbps, "a merged device is no faster than its first part");
  int again = -1;
  require_ok(net.make_device({0, 1}, &again), "makeVDevice");
  Channel channel = rank.open_channel(rank.next(), rank.previous(), 0, device);
  run_ring(rank, channel, 64, 524288, 8);
  rank.barrier();
  rank.close(channel);
  require_ok(net.finalize(), "finalize");
}

// The service thread calls somebody who never answers; the progress thread must not notice.
void slow_connect(Rank& rank) {
  Net& net = rank.net();
  const bool is_silent = rank.rank() == 1;
  const int self = is_silent ? -1 : rank.rank();
  Channel channel = rank.open_channel(self, self, 0);
  char* shared = rank.arena().handles[1][0][0];
  if (is_silent) {
    void* listener = nullptr;
    require_ok(net.listen(0, shared, &listener), "listen");
    rank.barrier();
    ::raise(SIGSTOP);
    return;
  }
  rank.barrier();
  char handle[nccl::kHandleBytes];
  std::memcpy(handle, shared, sizeof(handle));
  std::atomic<bool> is_over{false};
  steady_clock::duration longest{};
  std::thread service([&] {
    void* comm = nullptr;
    while (!is_over && comm == nullptr) {
      const auto begin = steady_clock::now();
      if (net.connect(0, handle, &comm) != nccl::kSuccess) break;
      longest = std::max(longest, steady_clock::now() - begin);
    }
  });
  std::exception_ptr trouble;
  try {
    run_ring(rank, channel, 200, 65536, 8, self);
  } catch (...) {
    trouble = std::current_exception();
  }
  is_over = true;
  service.join();
  ::kill(rank.arena().pids[1].load(), SIGKILL);
  if (trouble) std::rethrow_exception(trouble);
  require(longest < std::chrono::seconds(1), "connect waited for a peer that does not answer");
}

constexpr Case kCases[] = {
    {"merged", "connecting", "two devices are merged into one that carries data", 2, merged},
    {"connect_self", "connecting",
     "a process connects to itself: neither connect nor accept blocks", 1, connect_self},
    {"connect_early", "connecting", "connect may be called long before the peer accepts", 2,
     connect_early},
    {"accept_nobody", "connecting", "accept without a caller says so at once, every time", 1,
     accept_nobody},
    {"foreign_handle", "connecting", "another plugin's handle is refused", 1, foreign_handle},
    {"close_null", "connecting", "closing NULL is harmless", 1, close_null},
    {"strangers", "connecting", "strangers on the port are refused, and the wait goes on", 2,
     strangers},
    {"slow_connect", "connecting", "a peer that does not answer holds up neither connect nor data",
     2, slow_connect, 1},
    {"comms_64", "connecting", "64 connections at once between two processes", 2, many_comms},
};

}  // namespace

std::span<const Case> connection_cases() {
  return kCases;
}

}  // namespace spindrift::nccl_check
