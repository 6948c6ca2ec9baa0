// Loading, properties, and the ends of a process.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <set>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include "tools/nccl/cases.h"

namespace spindrift::nccl_check {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 40;

bool is_mapped(const std::string& file) {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  while (std::getline(maps, line))
    if (line.ends_with(file)) return true;
  return false;
}

void check_properties(const Properties& p, int index, int count) {
  const std::string who = "device " + std::to_string(index) + " (" + p.name + ")";
  require(!p.name.empty(), who + " has no name");
  require(p.pci_path.empty() || ::access(p.pci_path.c_str(), F_OK) == 0,
          who + ": pciPath does not exist: " + p.pci_path);
  require(p.pci_path.empty() || p.pci_path.front() == '/', who + ": pciPath is not absolute");
  require((p.ptr_support & nccl::kPtrHost) != 0, who + " does not support host memory");
  require(p.speed_mbps > 0, who + ": speed is not positive, and NCCL would assume 10 Gb/s");
  require(p.latency >= 0, who + ": the latency is negative");
  require(p.max_comms > 0, who + ": maxComms is not positive");
  require(p.max_receives >= 1 && p.max_receives <= nccl::kMaxReceives,
          who + ": maxRecvs is not in 1..8");
  require(p.device_type >= 0 && p.device_type <= 3,
          who + ": netDeviceType is unknown, and NCCL would refuse the plugin");
  if (p.parts.empty()) return;
  require(p.max_p2p_bytes > 0 && p.max_p2p_bytes <= kMostBytes,
          who + ": maxP2pBytes is not in 1..1 TiB");
  require(p.max_coll_bytes > 0 && p.max_coll_bytes <= kMostBytes,
          who + ": maxCollBytes is not in 1..1 TiB");
  for (const int part : p.parts)
    require(part >= 0 && part < count, who + ": vProps names a device that is not there");
}

void properties(Rank& rank) {
  Net& net = rank.net();
  require(net.name() != nullptr && *net.name() != '\0', "it has no name");
  int count = -1;
  require_ok(net.devices(&count), "devices");
  require(count > 0, "it has no devices here, and NCCL would fall through to its sockets");
  std::set<std::string> names;
  std::set<std::pair<std::uint64_t, int>> ports;
  for (int i = 0; i < count; ++i) {
    Properties p;
    require_ok(net.properties(i, &p), "getProperties");
    check_properties(p, i, count);
    require(names.insert(p.name).second,
            "two devices are named " + p.name + ": NCCL's topology would know one of them only");
    require(ports.insert({p.guid, p.port}).second || p.parts.size() > 1,
            "two devices share guid and port: " + p.name);
  }
}

void init_twice(Rank& rank) {
  rank.net();
  const auto again = Library(rank.plugin()).net(rank.version());
  require_ok(again->init(), "a second init");
  int count = 0;
  require_ok(again->devices(&count), "devices after it");
  require(count > 0, "no devices after a second init");
  Channel channel = rank.open_channel(0, 0, 0);
  rank.close(channel);
  require_ok(again->finalize(), "finalize of the second");
  require_ok(rank.net().finalize(), "finalize of the first");
}

void finalize_null(Rank& rank) {
  require_ok(rank.net().finalize_null(), "finalize(NULL)");
  require_ok(rank.net().finalize(), "finalize");
}

void reload(Rank& rank) {
  for (int i = 0; i < 3; ++i) {
    Channel channel = rank.open_channel(0, 0, i);
    run_ring(rank, channel, 4, 4096, 2);
    rank.close(channel);
    require_ok(rank.net().finalize(), "finalize");
    rank.unload();
    char resolved[4096];
    if (::realpath(rank.plugin().c_str(), resolved) != nullptr)
      require(!is_mapped(resolved), "dlclose left it loaded: NCCL could not load it anew");
  }
}

void exit_open(Rank& rank) {
  Channel channel = rank.open_channel(0, 0, 0);
  run_ring(rank, channel, 4, 4096, 2);
}

void child_ends(const std::function<void()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    body();
    std::exit(0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  require(WIFEXITED(status) && WEXITSTATUS(status) == 0,
          "a forked child did not end well (status " + std::to_string(status) + ")");
}

// As PyTorch's data loaders: children that never call the plugin, and end or run something else.
void fork_child(Rank& rank) {
  Channel channel = rank.open_channel(rank.next(), rank.previous(), 0);
  run_ring(rank, channel, 8, 65536, 4);
  child_ends([] {});
  run_ring(rank, channel, 8, 65536, 4);
  child_ends([] { ::execl("/bin/true", "true", nullptr); });
  run_ring(rank, channel, 8, 65536, 4);
  rank.barrier();
  rank.close(channel);
}

constexpr Case kCases[] = {
    {"properties", "loading", "devices have unique names, real PCI paths, speeds and limits", 1,
     properties},
    {"init_twice", "loading", "a second init in one process works", 1, init_twice},
    {"finalize_null", "loading", "finalize(NULL) is harmless", 1, finalize_null},
    {"reload", "loading", "dlclose after the last connection unloads it, and it can be loaded anew",
     1, reload},
    {"exit_open", "loading", "a process may exit with connections open and without finalize", 1,
     exit_open},
    {"fork", "loading", "children of fork() end well, and their parent goes on", 2, fork_child},
};

}  // namespace

std::span<const Case> loading_cases() {
  return kCases;
}

}  // namespace spindrift::nccl_check
